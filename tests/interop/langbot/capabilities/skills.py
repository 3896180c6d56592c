"""Skills."""

import hashlib
import io
import zipfile
from pathlib import Path

from host import NotOffered
from langbot_plugin.box import errors
from langbot_plugin.box.models import BoxSpec

from capabilities import capability, check, refusal


def package(description="Greets", name="greeting"):
    return f"---\nname: {name}\ndescription: {description}\n---\n\nSay hello.\n"


def archive():
    """With noise, so that it takes several chunks."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("greeting/SKILL.md", package())
        file.writestr("greeting/scripts/hello.sh", "echo hello\n")
        file.writestr("greeting/noise", hashlib.shake_128(b"noise").digest(50_000))
    return packed.getvalue()


@capability("skills: upload, preview, install")
async def install(host):
    if not host.offers("preview_skill_zip"):
        raise NotOffered
    found = await host.call("preview_skill_zip", archive(), "My Greeting.zip")
    check([(one["name"], one["source_path"]) for one in found] == [("greeting", "")], "the preview is another")
    installed = await host.call("install_skill_zip", archive(), "My Greeting.zip")
    check([one["name"] for one in installed] == ["greeting"], "another skill is installed")
    check(Path(installed[0]["package_root"]).name == "My-Greeting-upload", "another directory")
    async with refusal(errors.BoxValidationError, "the same archive is installed twice"):
        await host.call("install_skill_zip", archive(), "My Greeting.zip")
    async with refusal(errors.BoxValidationError, "a broken archive is not refused"):
        await host.call("preview_skill_zip", b"PK not a zip", "broken.zip")


@capability("skills: list, show, read, write")
async def skills(host):
    check([one["name"] for one in await host.call("list_skills")] == ["greeting"], "the list is another")
    shown = await host.call("get_skill", "greeting")
    check((shown["description"], shown["instructions"].strip()) == ("Greets", "Say hello."), "another skill is shown")
    listed = await host.call("list_skill_files", "greeting")
    names = [entry["name"] for entry in listed["entries"]]
    check(sorted(names) == ["SKILL.md", "noise", "scripts"], "the list of files is another")
    check((await host.call("read_skill_file", "greeting", "scripts/hello.sh"))["content"] == "echo hello\n", "not read")
    written = await host.call("write_skill_file", "greeting", "notes/é.txt", "x€")
    check(written["bytes_written"] == 4, "another size is written")
    check((await host.call("read_skill_file", "greeting", "notes/é.txt"))["content"] == "x€", "not written")
    async with refusal(errors.BoxValidationError, "a path out of the package is not refused"):
        await host.call("read_skill_file", "greeting", "../../secret")
    check(await host.call("get_skill", "absent") is None, "a skill that is not there is shown")


@capability("skills: create, change, scan, delete")
async def change_skills(host):
    made = await host.call("create_skill", {"name": "made", "description": "One", "instructions": "Do."})
    check((made["name"], made["description"]) == ("made", "One"), "another skill is made")
    changed = await host.call("update_skill", "made", {"description": "Two"})
    check((changed["description"], changed["instructions"]) == ("Two", "Do."), "not changed")
    check((await host.call("scan_skill_directory", made["package_root"]))["name"] == "made", "not found again")
    for name in ("made", "greeting"):
        await host.call("delete_skill", name)
    check(await host.call("list_skills") == [], "not deleted")


@capability("skills: mounted into a box")
async def mounted_skill(host):
    if not host.offers("create_skill"):
        raise NotOffered
    made = await host.call("create_skill", {"name": "mounted", "description": "m", "instructions": "Here."})
    mounts = [{"host_path": made["package_root"], "mount_path": "/tmp/.skills/mounted", "mode": "ro"}]
    spec = {"skill_name": "mounted"} if "skill_name" in BoxSpec.model_fields else {}
    shown = await host.output("mounted", "cat /tmp/.skills/mounted/SKILL.md", extra_mounts=mounts, **spec)
    check("Here." in shown, "the skill is not in the box")
    await host.call("delete_session", "mounted")
    await host.call("delete_skill", "mounted")
