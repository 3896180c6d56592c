"""How sessions begin, live beside each other and end."""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from .daemon import Client, begin, session_path
from .host import descendants, processes_with, wait_until

NO_POOLS = "caisson: {pools: false}\n"


@contextmanager
def no_new_boxes(daemon, *sessions):
    """Stops all that makes boxes; those of the sessions go on."""
    spared = set()
    for name in sessions:
        first = daemon.process_one(name)
        spared |= {first} | descendants(first)
    stopped = descendants(daemon.pid) - spared
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped & descendants(daemon.pid):
            os.kill(pid, signal.SIGCONT)


def test_a_delete_waits_for_the_creation_and_removes_it(start_daemon):
    daemon = start_daemon(NO_POOLS)
    daemon.client.create("other")
    with daemon.nothing_left():
        with no_new_boxes(daemon, "other"):
            creation = begin(daemon, "POST", session_path("new"), {})
            wait_until(lambda: daemon.client.metric("sessions_being_made") == 1, "the creation at work")
            deletion = begin(daemon, "DELETE", session_path("new"))
            wait_until(lambda: daemon.client.metric("connections_busy") == 3, "the deletion waiting")
        assert creation.receive().status == 201
        assert deletion.receive().json == {"deleted": "new"}
        assert daemon.client.get("new").status == 404


def test_a_slow_creation_delays_no_other_session(start_daemon):
    daemon = start_daemon(NO_POOLS)
    daemon.client.create("other")
    with no_new_boxes(daemon, "other"):
        creation = begin(daemon, "POST", session_path("slow"), {})
        wait_until(lambda: daemon.client.metric("sessions_being_made") == 1, "the creation at work")
        times = []
        for _ in range(20):
            start = time.monotonic()
            assert daemon.client.output("other", "echo quick") == "quick"
            times.append(time.monotonic() - start)
        assert daemon.client.metric("sessions_being_made") == 1
    assert creation.receive().status == 201
    print(f"20 execs beside a creation that hangs: median {sorted(times)[10] * 1000:.1f} ms, longest "
          f"{max(times) * 1000:.1f} ms")  # fmt: skip


def test_a_creation_nobody_waits_for_any_more_leaves_no_halves(start_daemon):
    daemon = start_daemon(NO_POOLS)
    daemon.client.create("other")
    with daemon.nothing_left():
        with no_new_boxes(daemon, "other"):
            creation = begin(daemon, "POST", session_path("new"), {})
            wait_until(lambda: daemon.client.metric("sessions_being_made") == 1, "the creation at work")
            creation.close()
        wait_until(lambda: daemon.client.metric("sessions_being_made") == 0, "the end of the creation")
        assert daemon.client.output("new", "echo whole") == "whole"
        assert daemon.client.delete("new").status == 200


@pytest.mark.parametrize("tail", ["/exec", "/exec/stream"])
def test_a_delete_ends_a_running_exec(daemon, client, name, tail):
    cmd = f"echo; sleep 4000.{len(tail)}"
    running = begin(daemon, "POST", session_path(name) + tail, {"cmd": cmd})
    wait_until(lambda: processes_with(cmd[6:]), "the command at work")
    start = time.monotonic()
    assert client.delete(name).json == {"deleted": name}
    assert time.monotonic() - start < 20  # its own time limit is thirty
    reply = running.receive()
    if tail == "/exec":
        assert (reply.status, reply.code) == (404, "session_not_found")
    assert f"session {name} is being deleted" in reply.body.decode()
    assert not processes_with(cmd[6:])


def test_a_delete_ends_execs_that_wait_for_their_turn(daemon, client, name):
    client.create(name)
    path = session_path(name) + "/exec"
    running = [begin(daemon, "POST", path, {"cmd": "sleep 4000.75"}) for _ in range(4)]
    wait_until(lambda: processes_with("sleep 4000.75"), "the first command at work")
    wait_until(lambda: client.metric("connections_busy") == 5, "all execs at work")
    assert client.delete(name).status == 200
    for caller in running:
        reply = caller.receive()
        assert (reply.status, reply.message) == (404, f"session {name} is being deleted")
    assert client.get(name).status == 404


