"""The relay as LangBot and MCP clients see it: one message, one line, whole, in order, once."""

import json

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from rest.daemon import session_path
from rest.host import wait_until

from .managed import process_path, remove, show, signal, start, start_python, start_shell, wait_for_end
from .relay import Plain, Refused, Relay, relay_url

MANY = 1000
PIECE = 64 << 10  # what the relay reads at once


def attach(daemon, session, process=None):
    """With a foreign client, as MCP clients do."""
    return connect(relay_url(daemon, session, process), subprotocols=["mcp"], max_size=None, compression=None)


@pytest.fixture
def cat(client, name):
    start(client, name, "cat")
    yield name
    client.delete(name)


# What is sent comes back.


def test_pipelined_messages_come_back_in_order(daemon, cat):
    with attach(daemon, cat) as relay:
        sent = [json.dumps({"jsonrpc": "2.0", "id": number, "method": "x" * (number % 300)}) for number in range(MANY)]
        for message in sent:
            relay.send(message)
        assert [relay.recv(30) for _ in sent] == sent


@pytest.mark.parametrize("length", [0, 1, 65535, 65536, 65537, 76_000, 1 << 20, 8 << 20])
def test_a_line_is_one_message_however_long(daemon, cat, length):
    line = ("0123456789abcdef" * (length // 16 + 1))[:length]
    with attach(daemon, cat) as relay:
        relay.send(line)
        relay.send("next")
        assert relay.recv(30) == line
        assert relay.recv(30) == "next"


@pytest.mark.parametrize("character", ["é", "€", "😀"], ids=["2 bytes", "3 bytes", "4 bytes"])
def test_characters_on_the_boundaries_of_reads_stay_whole(daemon, client, name, character):
    size = len(character.encode())
    for shift in range(size):
        # All of it is kept before anybody reads: so the first read ends within a character, or between two.
        script = f"print('x' * {shift} + {character!r} * {4 * PIECE // size})\ninput()"
        start_python(client, name, script, env={"PYTHONIOENCODING": "utf-8"})
        line = "x" * shift + character * (4 * PIECE // size)
        wait_until(lambda: show(client, name)["stdout"]["end"] == len(line.encode()) + 1, "the whole line")
        with Relay(daemon, name) as relay:
            assert relay.read() == line
    client.delete(name)


def test_characters_written_in_pieces_stay_whole(daemon, client, name):
    # Each byte in a write of its own.
    script = "import os\nfor byte in 'aé€😀z\\n'.encode() * 200: os.write(1, bytes([byte]))\ninput()"
    start_python(client, name, script)
    with Relay(daemon, name) as relay:
        assert [relay.read() for _ in range(200)] == ["aé€😀z"] * 200
    client.delete(name)


def test_what_is_no_text_is_replaced(daemon, client, name):
    raw = b"a\xffb\n\xc3(\n\xe2\x82\n\xed\xa0\x80|\xf0\x9f\x98\x80\n"
    start_python(client, name, f"import os\nos.write(1, {raw!r})\ninput()")
    with Relay(daemon, name) as relay:
        got = [relay.read() for _ in range(4)]
    assert got == [line.decode(errors="replace") for line in raw.split(b"\n")[:4]]
    client.delete(name)


def test_lines_within_a_message_stay_lines(daemon, cat):
    with Relay(daemon, cat) as relay:
        relay.write("one\ntwo\n\nthree\n")
        assert [relay.read() for _ in range(5)] == ["one", "two", "", "three", ""]


def test_binary_messages_are_ignored(daemon, cat):
    with Relay(daemon, cat) as relay:
        for message in (b"binary", "text", b"\xff\xfe", "more"):
            relay.write(message)
        assert [relay.read(), relay.read()] == ["text", "more"]


@pytest.mark.parametrize("kind", [Relay, Plain])
def test_the_subprotocol_is_the_one_that_was_offered(daemon, cat, kind):
    with kind(daemon, cat) as relay:
        assert relay.protocol.subprotocol == kind.subprotocol
        relay.write("echo")
        assert relay.read() == "echo"


def test_a_ping_is_answered(daemon, cat):
    with attach(daemon, cat) as relay:
        assert relay.ping(b"are you there").wait(20)
        relay.send("still")
        assert relay.recv(30) == "still"


def test_a_message_that_is_too_long_is_refused_and_harms_nobody(daemon, cat):
    with Relay(daemon, cat) as relay:
        try:
            relay.write("x" * (16 << 20) + "xx")
        except OSError:
            pass  # it stopped listening before the end
        else:
            assert relay.read() is None
            assert relay.close_code == 1009
    with Relay(daemon, cat) as relay:
        relay.write("next")
        assert relay.read() == "next"


# The end of a process.


def test_everything_is_delivered_before_the_close(daemon, client, name):
    start_shell(client, name, "read x; seq 200000; printf 'no newline'")
    with attach(daemon, name) as relay:
        relay.send("go")
        got = list(relay)
        assert got == [*map(str, range(1, 200001)), "no newline"]
        assert relay.close_code == 1000
    assert wait_for_end(client, name)["exit_code"] == 0
    client.delete(name)


def test_a_process_that_is_killed_leaves_what_it_wrote(daemon, client, name):
    start_shell(client, name, "echo before; printf rest; kill -9 $$")
    # The answer to the start may come after the end; then there is nothing to attach to.
    wait_for_end(client, name)
    with pytest.raises(Refused) as refused:
        Relay(daemon, name)
    assert (refused.value.status, refused.value.code) == (409, "managed_process_conflict")
    assert client("GET", process_path(name) + "/output").body == b"before\nrest"
    client.delete(name)


def test_a_client_that_is_attached_sees_the_end_of_a_killed_process(daemon, client, name):
    start(client, name, "cat")
    with Relay(daemon, name) as relay:
        relay.write("last")
        assert relay.read() == "last"
        signal(client, name, 9)
        assert relay.read() is None
        assert relay.close_code == 1000
    client.delete(name)


def test_deleting_the_session_closes_the_relay(daemon, client, name):
    start(client, name, "cat")
    with Relay(daemon, name) as relay:
        relay.write("echo")
        assert relay.read() == "echo"
        client.delete(name)
        assert relay.read() is None
        assert relay.close_code == 1000


def test_a_daemon_that_stops_closes_with_going_away(start_daemon):
    daemon = start_daemon()
    start(daemon.client, "s", "cat")
    with Relay(daemon, "s") as relay:
        relay.write("echo")
        assert relay.read() == "echo"
        daemon.signal(15)
        assert relay.read() is None
        assert relay.close_code == 1001
    assert daemon.process.wait(20) == 0
    daemon.check_nothing_left()


# One client at a time.


def test_a_second_client_waits_and_then_goes_on(daemon, client, cat):
    with Relay(daemon, cat) as first, Relay(daemon, cat) as second:
        second.write("from the second")
        first.write("from the first")
        assert first.read() == "from the first"
        first.write("again")
        assert first.read() == "again"
        assert show(client, cat)["attached"]
        first.close()
        assert second.read() == "from the second"
        second.write("now direct")
        assert second.read() == "now direct"


def test_clients_take_turns_in_their_order(daemon, cat):
    waiting = [Relay(daemon, cat) for _ in range(5)]
    for number, relay in enumerate(waiting):
        relay.write(f"turn {number}")
    for number, relay in enumerate(waiting):
        assert relay.read() == f"turn {number}"
        relay.cut()


def test_a_client_that_leaves_while_it_waits_says_nothing(daemon, client, cat):
    with Relay(daemon, cat) as first:
        with Relay(daemon, cat) as second:
            second.write("never")
            second.close()
        first.write("only")
        assert first.read() == "only"
        first.close()
    wait_until(lambda: not show(client, cat)["attached"], "nobody attached")
    assert client("GET", process_path(cat) + "/output").body == b"only\n"


@pytest.mark.parametrize("leave", ["close", "cut"])
def test_detaching_never_stops_a_process(daemon, client, cat, leave):
    pid = show(client, cat)["pid"]
    for number in range(20):
        relay = Relay(daemon, cat)
        relay.write(f"turn {number}")
        assert relay.read() == f"turn {number}"
        getattr(relay, leave)()
    assert show(client, cat)["pid"] == pid
    assert show(client, cat)["status"] == "running"


def test_what_was_written_while_nobody_was_there_comes_first(daemon, client, name):
    start_shell(client, name, "seq 1000; cat")
    wait_until(lambda: show(client, name)["stdout"]["end"] == 3893, "all of it")
    with Relay(daemon, name) as relay:
        relay.write("after")
        assert [relay.read() for _ in range(1001)] == [*map(str, range(1, 1001)), "after"]
    client.delete(name)


# Who is refused, in LangBot's words.


def test_refusals(daemon, client, name):
    def refusal(*arguments):
        with pytest.raises(Refused) as refused:
            Relay(daemon, *arguments)
        return refused.value.args

    assert refusal(name) == (404, "session_not_found", f"session {name} not found")
    client.create(name)
    sentence = f"session {name} has no managed process with process_id="
    assert refusal(name) == (404, "managed_process_not_found", sentence + "default")
    assert refusal(name, "other") == (404, "managed_process_not_found", sentence + "other")
    start(client, name, "true", process_id="other")
    wait_for_end(client, name, "other")
    sentence = f"managed process other in session {name} is not running"
    assert refusal(name, "other") == (409, "managed_process_conflict", sentence)
    with pytest.raises(InvalidStatus):
        attach(daemon, name, "other")
    remove(client, name, "other")
    assert refusal(name, "other")[1] == "managed_process_not_found"
    client.delete(name)


def test_an_ordinary_request_is_told_what_is_there(client, cat):
    reply = client("GET", process_path(cat) + "/ws")
    assert reply.status in (400, 426), reply
    assert client("GET", f"{session_path(cat)}/managed-process/ws").status == reply.status
