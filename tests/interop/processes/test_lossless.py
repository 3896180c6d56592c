"""No byte of a process is lost, repeated or changed, whoever is killed or cut off when.

$CAISSON_ROUNDS is the number of random actions, $CAISSON_SEED repeats those of an earlier run.
"""

import os
import random
from pathlib import Path

import pytest

from rest.host import wait_until

from .managed import output, remove, show, start, wait_for_end
from .lossless import Reader, Sender
from .relay import Offsets, Refused
from .stream import Stream, random_size

ROUNDS = int(os.environ.get("CAISSON_ROUNDS", 2000))
WRITER = Path(__file__).with_name("stream.py").read_text()
MOST_AT_ONCE = 4 << 20


@pytest.fixture
def chance():
    seed = int(os.environ.get("CAISSON_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"CAISSON_SEED={seed}")
    return random.Random(seed)


class Observer(Reader):
    def __init__(self, scene, offset):
        super().__init__(scene, offset, attach="observe")

    def confirm(self):
        """Nobody waits for it."""

    def hear(self, event):
        """What it missed it is told of, exactly."""
        assert event["type"] == "truncated" and event["stream"] == "stdout", event
        assert event["from"] == self.next < event["to"]
        self.next = event["to"]
        return event["to"] - event["from"]


class Scene:
    """A writer, its readers, and everything that happens to them."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        seed = chance.randrange(1 << 32)
        self.stream = Stream(seed)
        journal = chance.choice([1 << 20, 3 << 20, 16 << 20])
        spec = {"process_id": "w", "overflow": "hold", "journal_bytes": journal}
        self.pid = start(daemon.client, "s", "python3", "-c", WRITER, str(seed), **spec)["pid"]
        self.reader = Reader(self)
        self.observers = []

    def read(self):
        self.reader.read(random_size(self.chance, MOST_AT_ONCE))

    def leave(self):
        self.reader.leave(self.chance.choice(["cut", "cut", "close"]))

    def attach(self):
        self.reader.attach()

    def take_over(self):
        before = self.reader.connection
        self.reader.connection = None
        self.reader.options["attach"] = "takeover"
        self.reader.attach()
        del self.reader.options["attach"]
        if before:
            before.cut()

    def observe(self):
        if len(self.observers) < 4:
            kept = show(self.daemon.client, "s", "w")["stdout"]
            offset = self.chance.choice([0, kept["begin"], kept["end"], self.reader.next])
            self.observers.append(Observer(self, offset))
            self.observers[-1].attach()

    def read_as_observer(self):
        for observer in self.observers:
            # Not more than has been written: nobody else may be reading on.
            left = show(self.daemon.client, "s", "w")["stdout"]["end"] - observer.next
            if left > 0:
                observer.read(min(left, random_size(self.chance, MOST_AT_ONCE)))

    def stop_observing(self):
        if self.observers:
            self.observers.pop(self.chance.randrange(len(self.observers))).leave()

    def look(self):
        kept = show(self.daemon.client, "s", "w")["stdout"]
        offset = self.chance.randint(0, kept["end"])
        reply = output(self.daemon.client, "s", "w", **{"from": offset, "limit": 1 << 20})
        assert reply.status == 200, reply
        begin = int(reply.headers["caisson-offset"])
        assert begin >= offset
        assert reply.body == self.stream.read(begin, len(reply.body))

    def kill(self):
        self.daemon.kill()
        for reader in [self.reader, *self.observers]:
            if self.chance.random() < 0.5:
                reader.read_what_is_left()
            else:
                reader.leave()
        self.daemon.start()
        assert show(self.daemon.client, "s", "w")["pid"] == self.pid

    def finish(self):
        """Everything up to the last byte, and then how it ended."""
        found = self.reader.finish()
        shown = wait_for_end(self.daemon.client, "s", "w")
        assert (found["exit_code"], shown["exit_code"]) == (0, 0)
        assert self.reader.next == shown["stdout"]["end"] == int(shown["stderr_preview"])
        for reader in [self.reader, *self.observers]:
            reader.leave()
        remove(self.daemon.client, "s", "w")


ACTIONS = {
    Scene.read: 40,
    Scene.leave: 12,
    Scene.attach: 8,
    Scene.take_over: 5,
    Scene.observe: 8,
    Scene.read_as_observer: 10,
    Scene.stop_observing: 4,
    Scene.look: 5,
    Scene.kill: 8,
}


def test_every_byte_arrives_once_whatever_happens(start_daemon, chance):
    daemon = start_daemon()
    left = ROUNDS
    while left > 0:
        scene = Scene(daemon, chance)
        rounds = min(left, chance.randint(20, 60))
        left -= rounds
        for action in chance.choices(list(ACTIONS), ACTIONS.values(), k=rounds):
            action(scene)
        scene.finish()
    daemon.stop()


def hold_process(client, size):
    """One that writes so much, into a journal of 1 MiB that holds it back."""
    writer = f"import os, sys; data = bytes(range(251)) * {size // 251 + 1}; sys.stdout.buffer.write(data[:{size}])"
    start(client, "s", "python3", "-c", writer, overflow="hold", journal_bytes=1 << 20)


def held(client, at_least):
    """How far it came, once it comes no further."""
    wait_until(lambda: show(client, "s")["stdout"]["end"] >= at_least, "output")
    return show(client, "s")["stdout"]


def test_a_client_that_was_cut_off_finds_again_what_it_did_not_get(start_daemon):
    client = (daemon := start_daemon()).client
    size = 900_000
    hold_process(client, size)
    held(client, size)
    for _ in range(5):
        with Offsets(daemon, "s", **{"from": 0}) as relay:
            relay.next()
            relay.cut()
    with Offsets(daemon, "s", **{"from": 0}) as relay:
        assert len(relay.bytes_until(lambda got: len(got) >= size)) == size
    daemon.stop()


def test_nothing_is_released_before_it_is_confirmed(start_daemon):
    client = (daemon := start_daemon()).client
    size, journal = 5 << 20, 1 << 20
    hold_process(client, size)
    query = {"from": 0, "confirm": "true"}
    with Offsets(daemon, "s", **query) as relay:
        # It is sent what is kept, and no more.
        assert len(relay.bytes_until(lambda got: len(got) >= journal)) == journal
        assert held(client, journal) == {"begin": 0, "end": journal}
        relay.cut()
    with Offsets(daemon, "s", **query) as relay:
        whole = b""
        while len(whole) < size:
            whole += relay.bytes_until(lambda got: len(got) > 0)
            relay.confirm(len(whole))
        assert relay.event("exit")["exit_code"] == 0
    assert whole == (bytes(range(251)) * (size // 251 + 1))[:size]
    daemon.stop()


def test_where_a_client_goes_on_it_has_what_was_before(start_daemon):
    """Or a process that is held back and a client that has everything would wait for each other."""
    client = (daemon := start_daemon()).client
    journal = 1 << 20
    hold_process(client, 5 << 20)
    with Offsets(daemon, "s", **{"from": 0, "confirm": "true"}) as relay:
        relay.bytes_until(lambda got: len(got) >= journal)
        relay.cut()
    with Offsets(daemon, "s", **{"from": journal, "confirm": "true"}) as relay:
        assert len(relay.bytes_until(lambda got: len(got) >= journal)) == journal
    daemon.stop()


def test_what_was_never_sent_cannot_be_confirmed(start_daemon):
    client = (daemon := start_daemon()).client
    start(client, "s", "cat", overflow="hold")
    with Offsets(daemon, "s", confirm="true") as relay:
        relay.tell("confirm", offset=1)
        assert relay.next() is None and relay.close_code == 1008
    with pytest.raises(Refused) as refused:
        Offsets(daemon, "s", confirm="perhaps")
    assert (refused.value.status, refused.value.code) == (400, "validation_error")
    daemon.stop()


def test_every_line_is_written_once_whatever_happens(start_daemon, chance):
    daemon = start_daemon()
    pid = start(daemon.client, "s", "sh", "-c", "cat > got")["pid"]
    sender = Sender(daemon, chance)
    actions = {Sender.send_and_hear: 50, Sender.send_and_leave: 25, Sender.send_and_kill: 15, Sender.kill: 5}
    for action in chance.choices(list(actions), actions.values(), k=ROUNDS // 2):
        action(sender)
    sender.send_and_hear()
    assert show(daemon.client, "s")["pid"] == pid
    sender.connection.tell("close_input")
    assert sender.connection.event("exit")["exit_code"] == 0
    sender.connection.close()
    assert daemon.client.get_file("s", "got").body == b"".join(sender.lines)
    daemon.stop()
