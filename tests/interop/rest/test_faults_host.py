"""Faults of the host: no room, no descriptors, no processes, damaged state. Injected for real."""

import os
import re
import resource
import select
import shutil
import socket
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from .daemon import raw, works
from .host import cpu_seconds, fill, mount, state_on, wait_until

MS_RDONLY, MS_REMOUNT = 1, 32
NO_POOLS = "caisson: {pools: false}\n"


# F7, F8: no room for the daemon's state.


def fill_inodes(place):
    (place / "filler").mkdir()
    try:
        for number in range(10**6):
            (place / "filler" / str(number)).touch()
    except OSError:
        pass


def survives_no_room(daemon, take_room, give_room, causes):
    """`causes`: status, code and a piece of the message of what cannot be stored."""
    client = daemon.client
    client.output("before", "echo kept > /workspace/file", persistent=True)
    client.create("also before")
    take_room()
    lines = len(daemon.read_log().splitlines())
    refused = 0
    for number in range(30):
        reply = client.create(f"new {number}", persistent=True)
        if reply.status == 201:
            continue
        refused += 1
        status, code, text = causes
        assert (reply.status, reply.code) == (status, code), reply
        assert text in reply.message
        assert client.get(f"new {number}").status == 404
    assert refused > 0, "there was room all the time"
    assert client.output("before", "cat /workspace/file", persistent=True) == "kept"
    assert client("GET", "/v1/sessions").status == 200
    assert len(daemon.read_log().splitlines()) - lines < 200
    deleted = client.delete("also before")
    give_room()
    works(daemon)
    assert client.create("after", persistent=True).status == 201
    kept = {session["session_id"] for session in client("GET", "/v1/sessions").json if session["persistent"]}
    daemon.stop()
    daemon.start()
    assert {session["session_id"] for session in daemon.client("GET", "/v1/sessions").json} == kept
    for name in kept:
        assert daemon.client.delete(name).status == 200
    return deleted


def test_a_full_disk_is_told_and_survived(start_daemon, tmp_path):
    with state_on(tmp_path, "size=2m") as place:
        daemon = start_daemon(state=place)
        deleted = survives_no_room(
            daemon, lambda: fill(place), (place / "filler").unlink, (507, "storage_full", "caisson.db")
        )
        assert deleted.json == {"deleted": "also before"}
        daemon.stop()


def test_a_disk_without_inodes_is_told_and_survived(start_daemon, tmp_path):
    with state_on(tmp_path, "size=8m,nr_inodes=40") as place:
        daemon = start_daemon(state=place)
        daemon.client.create("x", persistent=True)
        fill_inodes(place)
        works(daemon)
        assert daemon.client.delete("x").status == 200
        daemon.stop()
        daemon.launch()  # now its files would have to be made
        wait_until(lambda: daemon.process.poll() is not None or daemon.announces(), "an end or a start")
        if daemon.process.poll() is None:
            daemon.pid = daemon.process.pid
            daemon.stop()
        else:
            assert str(place) in daemon.read_log() and "No space left" in daemon.read_log()
        shutil.rmtree(place / "filler")
        daemon.start()
        works(daemon)
        daemon.stop()


def test_a_disk_that_became_read_only_is_told_and_survived(start_daemon, tmp_path):
    with state_on(tmp_path, "size=8m") as place:
        daemon = start_daemon(state=place)
        client = daemon.client
        client.output("before", "echo kept > /workspace/file", persistent=True)
        files = [fd for fd in daemon.open_files() if str(place) in fd]
        assert files
        with pytest.raises(OSError):  # busy: the daemon has its files open for writing
            mount("none", place, "tmpfs", MS_REMOUNT | MS_RDONLY, "")
        daemon.stop()
        mount("none", place, "tmpfs", MS_REMOUNT | MS_RDONLY, "")
        daemon.launch()
        assert daemon.process.wait(60) == 125
        assert "Read-only file system" in daemon.read_log() and str(place) in daemon.read_log()
        mount("none", place, "tmpfs", MS_REMOUNT, "")
        daemon.start()
        assert [s["session_id"] for s in daemon.client("GET", "/v1/sessions").json] == ["before"]
        daemon.stop()


