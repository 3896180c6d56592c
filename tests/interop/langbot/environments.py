"""Virtual environments for programs of LangBot."""

import subprocess
from pathlib import Path

LIMIT = 180  # seconds that nothing here takes, on machines that stand still at times


def python_of(place):
    return Path(place) / "bin" / "python"


def packages_of(place):
    """Where an environment has its packages."""
    where = [python_of(place), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(where, check=True, capture_output=True, text=True, timeout=LIMIT).stdout.strip())


def environment_upon(shared, directory):
    """An environment with the packages of another, and room for more beside them that is nobody else's."""
    place = Path(directory) / "venv"
    subprocess.run([python_of(shared), "-m", "venv", "--without-pip", place], check=True, timeout=LIMIT)
    everything = f"import site; site.addsitedir({str(packages_of(shared))!r})\n"
    (packages_of(place) / "shared_packages.pth").write_text(everything)
    return place
