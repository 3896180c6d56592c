"""The relay with offsets, caisson.v1: its messages, who may say what, and who comes when."""

import pytest

from rest.host import wait_until

from .managed import output, show, start, start_shell, wait_for_output
from .relay import STDERR, STDOUT, Offsets, Refused, Relay


def test_a_client_is_greeted_with_what_there_is(daemon, client, name):
    start_shell(client, name, "echo out; echo error >&2; exec cat")
    wait_for_output(client, name, b"error\n", stream="stderr")
    wait_for_output(client, name, b"out\n")
    with Offsets(daemon, name) as relay:
        shown = show(client, name)
        assert shown["attached"]
        assert relay.hello == {
            "type": "hello", "pid": shown["pid"], "running": True, "tty": False, "from": 0,
            "stdout": {"begin": 0, "end": 4}, "stderr": {"begin": 0, "end": 6}, "last_sequence": 0,
        }  # fmt: skip
        assert relay.next() == (STDOUT, 0, b"out\n")
    wait_until(lambda: not show(client, name)["attached"], "nobody attached")
    with Offsets(daemon, name, stderr_from=2) as relay:
        assert relay.hello["from"] == 4
        assert relay.next() == (STDERR, 2, b"ror\n")
    client.delete(name)


def test_a_number_is_written_once(daemon, client, name):
    start(client, name, "cat")
    with Offsets(daemon, name) as relay:
        for sequence, text in [(1, "one"), (1, "again"), (5, "five"), (3, "late"), (0, "none"), (0, "none")]:
            relay.send(text.encode() + b"\n", sequence)
            assert relay.event("written")["sequence"] == sequence
        wait_for_output(client, name, b"none\nnone\n")
    assert output(client, name).body == b"one\nfive\nnone\nnone\n"
    with Offsets(daemon, name) as relay:
        assert relay.hello["last_sequence"] == 5
    client.delete(name)


def test_one_that_takes_over_sends_the_others_away(daemon, client, name):
    start(client, name, "cat")
    with Offsets(daemon, name) as first, Relay(daemon, name) as waiting:
        with Offsets(daemon, name, attach="takeover") as second:
            assert first.next() is None and first.close_code == 4000
            assert waiting.read() is None and waiting.close_code == 4000
            second.send(b"mine\n")
            assert second.bytes_until(lambda got: got.endswith(b"\n")) == b"mine\n"
    client.delete(name)


def test_observers_read_beside_the_client(daemon, client, name):
    start(client, name, "cat")
    with Offsets(daemon, name) as reader:
        observers = [Offsets(daemon, name, attach="observe", **{"from": 0}) for _ in range(3)]
        reader.send(b"seen by all\n")
        for relay in [reader, *observers]:
            assert relay.bytes_until(lambda got: got.endswith(b"\n")) == b"seen by all\n"
        observers[0].send(b"not allowed\n")
        assert observers[0].next() is None and observers[0].close_code == 1008
        observers[1].cut()
        reader.send(b"more\n")
        assert observers[2].bytes_until(lambda got: got.endswith(b"\n")) == b"more\n"
        observers[2].close()
    assert output(client, name).body == b"seen by all\nmore\n"
    client.delete(name)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\0", b"\1" + bytes(8) + b"x", "no json", "[]", "{}", '{"type": "unknown"}', '{"type": "signal"}',
        '{"type": "signal", "signal": 0}', '{"type": "signal", "signal": 99}',
        '{"type": "resize", "rows": 0, "columns": 1}',
    ],
)  # fmt: skip
def test_a_message_that_makes_no_sense_ends_the_conversation(daemon, client, name, message):
    start(client, name, "cat")
    with Offsets(daemon, name) as relay:
        relay.write(message)
        assert relay.next() is None
        assert relay.close_code == 1008 and relay.protocol.close_rcvd.reason.startswith("message:")
    with Offsets(daemon, name) as relay:
        relay.send(b"works\n")
        assert relay.bytes_until(lambda got: got.endswith(b"\n")) == b"works\n"
    client.delete(name)


@pytest.mark.parametrize("query", [{"from": "x"}, {"from": -1}, {"stderr_from": "y"}, {"attach": "force"}])
def test_a_question_to_the_relay_that_makes_no_sense_is_refused(daemon, client, name, query):
    start(client, name, "cat")
    with pytest.raises(Refused) as refused:
        Offsets(daemon, name, **query)
    assert (refused.value.status, refused.value.code) == (400, "validation_error")
    client.delete(name)


@pytest.mark.parametrize("query", [{"from": 1}, {"stderr_from": 1}])
def test_an_offset_behind_the_end_is_refused(daemon, client, name, query):
    start(client, name, "cat")
    with pytest.raises(Refused) as refused:
        Offsets(daemon, name, **query)
    assert (refused.value.status, refused.value.code) == (400, "validation_error")
    assert "lies behind the end" in refused.value.message
    client.delete(name)


def test_a_signal_over_the_relay_reaches_the_group(daemon, client, name):
    start_shell(client, name, "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done")
    with Offsets(daemon, name) as relay:
        relay.bytes_until(lambda got: got == b"ready\n")
        relay.tell("signal", signal=2)
        assert relay.event("exit")["exit_code"] == 4
    client.delete(name)