# F9, F10: no descriptors, no processes.


@contextmanager
def no_descriptors(daemon):
    """Idle connections take every descriptor that the daemon may have."""

    def connections():
        return daemon.client("GET", "/healthz").json["resources"]["connections"]

    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    most = max(int(fd) for fd in os.listdir(f"/proc/{daemon.pid}/fd")) + 12
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (most, hard))
    idle = []
    refused = False
    while not refused:
        before = connections()
        idle.append(socket.create_connection(("127.0.0.1", daemon.port)))
        wait_until(lambda: connections() > before or select.select([idle[-1]], [], [], 0)[0], "an end of the wait")
        refused = bool(select.select([idle[-1]], [], [], 0)[0])
    idle.pop().close()
    yield
    for connection in idle:
        connection.close()
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: connections() == 1, "the idle connections gone")


def test_without_descriptors_the_daemon_is_busy_and_recovers(start_daemon):
    daemon = start_daemon(NO_POOLS)
    with daemon.nothing_left():
        daemon.client.create("s")
        with no_descriptors(daemon):
            refused = raw(daemon.port, b"", half_close=True)
            assert b"HTTP/1.1 503" in refused and b'"busy"' in refused, refused
            before = cpu_seconds(daemon.pid)
            time.sleep(1)  # measured: a loop that spins would take all of it
            assert cpu_seconds(daemon.pid) - before < 0.3
            assert daemon.client.get("s").status == 200  # on a connection that was there before
        assert daemon.client.output("s", "echo usable") == "usable"
        works(daemon)
        daemon.client.delete("s")


@pytest.mark.parametrize("operation", ["create", "exec", "file", "metrics"])
def test_without_descriptors_a_request_is_told_to_come_again(start_daemon, operation):
    daemon = start_daemon(NO_POOLS)
    client = daemon.client
    client.create("s")
    with no_descriptors(daemon):
        if operation == "metrics":  # what is watched in trouble must be there in trouble
            assert client("GET", "/metrics").status == 200
        else:
            requests = {"create": lambda: client.create("new"), "exec": lambda: client.exec("s", "true"),
                        "file": lambda: client.put_file("s", "file", b"x")}  # fmt: skip
            reply = requests[operation]()
            assert (reply.status, reply.code) == (503, "busy"), reply
            assert "Too many open files" in reply.message
    works(daemon)


def own_cgroup(controller):
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path(f"/sys/fs/cgroup/{controller}{path}")
    pytest.skip(f"no cgroup v1 hierarchy with {controller}")


@contextmanager
def no_processes(start_daemon):
    """A daemon with a session, in a cgroup that is full; there is room again afterwards."""
    place = own_cgroup("pids") / f"rest-test-{os.getpid()}"
    place.mkdir()
    script = f'echo $$ > {place}/cgroup.procs; exec "$@"'
    daemon = start_daemon(NO_POOLS, launch=False, prefix=["sh", "-c", script, "sh"])
    try:
        daemon.start()
        daemon.client.output("s", "true")
        daemon.pids = place
        (place / "pids.max").write_text((place / "pids.current").read_text())
        yield daemon
        (place / "pids.max").write_text("max")
        assert daemon.client.output("s", "echo usable") == "usable"
        works(daemon)
        daemon.stop()
    finally:
        (place / "pids.max").write_text("max")
        daemon.end()
        wait_until(lambda: remove_cgroup(place), "the removal of the cgroup")


def test_without_processes_the_daemon_goes_on_and_recovers(start_daemon):
    with no_processes(start_daemon) as daemon:
        for _ in range(20):
            assert daemon.client.exec("s", "sh -c 'echo ran'").status >= 400
            assert daemon.client.create("other").status >= 400
        assert daemon.client.get("s").json["state"] == "idle"
        assert daemon.client.get("other").status == 404


