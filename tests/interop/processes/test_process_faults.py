"""Faults of processes and of their clients, injected for real: the rows of the table of faults that concern them.

$CAISSON_FLOOD is the size of the flood in bytes.
"""

import contextlib
import os
import signal
import socket
import time

import pytest

from rest.daemon import session_path, works
from rest.host import processes_with, wait_until

from .managed import (
    output,
    process_groups,
    process_path,
    remove,
    show,
    start,
    start_python,
    start_shell,
    wait_for_end,
    wait_for_output,
)
from .relay import STDERR, STDOUT, Offsets, Relay

FLOOD = int(os.environ.get("CAISSON_FLOOD", 1 << 30))
JOURNAL = 16 << 20
ROOM_FOR_MEMORY = 24 << 10  # KiB that a daemon may grow by for what it does at a time


def host_pid(marker):
    [pid] = wait_until(lambda: processes_with(marker), f"{marker} at work")
    return pid


# F3: the payload is killed.


def test_a_killed_payload_leaves_all_that_it_wrote(daemon, client, name):
    start_shell(client, name, "seq 100000; echo to stderr >&2; exec sleep 8001.5")
    wait_for_output(client, name, b"100000\n")
    wait_for_output(client, name, b"to stderr\n", stream="stderr")
    with Offsets(daemon, name, "default", **{"from": 0, "stderr_from": 0}) as relay:
        os.kill(host_pid("sleep 8001.5"), signal.SIGKILL)
        got, end = {STDOUT: b"", STDERR: b""}, None
        while end is None:
            found = relay.next()
            if isinstance(found, dict):
                end = found
            else:
                got[found[0]] += found[2]
        assert (end["type"], end["signal"], end["exit_code"], end["oom"]) == ("exit", 9, None, False)
        assert relay.next() is None and relay.close_code == 1000
    assert got[STDOUT].split() == [str(number).encode() for number in range(1, 100001)]
    assert got[STDERR] == b"to stderr\n"
    shown = show(client, name)
    assert (shown["status"], shown["exit_code"], shown["last_end"]["signal"]) == ("exited", 137, 9)
    assert client.output(name, "echo usable") == "usable"
    client.delete(name)


# F4: process 1 of the box is killed.


def test_a_process_ends_with_its_box(start_daemon):
    daemon = start_daemon()
    guest = daemon.process_one("s")
    start_shell(daemon.client, "s", "echo before; exec sleep 8002.5", restart="always")
    wait_for_output(daemon.client, "s", b"before")
    with Offsets(daemon, "s", **{"from": 0}) as relay:
        os.kill(guest, signal.SIGKILL)
        assert relay.bytes_until(lambda got: got.endswith(b"before\n")) == b"before\n"
        end = relay.event("exit")
        assert end["reason"] and end["exit_code"] is None
        assert relay.next() is None
    assert not processes_with("sleep 8002.5")
    # The next box is a new one; nothing of the process is started in it by itself.
    assert daemon.client.output("s", "echo new") == "new"
    start(daemon.client, "s", "cat")
    with Relay(daemon, "s") as relay:
        relay.write("works")
        assert relay.read() == "works"
    works(daemon)
    daemon.stop()


# F5: out of memory.

HOG = "import time\nprint('begin')\nhoard = []\nwhile True: hoard.append(b'x' * (1 << 20))"


@pytest.mark.parametrize("own", [True, False], ids=["memory of its own", "the session's memory"])
def test_a_process_without_memory_says_so(daemon, client, name, own):
    spec = {"memory_mb": 512 if own else 64}
    client.create(name, **spec)
    start(client, name, "sleep", "8003.5", process_id="bystander")
    rss = daemon.rss_kb()
    start_python(client, name, HOG, **({"memory_mb": 48} if own else {}))
    shown = wait_for_end(client, name)
    assert shown["last_end"]["oom"] and shown["last_end"]["signal"] == 9, shown
    assert shown["exit_code"] == 137
    assert output(client, name).body == b"begin\n"
    assert show(client, name, "bystander")["status"] == "running"
    assert daemon.rss_kb() < rss + ROOM_FOR_MEMORY
    assert client.output(name, "echo usable", **spec) == "usable"
    client.delete(name)


# F6: floods and bombs.


