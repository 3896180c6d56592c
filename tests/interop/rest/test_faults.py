"""Faults, injected for real. After each the next request works and nothing is left behind."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from .daemon import begin, works, session_path
from .host import command_line, descendants, parents, processes_with, wait_until

NO_POOLS = "caisson: {pools: false}\n"


# F1, F2: the daemon ends.


def is_cut(caller):
    try:
        caller.receive()
    except OSError:
        return True
    except Exception as error:  # http.client has several words for it
        return type(error).__name__ in ("RemoteDisconnected", "IncompleteRead", "BadStatusLine")
    return False


def refuses(daemon):
    try:
        socket.create_connection(("127.0.0.1", daemon.port)).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # it was in the queue of the port when that was closed: the next one is refused
    return False


@pytest.mark.parametrize("network", ["off", "on"])
def test_a_killed_daemon_leaves_nothing_and_comes_back(start_daemon, network):
    daemon = start_daemon()
    daemon.client.create("kept", persistent=True, network=network)
    caller = begin(daemon, "POST", session_path("s") + "/exec", {"cmd": "sleep 6000.5", "network": network})
    wait_until(lambda: processes_with("sleep 6000.5"), "the command at work")
    daemon.kill()
    assert is_cut(caller)
    daemon.start()
    wait_until(lambda: not processes_with("sleep 6000.5"), "the end of the command")
    names = [session["session_id"] for session in daemon.client("GET", "/v1/sessions").json]
    assert names == ["kept", "s"]
    assert daemon.client.output("kept", "echo again", persistent=True, network=network) == "again"
    works(daemon)
    daemon.tables_before.discard(f"caisson_{daemon.owner}")
    daemon.stop()


@pytest.mark.parametrize("at_once", [True, False])
def test_what_a_killed_daemon_left_is_removed_by_the_next_one(start_daemon, at_once):
    daemon = start_daemon("caisson: {recovery: false}\n")
    daemon.client.output("s", "true", network="on")
    daemon.kill()
    if not at_once:  # its launcher removes the boxes, and nobody the table
        wait_until(lambda: not daemon.interfaces() and not daemon.cgroups(), "the end of its boxes")
    daemon.start()
    wait_until(lambda: not daemon.interfaces(), "the removal of the old interfaces")
    daemon.tables_before.clear()
    daemon.stop()


@pytest.mark.parametrize("moment", range(0, 40, 8))
def test_a_daemon_killed_while_it_makes_a_box_leaves_nothing(start_daemon, moment):
    daemon = start_daemon(NO_POOLS)
    callers = [begin(daemon, "POST", session_path(f"s{n}"), {"network": "on"}) for n in range(4)]
    time.sleep(moment / 1000)  # not to wait for anything: to kill it at different moments
    daemon.kill()
    for caller in callers:
        caller.close()
    daemon.start()
    names = {session["session_id"] for session in daemon.client("GET", "/v1/sessions").json}
    assert names <= {"s0", "s1", "s2", "s3"}
    wait_until(lambda: len(daemon.boxes()) == len(names), "the end of what was half made")
    assert daemon.client.output("s0", "echo works", network="on") == "works"
    daemon.tables_before.discard(f"caisson_{daemon.owner}")
    daemon.stop()


def test_a_file_is_old_or_new_when_the_daemon_is_killed_while_it_comes(start_daemon, tmp_path):
    tmp_path.chmod(0o777)
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o666)
    daemon = start_daemon()
    daemon.client.create("s", host_path=str(tmp_path))
    with socket.create_connection(("127.0.0.1", daemon.port)) as caller:
        head = f"PUT /v1/sessions/s/files?path=file HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        caller.sendall(head.encode() + b"Content-Length: 2000000\r\n\r\n" + b"x" * 1_000_000)
        wait_until(lambda: len(os.listdir(tmp_path)) > 1 or daemon.client.metric("connections_busy") > 1, "the upload")
        daemon.kill()
    assert (tmp_path / "file").read_text() == "old"
    daemon.start()
    assert daemon.client.output("s", "cat file", host_path=str(tmp_path)) == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_polite_end_lets_work_finish(start_daemon):
    daemon = start_daemon()
    caller = begin(daemon, "POST", session_path("s") + "/exec", {"cmd": "sleep 6000.25 & sleep 1; echo finished"})
    wait_until(lambda: processes_with("sleep 6000.25"), "the command at work")
    daemon.signal(signal.SIGTERM)
    assert caller.receive().json["stdout"] == "finished"
    assert daemon.process.wait(60) == 0
    daemon.check_nothing_left()


def test_a_polite_end_cancels_what_takes_too_long(start_daemon):
    daemon = start_daemon()
    caller = begin(daemon, "POST", session_path("s") + "/exec", {"cmd": "sleep 6000.75", "timeout_sec": 9999})
    wait_until(lambda: processes_with("sleep 6000.75"), "the command at work")
    daemon.signal(signal.SIGTERM)
    wait_until(lambda: refuses(daemon), "the end to begin")
    reply = caller.receive()
    assert (reply.status, reply.code) == (503, "runtime_unavailable")
    assert daemon.process.wait(60) == 0
    assert not processes_with("sleep 6000.75")
    daemon.check_nothing_left()


def test_a_second_signal_ends_it_at_once(start_daemon):
    daemon = start_daemon()
    caller = begin(daemon, "POST", session_path("s") + "/exec", {"cmd": "sleep 6000.125", "timeout_sec": 9999})
    wait_until(lambda: processes_with("sleep 6000.125"), "the command at work")
    daemon.signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in daemon.read_log(), "the end to begin")
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(8) == 1  # a polite end takes ten
    caller.close()
    wait_until(lambda: not processes_with("sleep 6000.125"), "the end of the command")
    assert not (daemon.state / "keeper.sock").exists()
    daemon.start()
    works(daemon)


def test_nothing_of_a_daemon_that_stops_under_load_stays(start_daemon):
    daemon = start_daemon()
    callers = [
        begin(daemon, "POST", session_path(f"s{n}") + "/exec", {"cmd": "sleep 0.3; echo x", "network": network})
        for n, network in enumerate(["off", "on"] * 6)
    ]
    wait_until(lambda: daemon.client.metric("sessions") > 3, "some work")
    daemon.signal(signal.SIGTERM)
    for caller in callers:
        reply = caller.receive()
        assert reply.status == 200 or reply.code == "runtime_unavailable", reply
    assert daemon.process.wait(60) == 0
    daemon.check_nothing_left()
    assert not descendants(daemon.pid)


# F3 to F6: what happens in a box.


def test_a_payload_that_is_killed_leaves_its_output_and_its_session(daemon, client, name):
    cmd = "i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i + 1)); done; exec sleep 6001"
    caller = begin(daemon, "POST", session_path(name) + "/exec", {"cmd": cmd})
    [victim] = wait_until(lambda: processes_with("sleep 6001"), "the command at work")
    os.kill(victim, signal.SIGKILL)
    result = caller.receive().json
    assert (result["exit_code"], result["signal"]) == (137, 9)
    assert result["stdout"].split() == [str(n) for n in range(1000)]
    assert client.output(name, "echo usable") == "usable"
    client.delete(name)


def test_a_box_whose_process_one_is_killed_ends_whole(start_daemon, tmp_path):
    tmp_path.chmod(0o777)
    daemon = start_daemon(NO_POOLS)
    with daemon.nothing_left():
        spec = {"host_path": str(tmp_path)}
        first = daemon.process_one("s", **spec)
        cmd = "echo kept > file; (setsid sleep 6002 &); sleep 6002"
        caller = begin(daemon, "POST", session_path("s") + "/exec", {"cmd": cmd, **spec})
        wait_until(lambda: len(processes_with("sleep 6002")) >= 2, "the command at work")
        os.kill(first, signal.SIGKILL)
        reply = caller.receive()
        assert (reply.status, reply.code) == (502, "box_lost"), reply
        assert "the next exec makes a new box" in reply.message
        wait_until(lambda: not processes_with("sleep 6002"), "the end of all in the box")
        assert daemon.client.get("s").json["state"] == "dead"
        assert daemon.client.output("s", "cat file", **spec) == "kept"
        daemon.client.delete("s")


def test_only_the_offender_dies_of_memory(start_daemon):
    daemon = start_daemon(NO_POOLS)
    with daemon.nothing_left():
        rss = daemon.rss_kb()
        daemon.client.output("s", "sleep 6003 & echo", memory_mb=64)
        for count in (1, 2):
            result = daemon.client.run("s", "python3 -c 'x = bytearray(1 << 30)'; echo $?", memory_mb=64)
            assert (result["oom"], result["oom_limit_mb"], result["stdout"]) == (True, 64, "137")
            usage = daemon.client("GET", "/v1/sessions/s/usage").json
            assert usage["oom_kills"] == count and usage["memory_limit_bytes"] == 64 << 20
        assert processes_with("sleep 6003")
        assert daemon.client.metric("exec_oom_total") == 2
        assert daemon.rss_kb() < rss + 4096
        daemon.client.delete("s")


BOMBS = {
    "fork bomb": "f() { f | f & }; f; while :; do :; done",
    "descriptors": "exec python3 -c 'import os, time\nfds = []\ntry:\n  while True: fds.append(os.pipe())\nexcept OSError: pass\ntime.sleep(99)'",
    "flood": "yes",
    "flood of errors": "yes >&2",
    "zombies": "python3 -c 'import os\nwhile True:\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: pass'",
    "ignores signals": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "files": "i=0; while :; do i=$((i + 1)); echo x > /tmp/$i; done",
}


@pytest.mark.parametrize("cmd", BOMBS.values(), ids=BOMBS)
def test_a_bomb_goes_off_in_its_box_only(start_daemon, cmd):
    daemon = start_daemon(NO_POOLS)
    with daemon.nothing_left():
        rss = daemon.rss_kb()
        caller = begin(daemon, "POST", session_path("bomb") + "/exec", {"cmd": cmd, "pids_limit": 64})
        wait_until(lambda: daemon.client.get("bomb").status == 200, "the bomb's session")
        # Of those that have ended, too: most processes of a fork bomb live for a moment.
        worked = lambda: daemon.client("GET", session_path("bomb") + "/usage").json["cpu_ms"]  # noqa: E731
        wait_until(lambda: "sleep" in cmd or worked() > 500, "the bomb")
        # The kernel counts what each processor is about to refuse, too.
        assert daemon.client("GET", session_path("bomb") + "/usage").json["processes"] <= 64 + os.cpu_count()
        works(daemon)
        started = time.monotonic()
        assert daemon.client.delete("bomb").status == 200
        assert time.monotonic() - started < 4.5  # in five the daemon would give up waiting
        assert "is being deleted" in caller.receive().message
        assert daemon.rss_kb() < rss + 16384


def test_the_time_that_a_session_worked_is_told(client, name):
    client.output(name, "python3 -c 'import time\nwhile time.process_time() < 0.5: pass'")
    assert client("GET", session_path(name) + "/usage").json["cpu_ms"] >= 250
    client.delete(name)


def test_a_flood_is_cut_with_exact_counts(daemon, client, name):
    rss = daemon.rss_kb()
    result = client.run(name, "yes | head -c 300000000")
    assert result["stdout_discarded"] == 300_000_000 - (1 << 20)
    assert result["stdout"].endswith(f"{300_000_000 - (1 << 20)} bytes discarded]")
    assert daemon.rss_kb() < rss + 16384
    client.delete(name)


# F20: the clock jumps.

SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long offset(void) {
  long value = 0;
  int fd = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) { if (read(fd, &value, sizeof value) != sizeof value) value = 0; close(fd); }
  return value;
}
int clock_gettime(clockid_t clock, struct timespec* now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += offset();
  return result;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec exact; (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec; now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}
"""


