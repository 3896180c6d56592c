"""Skill packages and archives of them."""

import io
import zipfile


def skill(name, description="", instructions="Do it."):
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{instructions}\n"


def packed(files, compression=zipfile.ZIP_STORED):
    """An archive of names and contents; a name may be a ZipInfo."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()