def test_a_flood_that_nobody_reads_stays_bounded_and_can_be_stopped(daemon, client, name):
    client.output(name, "true")
    rss = daemon.rss_kb()
    start_shell(client, name, f"head -c {FLOOD} /dev/zero; exec yes", journal_bytes=JOURNAL)
    most = 0

    def flooded():
        nonlocal most
        most = max(most, daemon.rss_kb())
        return show(client, name)["stdout"]["end"] >= FLOOD

    wait_until(flooded, "the flood", 60 + FLOOD / (20 << 20))
    assert most < rss + ROOM_FOR_MEMORY
    kept = show(client, name)["stdout"]
    assert kept["end"] - kept["begin"] <= JOURNAL + JOURNAL // 4
    [directory] = (daemon.state / "processes").iterdir()
    assert sum(file.stat().st_blocks * 512 for file in directory.iterdir()) < 2 * JOURNAL
    started = time.monotonic()
    remove(client, name)
    seconds = time.monotonic() - started
    print(f"stopped in {seconds:.3f} s")
    assert seconds < 4.5, "it had to be killed"
    assert not directory.exists()
    client.delete(name)


def test_a_fork_bomb_is_stopped_and_leaves_nothing(daemon, client, name):
    spec = {"pids_limit": 64}
    client.output(name, "true", **spec)
    before = process_groups(daemon)
    marker = f"bomb {time.monotonic_ns()}"
    script = f"# {marker}\nimport os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    start_python(client, name, script)
    usage = session_path(name) + "/usage"
    wait_until(lambda: client("GET", usage).json["processes"] >= 60, "the bomb")
    works(daemon)
    remove(client, name)
    assert not processes_with(marker)
    assert client.output(name, "echo usable", **spec) == "usable"
    client.delete(name)
    wait_until(lambda: process_groups(daemon) <= before, "the end of its groups")


HARD_TO_END = {
    "ignores SIGTERM": "trap '' TERM; echo ready; while :; do sleep MARKER; done",
    "ignores everything": "trap '' TERM INT HUP PIPE QUIT; exec 0<&-; echo ready; while :; do sleep MARKER; done",
    "has daemons": "for i in 1 2 3; do (setsid sh -c 'sleep MARKER & sleep MARKER' >/dev/null 2>&1 &); done; "
    "echo ready; sleep MARKER",
    "is a daemon itself": "setsid -f sh -c 'echo ready; exec sleep MARKER'; sleep 0.5",
    "has stopped itself": "echo ready; kill -STOP $$; sleep MARKER",
}


@pytest.mark.parametrize("script", HARD_TO_END.values(), ids=HARD_TO_END)
def test_stopping_leaves_nothing_of_a_process(daemon, client, name, script):
    client.output(name, "true")
    before = process_groups(daemon)
    marker = f"{time.monotonic_ns()}.5"
    start_shell(client, name, script.replace("MARKER", marker), process_id="hard", memory_mb=64)
    wait_for_output(client, name, b"ready", "hard")
    remove(client, name, "hard")
    assert not processes_with(marker)
    assert client("GET", process_path(name, "hard")).status == 404
    assert client.output(name, "echo usable") == "usable"
    client.delete(name)
    wait_until(lambda: process_groups(daemon) <= before, "the end of its groups")


def test_a_process_ends_with_its_first_program(client, name):
    marker = f"{time.monotonic_ns()}.5"
    start_shell(client, name, f"(setsid sleep {marker} &) ; sleep {marker} & exit 3")
    assert wait_for_end(client, name)["exit_code"] == 3
    assert not processes_with(marker)
    client.delete(name)


def test_deleting_a_session_leaves_nothing_of_its_processes(start_daemon):
    daemon = start_daemon()
    with daemon.nothing_left():
        marker = f"{time.monotonic_ns()}.5"
        for number, script in enumerate(HARD_TO_END.values()):
            start_shell(daemon.client, "s", script.replace("MARKER", marker), process_id=str(number))
            wait_for_output(daemon.client, "s", b"ready", str(number))
        assert daemon.client.delete("s").status == 200
        assert not processes_with(marker)
        wait_until(lambda: not list((daemon.state / "processes").iterdir()), "the end of the streams")
    daemon.stop()


# F13: a client's connection is cut.