def test_two_deletes_end_one_session_once(daemon, client, name):
    client.create(name)
    callers = [begin(daemon, "DELETE", session_path(name)) for _ in range(4)]
    assert sorted(caller.receive().status for caller in callers) == [200, 404, 404, 404]


def test_a_session_made_again_is_new(client, name):
    client.output(name, "touch /workspace/old")
    client.delete(name)
    assert client.output(name, "ls /workspace") == ""
    client.delete(name)


def test_capacity_is_told_with_its_sentence(start_daemon):
    daemon = start_daemon("box: {limits: {max_sessions: 2}}\n")
    for name in ("a", "b"):
        assert daemon.client.create(name).status == 201
    for reply in (daemon.client.create("c"), daemon.client.exec("c", "true")):
        assert (reply.status, reply.code) == (429, "capacity_reached")
        assert reply.message == "Box session capacity reached (2)"
    assert daemon.client.output("a", "echo works") == "works"
    daemon.client.delete("b")
    assert daemon.client.create("c").status == 201


def test_capacity_holds_for_creations_at_the_same_time(start_daemon):
    daemon = start_daemon("box: {limits: {max_sessions: 3}}\n")
    callers = [begin(daemon, "POST", session_path(f"s{n}"), {}) for n in range(12)]
    assert sorted(caller.receive().status for caller in callers) == [201] * 3 + [429] * 9
    assert len(daemon.client("GET", "/v1/sessions").json) == 3


def test_no_capacity_means_no_sessions(start_daemon):
    daemon = start_daemon("box: {limits: {max_sessions: 0}}\n")
    assert daemon.client.create("a").message == "Box session capacity reached (0)"


def test_a_session_nobody_uses_expires(start_daemon):
    daemon = start_daemon("caisson: {session_ttl_sec: 1, pools: false}\n")
    with daemon.nothing_left():
        expired = daemon.client.metric("sessions_expired_total")
        daemon.client.output("idle", "sleep 5000 & echo left behind")
        running = begin(daemon, "POST", session_path("busy") + "/exec", {"cmd": "sleep 3; echo finished"})
        daemon.client.create("kept", persistent=True)
        wait_until(lambda: daemon.client.get("idle").status == 404, "the expiry of the idle session")
        assert running.receive().json["stdout"] == "finished"
        wait_until(lambda: daemon.client.get("busy").status == 404, "the expiry of the busy session")
        assert daemon.client.get("kept").status == 200
        assert daemon.client.metric("sessions_expired_total") == expired + 2
        daemon.client.delete("kept")


def test_every_use_puts_the_expiry_off(start_daemon):
    daemon = start_daemon("caisson: {session_ttl_sec: 3}\n")
    first = daemon.client.create("used").json["backend_session_id"]
    end = time.monotonic() + 6
    while time.monotonic() < end:
        assert daemon.client.output("used", "sleep 0.2; echo") == ""
    assert daemon.client.get("used").json["backend_session_id"] == first


def test_persistent_sessions_outlive_the_daemon(start_daemon):
    daemon = start_daemon()
    daemon.client.create("kept", persistent=True, memory_mb=64)
    daemon.client.create("lost")
    daemon.stop()
    daemon.start()
    assert [session["session_id"] for session in daemon.client("GET", "/v1/sessions").json] == ["kept"]
    assert daemon.client.get("kept").json["state"] == "dead"
    assert daemon.client.output("kept", "echo again", persistent=True, memory_mb=64) == "again"
    assert daemon.client.delete("kept").status == 200
    daemon.stop()
    daemon.start()
    assert daemon.client("GET", "/v1/sessions").json == []


def test_a_dormant_session_can_be_deleted(start_daemon):
    daemon = start_daemon()
    daemon.client.create("kept", persistent=True)
    daemon.stop()
    daemon.start()
    assert daemon.client.delete("kept").json == {"deleted": "kept"}
    assert daemon.client.delete("kept").status == 404