@pytest.mark.parametrize("operation", ["create", "exec", "file"])
def test_without_processes_a_request_is_told_to_come_again(start_daemon, operation):
    with no_processes(start_daemon) as daemon:
        client = daemon.client
        requests = {"create": lambda: client.create("new"), "exec": lambda: client.exec("s", "true"),
                    "file": lambda: client.put_file("s", "file", b"x")}  # fmt: skip
        reply = requests[operation]()
        assert (reply.status, reply.code) == (503, "busy"), reply


def created_or_busy(daemon, name):
    reply = daemon.client.create(name)
    assert reply.status == 201 or (reply.status, reply.code) == (503, "busy"), reply
    if reply.status == 201:
        assert daemon.client.delete(name).status == 200
    else:
        assert reply.headers["retry-after"] == "1"
    return reply.status == 201


def test_however_few_processes_are_left_a_create_succeeds_or_is_busy(start_daemon):
    with no_processes(start_daemon) as daemon:
        made = []
        for room in range(16):
            now = int((daemon.pids / "pids.current").read_text())
            (daemon.pids / "pids.max").write_text(str(now + room))
            made.append(created_or_busy(daemon, f"with {room}"))
        assert not made[0] and made[-1], made


def test_however_few_descriptors_are_left_a_create_succeeds_or_is_busy(start_daemon):
    daemon = start_daemon(NO_POOLS)
    created_or_busy(daemon, "before")  # the first launcher and what it needs
    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    made = []
    for room in range(1, 40):
        most = max(int(fd) for fd in os.listdir(f"/proc/{daemon.pid}/fd")) + room
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (most, hard))
        made.append(created_or_busy(daemon, f"with {room}"))
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert made[-1], made
    works(daemon)


def remove_cgroup(place):
    for path, _, _ in os.walk(place, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            return False
    return True


# F23, F28: the state directory.


def flip(data):
    middle = data.index(b'"memory_mb"')  # within a record: pages have parts that nobody uses
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 64]) + data[middle + 64 :]


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "a few bytes": lambda data: data[:100],
    "noise": lambda data: bytes(range(256)) * 64,
    "flipped bits": flip,
    "wrong head": lambda data: b"XXXX" + data[4:],
    "all zero": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_database_is_set_aside_and_told(start_daemon, damage):
    daemon = start_daemon()
    for number in range(20):
        daemon.client.create(f"kept {number}", persistent=True)
    daemon.stop()
    file = daemon.state / "caisson.db"
    good, bad = file.read_bytes(), damage(file.read_bytes())
    assert good != bad
    file.write_bytes(bad)
    daemon.start()
    sessions = daemon.client("GET", "/v1/sessions").json
    assert {session["session_id"] for session in sessions} <= {f"kept {number}" for number in range(20)}
    if bad:
        [aside] = [path for path in daemon.state.iterdir() if ".corrupt-" in path.name]
        assert aside.read_bytes() == bad
        assert aside.name in daemon.read_log() and "warning" in daemon.read_log()
    works(daemon)
    daemon.client.create("new", persistent=True)
    daemon.stop()
    daemon.start()
    assert daemon.client.get("new").status == 200
    daemon.stop()
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_second_daemon_on_the_same_state_is_refused(start_daemon):
    first = start_daemon()
    second = start_daemon(launch=False, state=first.state)
    second.launch()
    assert second.process.wait(60) == 125
    assert f"is in use by pid {first.pid}" in second.read_log()
    works(first)
    first.kill()
    second.start()
    works(second)
    second.stop()


def test_a_lock_of_a_pid_that_is_gone_does_not_hold(start_daemon):
    daemon = start_daemon()
    daemon.stop()
    (daemon.state / "lock").write_text("1\n")
    daemon.start()
    assert re.fullmatch(r"\d+\n", (daemon.state / "lock").read_text())
    works(daemon)
