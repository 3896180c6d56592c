"""Every request is answered in its time, whatever a payload does to the processes beside it."""

import pytest

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
