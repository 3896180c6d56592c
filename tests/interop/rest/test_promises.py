"""Every request is answered in its time, and nothing runs twice, whatever a payload does to the processes beside it."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from .daemon import Client, begin, session_path
from .host import wait_until

# Stops whatever it may, as soon as it is told to by a file.
STOPPER = """
import os, signal, time
while not os.path.exists('/workspace/go'):
    time.sleep(0.01)
open('/workspace/going', 'w').close()
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""

# A process that is killed belongs to its tracer until that has waited for it. This one never does.
HELD = """
import ctypes, os, time
kernel = ctypes.CDLL(None, use_errno=True)
kernel.ptrace.argtypes = [ctypes.c_long] * 4
kernel.prctl(0x59616D61, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0)  # PR_SET_PTRACER, any
command = os.getpid()
if os.fork() == 0:
    os.setsid()
    assert kernel.ptrace(0x4206, command, 0, 0) == 0, ctypes.get_errno()  # PTRACE_SEIZE
    print('held', flush=True)
time.sleep(600)
"""

# Holds the script of a shell that waits, and overwrites it as soon as it has content.
MEDDLER = """
import ctypes, os, time
kernel = ctypes.CDLL(None, use_errno=True)
kernel.mmap.restype = ctypes.c_void_p
kernel.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

def waiting_shells():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if b'/dev/fd/4' in open('/proc/' + pid + '/cmdline', 'rb').read():
                yield pid, os.open('/proc/' + pid + '/fd/4', os.O_RDWR)
        except OSError:
            continue

seen = {}
while True:
    for pid, script in waiting_shells():
        if pid in seen:
            os.close(script)
            continue
        memory = kernel.mmap(None, 4096, 3, 1, script, 0)
        if memory == ctypes.c_void_p(-1).value:
            memory = None
        seen[pid] = (script, memory)
        open('/workspace/held-' + pid, 'w').close()
    for pid, (script, memory) in seen.items():
        if memory and os.fstat(script).st_size > 0:
            ctypes.memmove(memory, b'echo meddled; exit 7\\n#', 22)
"""


@pytest.fixture
def shown(tmp_path):
    """A directory of the host that is the workspace of boxes here."""
    shown = tmp_path / "shown"
    shown.mkdir()
    shown.chmod(0o777)
    return shown


@pytest.fixture
def session(client, name, shown):
    assert client.create(name, host_path=str(shown)).status in (200, 201)
    yield name
    client.delete(name)


def leave_running(client, shown, name, program):
    (shown / "program.py").write_text(program)
    client.output(name, "setsid python3 program.py > /dev/null 2>&1 &", host_path=str(shown))


@pytest.fixture
def stopped(client, shown, session):
    """A session in which every process is stopped as soon as it is there."""
    leave_running(client, shown, session, STOPPER)
    (shown / "go").touch()
    wait_until(lambda: (shown / "going").exists(), "the payload that stops the others")
    return session


@pytest.fixture
def silent(daemon, client, shown, session):
    """A session whose box begins nothing any more: as if each program in it were stopped before its first step."""
    guest = daemon.process_one(session, host_path=str(shown))
    (shown / "file").write_text("content")
    os.kill(guest, signal.SIGSTOP)
    yield session
    os.kill(guest, signal.SIGCONT)


def ways(name):
    """Everything that a program in the box does for a caller."""
    files = f"{session_path(name)}/files?path=file"
    return [("GET", files, None), ("PUT", files, b"x" * 1_000_000), ("DELETE", files, None),
            ("GET", f"{session_path(name)}/directory?path=/workspace", None)]


def test_an_exec_is_answered_at_its_timeout_although_a_payload_stops_it(client, shown, stopped):
    for _ in range(5):
        result = client.run(stopped, "sleep 600", host_path=str(shown), timeout_sec=1, on_timeout="end_command")
        assert (result["status"], result["box_lost"]) == ("timed_out", None), result


def test_a_box_whose_command_does_not_end_when_it_is_killed_is_destroyed_and_the_answer_says_so(client, shown, session):
    spec = {"host_path": str(shown), "on_timeout": "end_command"}
    (shown / "held.py").write_text(HELD)
    result = client.run(session, "exec python3 held.py", timeout_sec=20, **spec)
    assert (result["status"], result["stdout"]) == ("timed_out", "held"), result
    assert "the box was destroyed" in result["box_lost"] and result["box_lost"] in result["stderr"]
    assert client.output(session, "echo new", **spec) == "new"


def test_a_caller_who_leaves_takes_what_moves_its_file_along(daemon, silent):
    before = daemon.fds()
    waiting = [begin(daemon, *way) for way in 3 * ways(silent)]
    wait_until(lambda: daemon.fds() >= before + 4 * len(waiting), "a connection and three pipes for each")
    for caller in waiting:
        caller.close()
    wait_until(lambda: daemon.fds() <= before, "the descriptors of before")


def test_a_program_that_moves_files_and_is_stopped_is_given_up(daemon, silent):
    client = Client(daemon.port, timeout=300)
    with ThreadPoolExecutor(4) as callers:
        for reply in callers.map(lambda way: client(*way), ways(silent)):
            assert (reply.status, reply.code) == (408, "timeout"), reply
            assert silent in reply.message and "nothing moved" in reply.message


def test_a_sparse_file_of_a_petabyte_does_not_come_out(client, name):
    client.output(name, "truncate -s 1P huge")
    reply = client.get_file(name, "huge")
    assert (reply.status, reply.code) == (413, "payload_too_large"), reply
    assert "caisson.max_download_bytes" in reply.message
    client.delete(name)


def test_the_largest_file_that_comes_out_is_a_setting(start_daemon, name):
    client = start_daemon("caisson: {max_download_bytes: 1000}\n").client
    client.output(name, "truncate -s 1000 fits; truncate -s 1001 large")
    assert len(client.get_file(name, "fits").body) == 1000
    assert client.get_file(name, "large").code == "payload_too_large"


def test_a_command_is_what_was_sent_although_a_payload_holds_its_script_before(client, shown, session):
    leave_running(client, shown, session, MEDDLER)
    held = 0
    for number in range(20):
        # The shell for the next command waits by now, and the payload holds what it will read.
        held = wait_until(lambda: shells_held(shown) > held and shells_held(shown), "a shell that waits")
        result = client.run(session, f"echo {number} >> log; echo sent {number}", host_path=str(shown))
        assert (result["exit_code"], result["stdout"]) == (0, f"sent {number}")
    assert (shown / "log").read_text().split() == [str(number) for number in range(20)]


def shells_held(shown):
    return len(list(shown.glob("held-*")))