@pytest.mark.parametrize("leave", ["cut", "close"])
def test_a_stream_goes_on_where_its_client_was_cut_off(daemon, client, name, leave):
    script = "import sys\nfor line in sys.stdin: print('got', line, end='')"
    start_python(client, name, script)
    got, sent = b"", 0
    for _ in range(20):
        relay = Offsets(daemon, name, **{"from": len(got)})
        assert relay.hello["from"] == len(got)
        for _ in range(5):
            sent += 1
            relay.send(f"line {sent}\n".encode(), sent)
        # Some of it is on its way when the connection ends.
        got += relay.bytes_until(lambda piece: piece.endswith(b"\n"))
        getattr(relay, leave)()
        wait_until(lambda: not show(client, name)["attached"], "nobody attached")
    with Offsets(daemon, name, **{"from": len(got)}) as relay:
        for number in range(relay.hello["last_sequence"] + 1, sent + 1):
            relay.send(f"line {number}\n".encode(), number)
        relay.tell("close_input")
        while isinstance(found := relay.next(), tuple) or found["type"] != "exit":
            got += found[2] if isinstance(found, tuple) else b""
    # A line that was cut off before it came in was never written; the numbers say which those are.
    lines = [int(line.split()[-1]) for line in got.splitlines()]
    assert lines == sorted(set(lines)) and set(lines) <= set(range(1, sent + 1))
    assert lines[-1] == sent
    client.delete(name)


# F14: a client that is there and does nothing.


def test_a_client_that_stands_still_is_given_up_after_two_intervals(daemon, client, name):
    start(client, name, "cat")
    with Relay(daemon, name) as stopped:  # it answers no ping while nobody lets it read
        assert show(client, name)["attached"]
        wait_until(lambda: not show(client, name)["attached"], "the end of the client", 180)
        with contextlib.suppress(ConnectionResetError):
            while stopped.socket.recv(65536):  # pings, then the end of the connection
                pass
        with Relay(daemon, name) as next_one:
            next_one.write("works")
            assert next_one.read() == "works"
    client.delete(name)


# F15: a slow client.


def test_a_slow_client_holds_its_process_back_and_nobody_else(daemon, client, name):
    rss = daemon.rss_kb()
    size = 100 << 20
    script = f"read go; head -c {size} /dev/zero; echo done >&2"
    start_shell(client, name, script, process_id="slow", journal_bytes=1 << 20)
    start(client, name, "cat", process_id="other")
    with Offsets(daemon, name, "slow", receive_buffer=4096, **{"from": 0}) as slow:
        slow.send(b"go\n")
        for _ in range(40):
            slow.receive(1024)
            with Relay(daemon, name, "other") as other:
                other.write("prompt")
                assert other.read() == "prompt"
            assert daemon.rss_kb() < rss + ROOM_FOR_MEMORY
        # What is written is ahead of the client by what the connection and the journal take, and no more.
        shown = show(client, name, "slow")
        assert shown["stdout"]["end"] < 16 << 20
        assert (shown["status"], shown["stderr_preview"]) == ("running", "")
        slow.cut()
    # Without it, the process is free.
    assert wait_for_end(client, name, "slow")["stdout"]["end"] == size
    client.delete(name)


def test_an_observer_that_is_slow_is_told_what_it_missed(daemon, client, name):
    size = 64 << 20
    start_shell(client, name, f"read x; head -c {size} /dev/zero", journal_bytes=1 << 20)
    with Offsets(daemon, name, receive_buffer=4096, attach="observe", **{"from": 0}) as observer:
        with Offsets(daemon, name) as reader:
            reader.send(b"go\n")
            got = 0
            while isinstance(found := reader.next(), tuple) or found["type"] != "exit":
                got += len(found[2]) if isinstance(found, tuple) else 0
            assert got == size
        at, missed = 0, 0
        while isinstance(found := observer.next(), tuple) or found["type"] != "exit":
            if isinstance(found, tuple):
                assert found[1] == at
                at += len(found[2])
            else:
                assert found["type"] == "truncated" and found["from"] == at < found["to"]
                missed += found["to"] - at
                at = found["to"]
        assert at == size and missed > 0
    client.delete(name)


# F16: one direction ends.


def test_the_end_of_input_reaches_a_process_and_its_output_goes_on(daemon, client, name):
    start_shell(client, name, "cat; echo after the end; sleep 0.3; echo late; exit 7")
    with Offsets(daemon, name) as relay:
        relay.send(b"one\n", 1)
        relay.tell("close_input")
        relay.send(b"two\n", 2)
        assert relay.event("written")["sequence"] == 1
        assert relay.event("input_closed")["sequence"] == 2
        relay.bytes_until(lambda got: got.endswith(b"late\n"))
        assert relay.event("exit")["exit_code"] == 7
    assert output(client, name).body == b"one\nafter the end\nlate\n"
    client.delete(name)


