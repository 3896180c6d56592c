"""The disk below the state directory stands still, for as long as it likes: nothing is lost, and from the second time on
only those wait who need it."""

import subprocess
from pathlib import Path

import pytest

from rest.host import wait_until

from .managed import output, show, start_shell

COUNTER = "i=0; while [ ! -e stop ]; do echo $i; i=$((i + 1)); sleep 0.01; done; echo end"


class Disk:
    """A file system of its own, which can be made to stand still: whoever writes to it sleeps in the kernel."""

    def __init__(self, directory):
        self.image, self.path, self.frozen = directory / "image", directory / "disk", False
        self.path.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(256 << 20)
        self.run("mkfs.ext4", "-q", self.image)
        self.run("mount", "-o", "loop", self.image, self.path)

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True, timeout=120)

    def freeze(self):
        self.run("fsfreeze", "--freeze", self.path)
        self.frozen = True

    def thaw(self):
        self.run("fsfreeze", "--unfreeze", self.path)
        self.frozen = False

    def close(self):
        if self.frozen:
            self.thaw()
        self.run("umount", self.path)


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    yield disk
    disk.close()


def waits_for_disk(pid):
    """Whether a thread sleeps in the kernel and cannot be woken by signals."""

    def sleeps(stat):
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "D"
        except OSError:
            return False

    return any(sleeps(stat) for stat in Path(f"/proc/{pid}/task").glob("*/stat"))


def test_a_disk_that_stands_still_loses_nothing_and_stops_the_daemon_only_once(disk, start_daemon):
    daemon = start_daemon(state=disk.path / "state")
    client = daemon.client
    client.output("beside", "true")
    start_shell(client, "s", COUNTER)
    wait_until(lambda: output(client, "s").body, "the first number")

    disk.freeze()
    wait_until(lambda: waits_for_disk(daemon.pid), "somebody who writes to it")
    disk.thaw()
    client.output("beside", "true")

    for _ in range(3):
        disk.freeze()
        wait_until(lambda: waits_for_disk(daemon.pid), "somebody who writes to it")
        assert client.output("beside", "echo works") == "works"
        assert show(client, "s")["status"] == "running"
        assert client("GET", "/metrics").status == 200
        disk.thaw()

    client.output("s", "touch stop")
    wait_until(lambda: output(client, "s").body.endswith(b"end\n"), "the last number")
    *numbers, _ = output(client, "s").body.split()
    assert numbers == [str(number).encode() for number in range(len(numbers))]
    daemon.stop()
