"""Who reads what a process writes, and writes what it reads, and misses nothing."""

from .relay import STDOUT, Offsets
from .stream import random_size


class Reader:
    """Somebody who remembers how far he got, and checks every byte."""

    def __init__(self, scene, offset=0, **options):
        self.scene, self.next, self.options = scene, offset, {"confirm": "true", **options}
        self.connection = None

    def attach(self):
        if self.connection is None:
            query = {"from": self.next, **self.options}
            self.connection = Offsets(self.scene.daemon, "s", "w", **query)
            assert self.connection.hello["from"] == self.next
            assert self.connection.hello["pid"] == self.scene.pid

    def leave(self, how="cut"):
        if self.connection is not None:
            getattr(self.connection, how)()
        self.connection = None

    def accept(self, found):
        if isinstance(found, dict):
            return self.hear(found)
        stream, offset, data = found
        assert (stream, offset) == (STDOUT, self.next)
        assert data == self.scene.stream.read(offset, len(data)), f"other bytes at {offset}"
        self.next += len(data)
        self.confirm()
        return len(data)

    def confirm(self):
        self.connection.confirm(self.next)

    def hear(self, event):
        raise AssertionError(f"at {self.next} came {event}")

    def read(self, size):
        self.attach()
        while size > 0:
            found = self.connection.next()
            assert found is not None, f"closed at {self.next}: {self.connection.protocol.close_rcvd}"
            size -= self.accept(found)

    def read_what_is_left(self):
        """Of a connection whose other end was killed."""
        try:
            while self.connection and (found := self.connection.next()) is not None:
                self.accept(found)
        except OSError:
            pass
        self.leave()

    def finish(self):
        """Everything up to the last byte; gives what is told of the end."""
        self.attach()
        self.connection.tell("close_input")
        while not is_exit(found := self.connection.next()):
            self.accept(found)
        return found


def is_exit(found):
    return isinstance(found, dict) and found["type"] == "exit"


class Sender:
    """Sends numbered lines, and again what it was not told of as written."""

    def __init__(self, daemon, chance, longest=40_000):
        self.daemon, self.chance, self.longest = daemon, chance, longest
        self.lines = []
        self.written = 0  # the first lines, as far as it was told
        self.connection = None

    def attach(self):
        if self.connection is None:
            self.connection = Offsets(self.daemon, "s")
            assert self.written <= self.connection.hello["last_sequence"] <= len(self.lines)

    def send(self):
        """Some new lines behind those that may be lost, and one more time what is certainly written."""
        self.attach()
        for _ in range(self.chance.randint(0, 8)):
            size = random_size(self.chance, self.longest)
            self.lines.append(f"{len(self.lines)} ".encode() + self.chance.randbytes(size).hex().encode() + b"\n")
        first = max(1, self.written - self.chance.randint(0, 3))
        for sequence in range(first, len(self.lines) + 1):
            self.connection.send(self.lines[sequence - 1], sequence)
        return first

    def send_and_hear(self):
        for sequence in range(self.send(), len(self.lines) + 1):
            assert self.connection.event("written")["sequence"] == sequence
        self.written = len(self.lines)

    def leave(self):
        if self.connection:
            self.connection.cut()
            self.connection = None

    def send_and_leave(self):
        self.send()
        self.leave()

    def send_and_kill(self):
        self.send()
        self.kill()

    def kill(self):
        self.daemon.kill()
        self.leave()
        self.daemon.start()