def test_a_process_that_closes_its_output_goes_on_reading(daemon, client, name):
    start_shell(client, name, "echo last; exec >&- 2>&-; cat > got; exit 5")
    with Offsets(daemon, name) as relay:
        relay.bytes_until(lambda got: got == b"last\n")
        relay.send(b"to be kept\n", 1)
        assert relay.event("written")["sequence"] == 1
        wait_until(lambda: client.get_file(name, "got").body == b"to be kept\n", "the file")
        assert show(client, name)["status"] == "running"
        relay.tell("close_input")
        assert relay.event("exit")["exit_code"] == 5
    client.delete(name)


def test_a_process_that_closes_its_input_goes_on_writing(daemon, client, name):
    start_shell(client, name, "exec <&-; echo closed; while [ ! -e stop ]; do sleep 0.05; done; echo end")
    with Offsets(daemon, name) as relay:
        relay.bytes_until(lambda got: got == b"closed\n")
        relay.send(b"nobody reads this\n", 1)
        relay.tell("close_input")
        client.output(name, "touch stop")
        relay.bytes_until(lambda got: got == b"end\n")
        assert relay.event("exit")["exit_code"] == 0
    client.delete(name)


def test_a_client_that_says_nothing_more_still_gets_everything(daemon, client, name):
    """The half of its connection that it writes to is closed without a word."""
    start_shell(client, name, "cat")
    with Relay(daemon, name) as relay:
        relay.write("echo")
        assert relay.read() == "echo"
        relay.socket.shutdown(socket.SHUT_WR)
        assert relay.read() is None
    wait_until(lambda: not show(client, name)["attached"], "the end of the client")
    with Relay(daemon, name) as relay:
        relay.write("works")
        assert relay.read() == "works"
    client.delete(name)


# F24: a crash loop.


def test_a_crash_loop_is_slowed_down_and_told(client, name):
    started = start_shell(client, name, "echo out $$; echo broken >&2; exit 3", restart="on-failure")
    assert started["status"] in ("running", "restarting")

    wait_until(lambda: show(client, name)["restarts"] >= 4, "four restarts")
    stamps = output(client, name).body.splitlines()
    shown = show(client, name)
    assert shown["last_end"]["exit_code"] == 3 and not shown["last_end"]["oom"]
    assert shown["stderr_preview"].startswith("broken\nbroken\nbroken\n")
    assert set(shown["stderr_preview"].split()) == {"broken"}
    assert len(stamps) <= shown["restarts"] + 1
    remove(client, name)
    assert client("GET", process_path(name)).status == 404
    client.delete(name)


def test_backoff_doubles(start_daemon):
    daemon = start_daemon()
    start_shell(daemon.client, "s", "exit 1", restart="always")
    wait_until(lambda: show(daemon.client, "s")["restarts"] >= 4, "four restarts")
    pauses = [line.split("in_ms=")[1].split()[0] for line in daemon.read_log().splitlines() if "in_ms=" in line]
    assert pauses[:4] == ["100", "200", "400", "800"]
    daemon.stop()


@pytest.mark.parametrize(
    "restart, end, again",
    [
        ("never", "exit 1", False),
        ("on-failure", "exit 0", False),
        ("on-failure", "exit 1", True),
        ("on-failure", "kill -9 $$", True),
        ("always", "exit 0", True),
    ],
)
def test_a_process_is_restarted_as_its_policy_says(daemon, client, name, restart, end, again):
    start_shell(client, name, f"echo run; read x; {end}", restart=restart)
    with Offsets(daemon, name, **{"from": 0}) as relay:
        relay.bytes_until(lambda got: got == b"run\n")
        first = show(client, name)["pid"]
        relay.send(b"go\n")
        if again:
            # The client stays, and offsets go on.
            assert relay.bytes_until(lambda got: got == b"run\n")
            shown = show(client, name)
            assert shown["restarts"] == 1 and shown["pid"] not in (0, first)
            assert shown["stdout"] == {"begin": 0, "end": 8}
        else:
            relay.event("exit")
            assert wait_for_end(client, name)["restarts"] == 0
    client.delete(name)


# F26: everything stands still for a while.


def test_nothing_expires_while_the_daemon_stands_still(start_daemon):
    daemon = start_daemon("caisson: {session_ttl_sec: 3}\n")
    start(daemon.client, "s", "cat")
    pid = show(daemon.client, "s")["pid"]
    with Relay(daemon, "s") as relay:
        daemon.signal(signal.SIGSTOP)
        relay.write("sent meanwhile")
        time.sleep(5)  # not to wait for anything: the pause itself is what is tested
        daemon.signal(signal.SIGCONT)
        assert relay.read() == "sent meanwhile"
        relay.write("works")
        assert relay.read() == "works"
    assert show(daemon.client, "s")["pid"] == pid
    daemon.stop()
