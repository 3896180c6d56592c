"""A line is delivered whole up to 16 MiB however small the journal is; a longer one is cut off, and the process goes on."""

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from rest.host import wait_until

from .managed import output, show, signal, start_python, wait_for_output
from .relay import Relay, relay_url

MIB = 1 << 20
LONGEST = 16 * MIB
SMALL = MIB  # the smallest journal

# A line for every line that comes: that many bytes, each of which tells where it is; 0 is the end of a line.
WRITER = """
import os, sys
pattern = bytes(range(33, 126))
def say(data):
    while data: data = data[os.write(1, data):]
for request in sys.stdin:
    for size in map(int, request.split()):
        say((pattern * (size // len(pattern) + 1))[:size] if size else b"\\n")
"""
PATTERN = bytes(range(33, 126)).decode()


def text(size):
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def check_line(got, size):
    """Without a page of text when it is another one."""
    assert got is not None and len(got) == size
    assert got == text(size), "other bytes"


def start_writer(client, name, journal=SMALL, overflow="hold", **spec):
    start_python(client, name, WRITER, journal_bytes=journal, overflow=overflow, **spec)


def wait_for_end_of_stream(client, name, size):
    wait_until(lambda: show(client, name)["stdout"]["end"] == size, f"{size} bytes")


@pytest.mark.parametrize("overflow", ["hold", "release"])
@pytest.mark.parametrize(
    ("journal", "size"),
    [
        (SMALL, SMALL - 1),
        (SMALL, SMALL),
        (SMALL, SMALL + 1),
        (SMALL, 5 * SMALL + 12345),
        (SMALL, LONGEST - 1),
        (SMALL, LONGEST),
        (LONGEST, LONGEST - 1),
        (LONGEST, LONGEST),
    ],
)
def test_a_line_is_delivered_however_small_the_journal_is(daemon, client, name, overflow, journal, size):
    start_writer(client, name, journal, overflow)
    most = max(journal + journal // 8 + MIB, size + 2 * MIB)
    with Relay(daemon, name) as relay:
        relay.write(f"3 0 {size} 0 5 0 {size} 0 7 0")
        for expected in (3, size, 5, size, 7):
            check_line(relay.read(), expected)

        def is_released():
            """What was delivered goes when more comes."""
            relay.write("9 0")
            check_line(relay.read(), 9)
            kept = show(client, name)["stdout"]
            return kept["end"] - kept["begin"] <= most

        # No more is kept for the line than it needs, and no longer.
        wait_until(is_released, "the release of the first line")
    client.delete(name)


def test_a_line_that_was_begun_while_nobody_was_there_is_delivered(daemon, client, name):
    start_python(client, name, f"print('x' * {LONGEST})\nprint('next')\ninput()", journal_bytes=SMALL, overflow="hold")
    wait_for_end_of_stream(client, name, SMALL)
    with Relay(daemon, name) as relay:
        got = relay.read()
        assert len(got) == LONGEST and not got.strip("x")
        assert relay.read() == "next"
    client.delete(name)


@pytest.mark.parametrize("size", [LONGEST + 1, LONGEST + SMALL, 40 * MIB])
def test_a_longer_line_is_cut_off(start_daemon, size):
    client = (daemon := start_daemon()).client
    start_writer(client, "s", process_id="writer")
    with Relay(daemon, "s", "writer") as relay:
        for _ in range(3):
            relay.write(f"{size} 0 4 0")
            check_line(relay.read(), LONGEST)
            check_line(relay.read(), 4)
    notices = [line for line in daemon.read_log().splitlines() if "its rest is cut off" in line]
    assert len(notices) == 1 and "s/writer" in notices[0], notices
    daemon.stop()


def test_what_is_left_of_a_line_that_is_cut_off_is_text(daemon, client, name):
    script = f"import os\ndata = ('€' * {LONGEST // 3 + 10}).encode() + b'\\nnext\\n'\n"
    start_python(client, name, script + "while data: data = data[os.write(1, data):]\ninput()")
    with Relay(daemon, name) as relay:
        assert relay.read() == "€" * (LONGEST // 3)
        assert relay.read() == "next"
    client.delete(name)


@pytest.mark.parametrize("leave", ["cut", "kill"])
def test_a_line_is_whole_for_who_comes_back_in_the_midst_of_it(start_daemon, leave):
    client = (daemon := start_daemon()).client
    start_writer(client, "s")
    half = 7 * SMALL + 11
    with Relay(daemon, "s") as relay:
        relay.write(f"2 0 {half}")
        check_line(relay.read(), 2)
        wait_for_end_of_stream(client, "s", half + 3)
        relay.cut()
    if leave == "kill":
        daemon.kill()
        client = daemon.start().client
    assert output(client, "s", limit=10).body == b'!"\n!"#$%&\''
    # More than fits: it waits for somebody who takes it, and nothing of the line goes meanwhile.
    with Relay(daemon, "s") as relay:
        relay.write(f"{half} 0 6 0")
        got = relay.read()
        assert len(got) == 2 * half and got == text(half) * 2
        check_line(relay.read(), 6)
    daemon.stop()


def test_a_line_that_was_not_taken_as_a_whole_comes_again(daemon, client, name):
    start_writer(client, name)
    with Relay(daemon, name, receive_buffer=4096) as relay:
        relay.write(f"{LONGEST} 0 5 0")
        for _ in range(100):
            relay.receive(4096)
        relay.cut()
    with Relay(daemon, name) as relay:
        check_line(relay.read(), LONGEST)
        check_line(relay.read(), 5)
    client.delete(name)


@pytest.mark.parametrize("leave", ["cut", "kill"])
def test_the_rest_of_a_line_that_was_cut_off_is_nobodys(start_daemon, leave):
    client = (daemon := start_daemon()).client
    start_writer(client, "s")
    size = LONGEST + 5 * SMALL
    with Relay(daemon, "s") as relay:
        relay.write(f"{size}")
        check_line(relay.read(), LONGEST)
        wait_for_end_of_stream(client, "s", size)
        relay.cut()
    if leave == "kill":
        daemon.kill()
        client = daemon.start().client
    with Relay(daemon, "s") as relay:
        relay.write(f"{2 * SMALL} 0 6 0 7 0")
        check_line(relay.read(), 6)
        check_line(relay.read(), 7)
    daemon.stop()


def test_a_line_that_a_client_refuses_is_not_given_to_it_for_ever(start_daemon):
    """As LangBot's client does with more than 1 MiB; it then attaches again."""
    client = (daemon := start_daemon()).client
    start_writer(client, "s")

    def attach():
        return connect(relay_url(daemon, "s"), subprotocols=["mcp"], compression=None, max_size=MIB)

    # Longer than what connections take before they notice.
    with attach() as relay:
        relay.send(f"3 0 {LONGEST} 0 {LONGEST} 0 4 0")
        assert relay.recv(60) == text(3)
        with pytest.raises(ConnectionClosed) as closed:
            relay.recv(60)
        assert closed.value.sent.code == 1009
    with attach() as relay, pytest.raises(ConnectionClosed):
        relay.recv(60)
    with attach() as relay:
        assert relay.recv(60) == text(4)
    notices = [line for line in daemon.read_log().splitlines() if "refused a line" in line]
    assert len(notices) == 1 and "s/default" in notices[0], notices
    daemon.stop()


def test_what_a_client_is_told_of_its_own_message_is_no_refusal(daemon, client, name):
    start_writer(client, name)
    with Relay(daemon, name, receive_buffer=4096) as relay:
        relay.write(f"{LONGEST} 0 5 0")
        relay.receive(4096)
        try:
            relay.write("x" * (LONGEST + 1))
        except OSError:
            pass  # it stopped listening before the end
        relay.cut()
    with Relay(daemon, name) as relay:
        check_line(relay.read(), LONGEST)
        check_line(relay.read(), 5)
    client.delete(name)


def test_a_line_whose_beginning_was_released_is_left_out(daemon, client, name):
    start_python(client, name, f"print('x' * {3 * SMALL})\nprint('next')\ninput()", journal_bytes=SMALL)
    wait_for_end_of_stream(client, name, 3 * SMALL + 6)
    with Relay(daemon, name) as relay:
        assert relay.read() == "next"
    client.delete(name)


# What else comes in lines.


@pytest.mark.parametrize("direction", ["to the process", "from the process"])
def test_traffic_is_a_use_of_the_session(daemon, client, name, direction):
    # What it reads it answers only when it is told to by a signal.
    script = "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: print('signal'))\nprint('ready')\n"
    start_python(client, name, script + "for line in sys.stdin: print('read', file=sys.stderr)")

    def used():
        return client.get(name).json["last_used_at"]

    with Relay(daemon, name) as relay:
        assert relay.read() == "ready"
        before = used()
        if direction == "to the process":
            relay.write("something")
            wait_for_output(client, name, b"read", stream="stderr")
        else:
            assert signal(client, name, 10).status == 200
            assert relay.read() == "signal"
        wait_until(lambda: used() > before, "a later use")
    client.delete(name)