@pytest.mark.parametrize("jump", [3600, -3600], ids=["forward", "back"])
def test_a_jump_of_the_clock_changes_stamps_only(start_daemon, tmp_path, jump):
    compiler = next(filter(None, map(shutil.which, ("cc", "clang-16", "gcc"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the clock that jumps")
    offset, source, shim = tmp_path / "offset", tmp_path / "shim.c", tmp_path / "shim.so"
    offset.write_bytes(struct.pack("l", 0))
    source.write_text(SHIM)
    define = f'-DOFFSET_FILE="{offset}"'
    subprocess.run([compiler, "-shared", "-fPIC", define, "-o", shim, source], check=True)
    env = {"LD_PRELOAD": str(shim)}
    daemon = start_daemon("caisson: {session_ttl_sec: 10, pools: false}\n", env=env)
    client = daemon.client
    made = client.create("s").json
    caller = begin(daemon, "POST", session_path("t") + "/exec", {"cmd": "sleep 6004", "timeout_sec": 6})
    wait_until(lambda: processes_with("sleep 6004"), "the command at work")
    offset.write_bytes(struct.pack("l", jump))
    assert client.output("s", "echo here") == "here"
    used = client.get("s").json
    assert used["backend_session_id"] == made["backend_session_id"]
    assert (used["last_used_at"] > made["created_at"]) == (jump > 0), "the shim has no effect"
    result = caller.receive().json
    assert result["status"] == "timed_out" and 6000 <= result["duration_ms"] < 60_000
    assert client.get("s").status == 200
    wait_until(lambda: client.get("s").status == 404, "the expiry")
    works(daemon)


# F22: numbers of processes come again.


def test_numbers_of_processes_that_come_again_hit_nobody(start_daemon):
    if not Path("/proc/sys/kernel/pid_max").exists() or not has_own_pid_max():
        pytest.skip("this kernel has no pid_max of a namespace's own")
    script = 'echo 400 > /proc/sys/kernel/pid_max; "$@" & wait $!'
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh"]
    daemon = start_daemon(NO_POOLS, prefix=prefix)
    daemon.client.output("bystander", "sleep 6005 & echo")
    [bystander] = wait_until(lambda: processes_with("sleep 6005"), "what runs beside")
    for number in range(150):  # numbers begin again after about fifteen
        name = f"s{number % 2}"
        result = daemon.client.run(name, "sleep 6006 & true; true | true; sh -c 'sleep 0'; kill -9 $$")
        assert result["signal"] == 9, result
        if number % 6 >= 4:
            assert daemon.client.delete(name).status == 200
    assert command_line(bystander).startswith("sleep 6005") and bystander in parents()
    assert daemon.client.delete("bystander").status == 200
    assert not processes_with("sleep 6006")
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0, daemon.read_log()


def has_own_pid_max():
    before = Path("/proc/sys/kernel/pid_max").read_text()
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    done = subprocess.run([*inside, "echo 400 > /proc/sys/kernel/pid_max; cat /proc/sys/kernel/pid_max"],
                          capture_output=True, text=True)  # fmt: skip
    if Path("/proc/sys/kernel/pid_max").read_text() != before:
        Path("/proc/sys/kernel/pid_max").write_text(before)
        return False
    return done.stdout.strip() == "400"
