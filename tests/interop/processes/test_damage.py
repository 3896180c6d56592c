"""Files of streams that are damaged, removed or out of reach: the process goes on, and its readers are told what is gone.

While a daemon uses them, and while there is none.
"""

import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from rest.daemon import works
from rest.host import wait_until

from .managed import output, show, start_python, wait_for_end, wait_for_output
from .relay import Offsets

# Echoes lines with their numbers, so that what comes at an offset tells whether it belongs there.
ECHO = """
import sys
for line in sys.stdin:
    print('out', line, end='', flush=True)
    print('err', line, end='', file=sys.stderr, flush=True)
"""


def garbage(path):
    path.write_bytes(os.urandom(5000))


def garbage_in_place(path):
    with open(path, "r+b") as file:
        file.write(os.urandom(max(1, path.stat().st_size)))


def empty(path):
    path.write_bytes(b"")


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def remove(path):
    path.unlink()


def replace_by_directory(path):
    path.unlink()
    path.mkdir()


HARMS = [garbage, garbage_in_place, empty, cut, remove, replace_by_directory]
HARMS_TO_OPEN_FILES = [garbage_in_place, empty, cut, remove]
FILES = ["out", "out.index", "err", "err.index", "in", "in.state"]


class Echo:
    """A process that echoes, and a client of it that knows what each offset must have."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.pid = start_python(daemon.client, "s", ECHO)["pid"]
        [self.directory] = (daemon.state / "processes").iterdir()
        self.sequence = 0

    def say(self, count):
        """Sends lines and waits until the process has answered them."""
        with Offsets(self.daemon, "s", **{"from": show(self.daemon.client, "s")["stdout"]["end"]}) as relay:
            self.sequence = max(self.sequence, relay.hello["last_sequence"])
            for _ in range(count):
                self.sequence += 1
                relay.send(f"line {self.sequence}\n".encode(), self.sequence)
            last = f"out line {self.sequence}\n".encode()
            relay.bytes_until(lambda got: got.endswith(last))
        for stream in ("stdout", "stderr"):
            wait_until(
                lambda stream=stream: f"line {self.sequence}\n".encode() in self.tail(stream), f"the answer in {stream}"
            )

    def tail(self, stream):
        return output(self.daemon.client, "s", stream=stream, lines=1).body

    def read(self, stream):
        """All that can be read from offset 0 on, as {offset: bytes}, and the gaps between, as reported."""
        pieces, at = {}, 0
        while True:
            reply = output(self.daemon.client, "s", stream=stream, **{"from": at})
            assert reply.status == 200, reply
            if not reply.body:
                return pieces
            pieces[int(reply.headers["caisson-offset"])] = reply.body
            at = int(reply.headers["caisson-next-offset"])

    def expect_truth(self, stream, before):
        """Whatever stands at an offset now is what stood there before; new bytes are lines that were answered."""
        word = {"stdout": "out", "stderr": "err"}[stream]
        pieces = self.read(stream)
        assert pieces, "nothing can be read"
        for offset, body in pieces.items():
            known = before[offset : offset + len(body)]
            assert body[: len(known)] == known
            fresh = body[len(known) :]
            lines = fresh.split(b"\n")[1 if offset < len(before) else 0 : -1]
            assert all(line.startswith(f"{word} line ".encode()) for line in lines), fresh[:200]


def expect_goes_on(echo, before):
    assert show(echo.daemon.client, "s")["pid"] == echo.pid
    assert show(echo.daemon.client, "s")["status"] == "running"
    echo.say(20)
    for stream, known in before.items():
        echo.expect_truth(stream, known)


@contextmanager
def echo_of(daemon):
    echo = Echo(daemon)
    echo.say(50)
    before = {stream: output(daemon.client, "s", stream=stream).body for stream in ("stdout", "stderr")}
    yield echo, before
    expect_goes_on(echo, before)
    works(daemon)
    daemon.stop()


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_process_survives_what_happens_to_its_files_while_no_daemon_runs(start_daemon, name, harm):
    daemon = start_daemon()
    with echo_of(daemon) as (echo, _):
        daemon.kill()
        harm(echo.directory / name)
        daemon.start()


@pytest.mark.parametrize("harm", HARMS_TO_OPEN_FILES, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_process_survives_what_happens_to_its_files_while_a_daemon_runs(start_daemon, name, harm):
    daemon = start_daemon()
    with echo_of(daemon) as (echo, before):
        harm(echo.directory / name)
        expect_goes_on(echo, before)
        assert daemon.process.poll() is None
        daemon.kill()
        daemon.start()


@pytest.mark.parametrize("everything", [True, False], ids=["with the directory", "without the directory"])
def test_a_process_survives_the_loss_of_all_its_files(start_daemon, everything):
    daemon = start_daemon()
    with echo_of(daemon) as (echo, before):
        daemon.kill()
        for file in echo.directory.iterdir():
            file.unlink()
        if everything:
            echo.directory.rmdir()
        daemon.start()
        # Its offsets go on behind all that were used: none means two things.
        assert show(daemon.client, "s")["stdout"]["begin"] >= len(before["stdout"])


def test_a_reader_is_told_the_size_of_the_gap_and_people_find_the_file(start_daemon):
    daemon = start_daemon()
    with echo_of(daemon) as (echo, before):
        size = len(before["stdout"])
        daemon.kill()
        cut(echo.directory / "out")
        daemon.start()
        with Offsets(daemon, "s", **{"from": 0}) as relay:
            gap = relay.event("truncated")
            assert (gap["from"], gap["to"]) == (0, size)
        assert (echo.directory / "out.damaged-1").stat().st_size == size // 2
        assert (echo.directory / "out.damaged-1.index").exists()
        assert "out.damaged-1" in daemon.read_log()


def test_garbage_in_standard_error_is_no_internal_error(start_daemon):
    daemon = start_daemon()
    with echo_of(daemon) as (echo, _):
        for name in ("err", "err.index"):
            garbage_in_place(echo.directory / name)
            assert "stderr_preview" in show(daemon.client, "s")
        daemon.kill()
        garbage(echo.directory / "err.index")
        daemon.start()
        assert "stderr_preview" in show(daemon.client, "s")


@contextmanager
def read_only(directory):
    """The directory cannot be written to by anybody, for as long as this lasts."""
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", directory], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def test_a_daemon_refuses_a_read_only_state_directory_and_loses_nothing(start_daemon):
    daemon = start_daemon()
    with echo_of(daemon):
        daemon.kill()
        with read_only(daemon.state):
            daemon.launch()
            assert daemon.process.wait(60) != 0
            said = daemon.read_log()
            assert str(daemon.state) in said and "ead-only" in said, said
        daemon.start()


def test_a_process_that_ended_meanwhile_keeps_its_result_without_its_files(start_daemon):
    daemon = start_daemon()
    start_python(daemon.client, "s", "import sys; print('said'); sys.exit(sys.stdin.read() != '')")
    wait_for_output(daemon.client, "s", b"said")
    with Offsets(daemon, "s") as relay:
        relay.tell("close_input")
    assert wait_for_end(daemon.client, "s")["exit_code"] == 0
    daemon.kill()
    [directory] = (daemon.state / "processes").iterdir()
    for file in directory.iterdir():
        file.unlink()
    daemon.start()
    assert show(daemon.client, "s")["exit_code"] == 0
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0