def test_fifty_operations_at_once_on_one_name_leave_nothing(start_daemon):
    daemon = start_daemon(NO_POOLS)
    choices = random.Random(7)

    def operate(operation):
        client = Client(daemon.port)
        if operation == "create":
            reply = client.create("one")
        elif operation == "conflict":
            reply = client.create("one", memory_mb=64)
        elif operation == "delete":
            reply = client.delete("one")
        else:
            reply = client.exec("one", "echo ran")
        client.close()
        return operation, reply

    allowed = {"create": {201, 409}, "conflict": {201, 409}, "delete": {200, 404}, "exec": {200, 404, 409}}
    with daemon.nothing_left():
        for _ in range(4):
            operations = choices.choices(list(allowed), k=50)
            with ThreadPoolExecutor(50) as pool:
                for operation, reply in pool.map(operate, operations):
                    assert reply.status in allowed[operation], (operation, reply)
                    if operation == "exec" and reply.status == 200:
                        assert reply.json["stdout"] == "ran"
                    if operation == "exec" and reply.status == 404:
                        assert reply.message == "session one is being deleted"
            daemon.client.delete("one")
            assert daemon.client.get("one").status == 404


def test_a_box_that_died_is_made_again(daemon, client, name):
    first = client.create(name).json["backend_session_id"]
    os.kill(daemon.process_one(name), signal.SIGKILL)
    wait_until(lambda: client.get(name).json["state"] == "dead", "the death of the box")
    assert client.output(name, "echo alive") == "alive"
    now = client.get(name).json
    assert now["state"] == "idle" and now["backend_session_id"] != first
    os.kill(daemon.process_one(name), signal.SIGKILL)
    wait_until(lambda: client.get(name).json["state"] == "dead", "the death of the new box")
    assert client.create(name).status == 201
    assert client.output(name, "echo alive") == "alive"
    client.delete(name)


EXECS = [
    ("echo out; echo err >&2", {}),
    ("exit 3", {}),
    ("kill -9 $$", {}),
    ("pwd; id; umask; hostname", {}),
    ("env | sort", {}),
    ("env | sort", {"env": {"A": "1", "HOME": "/tmp"}}),
    ("pwd", {"workdir": "/tmp/new"}),
    ("cat; ls -l /proc/self/fd | sed 's/.*:[0-9][0-9]//; s/[0-9][0-9][0-9]*/N/'", {}),
    ("cat", {"stdin": "given"}),
    ("cat <<E\nhere\nE", {}),
    ("ls -la /workspace /tmp /home | sed 's/[A-Z][a-z][a-z] .* //'", {}),
    ("touch /workspace/file; ls /workspace", {}),
    ("ls /workspace", {}),
    ("echo \"$0\" \"$#\" \"$-\"", {}),
    ("ulimit -a", {}),
    ("ps -e -o args | grep -v 'ps -e'", {}),
    ("set | grep -v '^PPID\\|^_='", {}),
    ("python3 -c 'import os; print(os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())'", {}),
    ("trap; jobs", {}),
    ("# nothing", {}),
    ("if", {}),
    ("sleep 50", {"timeout_sec": 1, "on_timeout": "end_command"}),
    ("ls /workspace", {}),
    ("printf 'a\\377'", {}),
    ("cat /proc/self/status | grep -v 'Pid\\|Vm\\|Rss\\|ctxt\\|Tgid\\|Threads\\|allowed\\|SigQ\\|Tid\\|NS'", {}),
    ("python3 -c 'x = bytearray(900 << 20)'", {}),
    ("nosuchcommand", {}),
]  # fmt: skip


def test_pools_change_nothing_but_times(start_daemon):
    answers = []
    for pools in ("true", "false"):
        daemon = start_daemon(f"caisson: {{pools: {pools}}}\n")
        rows = []
        for cmd, spec in EXECS:
            result = daemon.client.run("same", cmd, **spec)
            for varying in ("duration_ms", "cpu_ms", "peak_memory_bytes"):
                del result[varying]
            rows.append((cmd, result))
            if pools == "true":
                wait_until(lambda: daemon.client.metric("parked_shells") == 1, "a shell that waits")
        answers.append(rows)
    assert answers[0] == answers[1]
