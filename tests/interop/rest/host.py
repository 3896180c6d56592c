"""What this host shows of processes, mounts and firewalls, and what tests do to them."""

import ctypes
import os
import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

KERNEL = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36


def wait_until(condition, what, seconds=60.0):
    """Returns what the condition gave, once that is true. The limit is for machines that stand still at times."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.01)
    return value


def adopt_orphans():
    """What outlives its parent becomes a child of this process, where it cannot be overlooked."""
    assert KERNEL.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def mount(source, target, kind, flags, data):
    if KERNEL.mount(source.encode(), str(target).encode(), kind.encode(), flags, data.encode()):
        raise OSError(ctypes.get_errno(), f"cannot mount {target}")


def unmount(target):
    if KERNEL.umount2(str(target).encode(), 2):
        raise OSError(ctypes.get_errno(), f"cannot unmount {target}")


@contextmanager
def state_on(tmp_path, options):
    """A small file system of its own for the state of a daemon."""
    place = tmp_path / "mount"
    place.mkdir()
    mount("none", place, "tmpfs", 0, f"mode=700,{options}")
    try:
        yield place
    finally:
        unmount(place)


def fill(place):
    """Takes every byte that is left there, until `filler` is removed."""
    with open(place / "filler", "wb", buffering=0) as filler:
        for size in (65536, 4096, 1):
            try:
                while True:
                    filler.write(b"x" * size)
            except OSError:
                continue


def parents():
    """Every process and its parent."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text(errors="replace")
        except OSError:
            continue
        found[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    return found


def descendants(pid):
    table = parents()
    found = {pid}
    while new := {child for child, parent in table.items() if parent in found} - found:
        found |= new
    return found - {pid}


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes_with(text):
    """Those with the text in their command line, in boxes as well; not the ones that look for it."""
    mine = {os.getpid(), os.getppid()}
    return {pid for pid in parents() if pid not in mine and text in command_line(pid)}


def status_field(pid, name):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def nft_tables():
    shown = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in shown.stdout.splitlines()}


def orphans():
    """Launchers and guests whose daemon has ended; those that have ended as well are buried."""
    found = set()
    for pid, parent in parents().items():
        if parent != os.getpid():
            continue
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            continue
        if "(memfd:caisson" not in stat:
            continue
        if ") Z " in stat:
            os.waitpid(pid, 0)
        else:
            found.add(pid)
    return found
