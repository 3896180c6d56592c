"""Sessions survive their daemon: killed, told to stop, or replaced."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from .daemon import begin, session_path, works
from .host import command_line, orphans, processes_with, wait_until

LEAVE = "caisson: {on_stop: leave}\n"


def keeper_of(daemon):
    """The process that holds what survives the daemon."""
    for pid in {int(name) for name in os.listdir("/proc") if name.isdigit()}:
        if command_line(pid).strip() != "caisson keeper":
            continue
        try:
            if os.readlink(f"/proc/{pid}/fd/4") == str(daemon.state):
                return pid
        except OSError:
            continue
    raise AssertionError("there is no keeper")


def shown(daemon, name):
    return daemon.client.get(name).json


def kill(daemon):
    daemon.kill()


def stop(daemon):
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0, daemon.read_log()


ENDS = [kill, stop]


@pytest.mark.parametrize("network", ["off", "on"])
@pytest.mark.parametrize("end", ENDS)
def test_a_session_goes_on_under_the_next_daemon(start_daemon, end, network):
    daemon = start_daemon(LEAVE)
    spec = {"network": network, "memory_mb": 100, "cpus": 0.3}
    daemon.client.output("s", "echo kept > file; (sleep 7001.5 &)", **spec)
    before = shown(daemon, "s")
    ours = wait_until(lambda: processes_with("sleep 7001.5"), "what runs beside")
    end(daemon)
    daemon.start()
    assert processes_with("sleep 7001.5") == ours
    after = shown(daemon, "s")
    for key in ("backend_session_id", "created_at", "memory_mb", "cpus"):
        assert after[key] == before[key], key
    assert daemon.client.output("s", "cat file", **spec) == "kept"
    assert ("eth0" in daemon.client.output("s", "cat /proc/net/dev", **spec)) == (network == "on")
    # Its limits are in force, and its end leaves nothing.
    assert daemon.client.run("s", "head -c 300m /dev/zero | tail", **spec)["oom"]
    assert daemon.client.delete("s").status == 200
    wait_until(lambda: not processes_with("sleep 7001.5"), "the end of the box")
    works(daemon)
    daemon.tables_before.discard(f"caisson_{daemon.owner}")
    daemon.config.write_text("")
    stop(daemon)
    daemon.start()
    daemon.stop()


def test_many_sessions_survive_many_kills(start_daemon):
    daemon = start_daemon()
    names = [f"s{number}" for number in range(12)]
    for name in names:
        daemon.client.output(name, f"echo {name} > file")
    boxes = {name: shown(daemon, name)["backend_session_id"] for name in names}
    for _ in range(4):
        daemon.kill()
        daemon.start()
        for name in names:
            assert daemon.client.output(name, "cat file") == name
            assert shown(daemon, name)["backend_session_id"] == boxes[name]
        # New boxes get names and ids that nobody has.
        works(daemon)
    daemon.stop()


def unread_bytes(pid):
    """What waits in the first unix socket of a process."""
    links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int))
    inode = next(link for link in links if link.startswith("socket:"))[8:-1]
    lines = subprocess.run(["ss", "-xanH"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(int(fields[2]) for fields in map(str.split, lines) if fields[5] == inode)


def test_a_daemon_that_is_killed_while_it_takes_over_loses_nothing(start_daemon):
    """It has asked the guest what runs, and the answer is there for a daemon that has not asked."""
    daemon = start_daemon()
    process = {"command": "sleep", "args": ["7011.5"], "process_id": "p"}
    daemon.client.output("s", "echo kept > file")
    pid = daemon.client("POST", session_path("s") + "/managed-process", process).json["pid"]
    guest = daemon.process_one("s")
    daemon.kill()
    for _ in range(3):
        os.kill(guest, signal.SIGSTOP)
        before = unread_bytes(guest)
        daemon.launch()
        wait_until(lambda: unread_bytes(guest) > before, "the question")
        daemon.process.kill()
        daemon.process.wait()
        os.kill(guest, signal.SIGCONT)
        wait_until(lambda: unread_bytes(guest) == 0, "the answer")
    daemon.start()
    for _ in range(3):
        assert daemon.client.output("s", "cat file") == "kept"
        shown = daemon.client("GET", session_path("s") + "/managed-process/p").json
        assert (shown["pid"], shown["status"]) == (pid, "running")
    daemon.stop()


def test_one_stopped_box_delays_nobody(start_daemon):
    """Whoever asks for it waits, and it is there again when it goes on."""
    daemon = start_daemon()
    for name in ("stopped", "other"):
        daemon.client.output(name, f"echo {name} > file")
    guest = daemon.process_one("stopped")
    daemon.kill()
    os.kill(guest, signal.SIGSTOP)
    try:
        daemon.start()
        assert daemon.client.output("other", "cat file") == "other"
        works(daemon)
        assert daemon.client.metric("sessions_returning") == 1
        assert daemon.client("GET", "/readyz").json["resources"]["returning_sessions"] == 1
        listed = {view["session_id"]: view["state"] for view in daemon.client("GET", "/v1/sessions").json}
        assert listed["stopped"] == "returning"
        callers = [begin(daemon, "GET", session_path("stopped")),
                   begin(daemon, "GET", session_path("stopped") + "/files?path=file"),
                   begin(daemon, "POST", session_path("stopped") + "/exec", {"cmd": "cat file"})]
        assert daemon.client.output("other", "cat file") == "other"
    finally:
        os.kill(guest, signal.SIGCONT)
    answers = [caller.receive() for caller in callers]
    assert [answer.status for answer in answers] == [200, 200, 200], answers
    assert answers[1].body == b"stopped\n"
    assert answers[2].json["stdout"] == "stopped"
    assert daemon.client.metric("sessions_returning") == 0
    daemon.stop()


def test_a_daemon_may_be_replaced_while_it_takes_over(start_daemon):
    first = start_daemon()
    first.client.output("s", "echo kept > file")
    guest = first.process_one("s")
    first.kill()
    os.kill(guest, signal.SIGSTOP)
    try:
        first.start()
        assert first.client.metric("sessions_returning") == 1
        second = start_daemon(launch=False, state=first.state, arguments=["--replace"])
        second.start()
        assert first.process.wait(60) == 0
    finally:
        os.kill(guest, signal.SIGCONT)
    assert second.client.output("s", "cat file") == "kept"
    second.stop()


def test_the_daemon_uses_all_descriptors_it_may_and_boxes_do_not(start_daemon):
    limit = ["prlimit", "--nofile=256:9000"]
    daemon = start_daemon(prefix=limit)
    assert "Max open files" in (limits := open(f"/proc/{daemon.pid}/limits").read())
    found = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert found == ["9000", "9000"]
    assert "room for sessions" in daemon.read_log()
    assert daemon.client.output("s", "ulimit -n; ulimit -Hn").split() == ["4096", "4096"]
    daemon.stop()


def test_a_command_ends_with_the_daemon_that_ran_it(start_daemon):
    daemon = start_daemon()
    caller = begin(daemon, "POST", session_path("s") + "/exec", {"cmd": "sleep 7002.5; echo late > late"})
    wait_until(lambda: processes_with("sleep 7002.5"), "the command at work")
    daemon.kill()
    caller.close()
    daemon.start()
    wait_until(lambda: not processes_with("sleep 7002.5"), "the end of the command")
    assert daemon.client.run("s", "cat late")["exit_code"] == 1


def test_a_box_that_ended_meanwhile_is_made_again(start_daemon):
    daemon = start_daemon()
    daemon.client.output("s", "echo kept > file")
    guest = daemon.process_one("s")
    daemon.kill()
    os.kill(guest, signal.SIGKILL)
    daemon.start()
    assert daemon.client.run("s", "cat file")["exit_code"] == 1
    works(daemon)
    daemon.stop()


def test_the_time_of_a_session_goes_on(start_daemon):
    daemon = start_daemon("caisson: {session_ttl_sec: 3}\n")
    daemon.client.output("s", "true")
    daemon.kill()
    daemon.start()
    wait_until(lambda: daemon.client.get("s").status == 404, "the expiry")
    daemon.stop()


def test_parts_of_a_box_are_removed(start_daemon):
    daemon = start_daemon()
    daemon.client.output("s", "echo kept > file")
    daemon.kill()
    # As if it had been killed between two hierarchies.
    place = os.path.dirname(daemon.cgroups()[0])
    os.mkdir(os.path.join(place, "box-99"))
    daemon.start()
    assert "box-99" not in daemon.boxes()
    assert daemon.client.output("s", "cat file") == "kept"
    daemon.stop()


def test_a_daemon_takes_the_place_of_another_one(start_daemon):
    first = start_daemon()
    first.client.output("s", "echo kept > file; sleep 7008.5 & echo $! > pid")
    process = {"command": "cat", "process_id": "p"}
    pid = first.client("POST", session_path("s") + "/managed-process", process).json["pid"]
    second = start_daemon(launch=False, state=first.state, arguments=["--replace"])
    second.start()
    assert first.process.wait(60) == 0
    assert "stopped" in first.read_log()
    assert second.client.output("s", "cat file; kill -0 $(cat pid) && echo alive").split() == ["kept", "alive"]
    assert second.client("GET", session_path("s") + "/managed-process/p").json["pid"] == pid
    second.stop()


def test_a_daemon_that_keeps_nothing_is_not_replaced(start_daemon):
    first = start_daemon('{"caisson": {"recovery": false}}')
    first.client.output("s", "echo kept > file")
    second = start_daemon(launch=False, state=first.state, arguments=["--replace"])
    second.launch()
    wait_until(lambda: "wants to take over" in first.read_log(), "a word about it")
    second.process.kill()
    second.process.wait()
    assert first.client.output("s", "cat file") == "kept"
    first.stop()


def test_a_keeper_that_is_killed_is_replaced(start_daemon):
    daemon = start_daemon()
    daemon.client.output("s", "echo kept > file")
    first = keeper_of(daemon)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "the keeper has ended and is replaced" in daemon.read_log(), "a new keeper")
    daemon.client.output("other", "true")  # by now it was told everything
    assert keeper_of(daemon) != first
    daemon.kill()
    daemon.start()
    assert daemon.client.output("s", "cat file") == "kept"
    daemon.stop()


def test_nobody_else_reaches_the_keeper(start_daemon):
    daemon = start_daemon()
    daemon.client.output("s", "echo kept > file")
    socket_file = daemon.state / "keeper.sock"
    assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.state.stat().st_mode) == 0o700
    # Even somebody who is let through to the socket is not an owner, and changes nothing.
    script = (
        "import os, socket, sys\n"
        "directory = os.open(sys.argv[1], os.O_RDONLY)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "s.connect(f'/proc/self/fd/{directory}/keeper.sock')\n"
        "try:\n"
        "    s.send(b'\\x04'); print(s.recv(100))\n"
        "except OSError as error:\n"
        "    print(type(error).__name__)\n"
    )
    socket_file.chmod(0o666)
    daemon.state.chmod(0o711)
    try:
        result = subprocess.run([sys.executable, "-c", script, daemon.state], capture_output=True, text=True)
    finally:
        daemon.state.chmod(0o700)
    assert result.stdout.strip() in ("b''", "ConnectionResetError", "BrokenPipeError"), result
    daemon.kill()
    daemon.start()
    assert daemon.client.output("s", "cat file") == "kept"
    daemon.stop()


def test_without_a_keeper_boxes_end_with_their_daemon(start_daemon):
    daemon = start_daemon("caisson: {recovery: false}\n")
    daemon.client.output("s", "(sleep 7003.5 &)")
    daemon.kill()
    wait_until(lambda: not processes_with("sleep 7003.5"), "the end of the box")
    daemon.start()
    assert daemon.client.get("s").status == 404
    daemon.stop()


def test_boxes_end_when_nobody_can_take_them_over(start_daemon):
    daemon = start_daemon()
    daemon.client.output("s", "(sleep 7004.5 &)")
    wait_until(lambda: processes_with("sleep 7004.5"), "what runs in the box")
    daemon.kill()
    assert processes_with("sleep 7004.5")
    (daemon.state / "keeper.sock").unlink()
    wait_until(lambda: not processes_with("sleep 7004.5"), "the end of the box")
    wait_until(lambda: not orphans(), "the end of the keeper")


def test_a_daemon_takes_over_nothing_of_another_one(start_daemon):
    one, other = start_daemon(), start_daemon()
    one.client.output("s", "echo one > file")
    other.client.output("s", "echo other > file")
    one.kill()
    other.kill()
    other.start()
    assert other.client.output("s", "cat file") == "other"
    one.start()
    assert one.client.output("s", "cat file") == "one"
    stop(one)
    assert other.client.output("s", "cat file") == "other"
    other.stop()


# F27: a state of another version.


def alter_database(daemon, script):
    with sqlite3.connect(daemon.state / "caisson.db") as database:
        database.executescript(script)
    database.close()


def test_the_state_of_an_older_version_is_taken_over_and_kept(start_daemon):
    daemon = start_daemon()
    daemon.client.create("s", persistent=True)
    daemon.stop()
    alter_database(daemon, "DROP TABLE executions; PRAGMA user_version = 1;")
    daemon.start()
    assert [session["session_id"] for session in daemon.client("GET", "/v1/sessions").json] == ["s"]
    assert "brought from version 1" in daemon.read_log()
    assert (daemon.state / "caisson.db.backup-v1").exists()
    assert daemon.client.output("s", "echo works", persistent=True) == "works"
    daemon.stop()


def test_the_state_of_a_newer_version_is_refused_and_left_alone(start_daemon):
    daemon = start_daemon()
    daemon.client.create("s", persistent=True)
    daemon.stop()
    alter_database(daemon, "PRAGMA user_version = 999;")
    before = (daemon.state / "caisson.db").read_bytes()
    daemon.launch()
    assert daemon.process.wait(60) != 0
    assert "has version 999" in daemon.read_log() and "a newer caisson wrote it" in daemon.read_log()
    assert (daemon.state / "caisson.db").read_bytes() == before
    with pytest.raises(AssertionError, match="there is no keeper"):
        keeper_of(daemon)


def test_a_persistent_session_without_a_box_takes_the_settings_of_its_next_use(start_daemon):
    daemon = start_daemon()
    assert daemon.client.create("p", persistent=True, memory_mb=64).status == 201
    daemon.stop()
    daemon.start()
    assert daemon.client.get("p").json["state"] == "dead"
    made = daemon.client.create("p", persistent=True, memory_mb=128)
    assert (made.status, made.json["memory_mb"]) == (201, 128), made
    assert daemon.client.create("p", persistent=True, memory_mb=64).status == 409
    daemon.stop()
    daemon.start()
    assert daemon.client.create("p").json["persistent"] is False
    daemon.stop()
    daemon.start()
    assert daemon.client("GET", "/v1/sessions").json == []
