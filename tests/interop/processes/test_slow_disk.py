"""The disk below the state directory stands still, for as long as it likes: nothing is lost, and from the second time on
only those wait who need it."""

import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from rest.daemon import Client
from rest.host import wait_until

from .managed import output, process_path, show, start_shell, wait_for_end

COUNTER = "i=0; while [ ! -e stop ]; do echo $i; i=$((i + 1)); sleep 0.01; done; echo end"


class Disk:
    """A file system of its own, which can be made to stand still: whoever writes to it sleeps in the kernel."""

    def __init__(self, directory):
        self.image, self.path = directory / "image", directory / "disk"
        self.path.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(256 << 20)
        self.run("mkfs.ext4", "-q", self.image)
        self.run("mount", "-o", "loop", self.image, self.path)

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True, timeout=120)

    @contextmanager
    def standing_still(self):
        self.run("fsfreeze", "--freeze", self.path)
        try:
            yield
        finally:
            self.run("fsfreeze", "--unfreeze", self.path)

    def close(self):
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

    with disk.standing_still():
        wait_until(lambda: waits_for_disk(daemon.pid), "somebody who writes to it")
        time.sleep(1)  # not to wait for anything: so long that it is a slow disk
    client.output("beside", "true")

    for number in range(3):
        start_shell(client, "s", f"while [ ! -e go{number} ]; do sleep 0.01; done; echo gone", process_id=f"p{number}")
        with disk.standing_still():
            wait_until(lambda: waits_for_disk(daemon.pid), "somebody who writes to it")
            starter = Client(daemon.port)
            starter.send("POST", process_path("s").rpartition("/")[0], {"command": "true", "process_id": f"q{number}"})
            assert client.output("beside", "echo works") == "works"
            client.output("s", f"touch go{number}")
            assert show(client, "s")["status"] == "running"
            assert client("GET", "/metrics").status == 200
        assert starter.receive().status == 201
        starter.close()
        for process, text in ((f"p{number}", b"gone\n"), (f"q{number}", b"")):
            assert wait_for_end(client, "s", process)["exit_code"] == 0
            assert output(client, "s", process).body == text

    client.output("s", "touch stop")
    wait_until(lambda: output(client, "s").body.endswith(b"end\n"), "the last number")
    *numbers, _ = output(client, "s").body.split()
    assert numbers == [str(number).encode() for number in range(len(numbers))]
    daemon.stop()
