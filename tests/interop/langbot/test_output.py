"""What processes write while no client is attached: LangBot's own reads nothing of it, and loses nothing."""

import uuid
from pathlib import Path

import pytest

from rest.host import processes_with, wait_until

from .rpc import LIMIT

MIB = 1 << 20
JOURNAL = 16 * MIB
LINES = 24_000  # of 1000 bytes
WRITER = f"import sys\nfor number in range({LINES}): sys.stdout.write(f'{{number:0999}}\\n')\n"


def written(daemon, tenant, session="s"):
    """How many bytes have left the process, as REST shows it."""
    return daemon.client("GET", f"/v1/sessions/{tenant.physical(session)}/managed-process").json["stdout"]["end"]


def start_held(daemon, tenant):
    """Returns when it sleeps: in the midst of its output, before a journal that is full, or behind all of it."""
    mark = uuid.uuid4().hex
    tenant.start("s", "python3", "-c", f"{WRITER}sys.stdout.flush()\nsys.stdin.read()  # {mark}")

    def sleeps():
        for pid in processes_with(mark):
            descriptor = [*Path(f"/proc/{pid}/syscall").read_text().split(), "", ""][1]
            return descriptor == "0x0" or (descriptor == "0x1" and written(daemon, tenant) == JOURNAL)
        return False

    wait_until(sleeps, "the sleep of the process")


def test_24_mb_that_nobody_waited_for_are_all_there(daemon, tenant):
    start_held(daemon, tenant)
    assert tenant.process("s")["status"] == "running"
    with tenant.relay("s") as relay:
        for number in range(LINES):
            assert relay.recv(LIMIT) == f"{number:0999}"
    assert written(daemon, tenant) == LINES * 1000


def test_who_wants_the_newest_output_says_so(daemon, tenant):
    tenant.start("s", "python3", "-c", WRITER + "sys.stdout.flush()\nsys.stdin.read()", overflow="release")
    wait_until(lambda: written(daemon, tenant) == LINES * 1000, "all of it")
    with tenant.relay("s") as relay:
        assert int(relay.recv(LIMIT)) > 0


@pytest.mark.parametrize("end", ["stop", "delete", "start again"])
def test_a_process_that_is_held_back_ends_as_any_other(daemon, tenant, end):
    start_held(daemon, tenant)
    if end == "stop":
        assert tenant.stop("s") == {"stopped": "default"}
        assert tenant.output("s", "echo still there") == "still there"
    elif end == "delete":
        tenant.delete("s")
        assert "s" not in tenant.sessions()
    else:
        tenant.start("s", "cat")
        with tenant.relay("s") as relay:
            relay.send("a new one")
            assert relay.recv(LIMIT) == "a new one"


def test_a_daemon_stops_although_a_process_is_held_back(start_daemon):
    daemon = start_daemon()
    daemon.client.create("s")
    process = {"command": "python3", "args": ["-c", WRITER], "overflow": "hold"}
    assert daemon.client("POST", "/v1/sessions/s/managed-process", process).status == 201
    wait_until(
        lambda: daemon.client("GET", "/v1/sessions/s/managed-process").json["stdout"]["end"] >= JOURNAL,
        "a full journal",
    )
    daemon.stop()


def test_standard_error_holds_nobody_back(tenant):
    flood = "import sys\nfor number in range(40_000): sys.stderr.write(f'{number:0999}\\n')\nprint('done', flush=True)\n"
    tenant.start("s", "python3", "-c", flood + "sys.stdin.read()")
    wait_until(lambda: tenant.process("s")["stderr_preview"].endswith(f"{39_999:0999}"), "the end of it")
    with tenant.relay("s") as relay:
        assert relay.recv(LIMIT) == "done"


def test_the_end_of_a_process_that_was_held_back_is_told(daemon, tenant):
    """What it wrote last is in its pipe when nobody reads."""
    script = f"import os\nos.write(1, b'x' * {JOURNAL + 1000})"
    tenant.start("s", "python3", "-c", script)
    assert tenant.ended("s")["exit_code"] == 0
    assert written(daemon, tenant) == JOURNAL + 1000
