"""Many requests and many sessions: nothing grows. $CAISSON_ENDURANCE scales both, 1 being the whole."""

import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from .daemon import Client
from .host import wait_until

SCALE = float(os.environ.get("CAISSON_ENDURANCE", "0.1"))
REQUESTS = int(100_000 * SCALE)
SESSIONS = int(10_000 * SCALE)

PATHS = ["/healthz", "/v1/sessions", "/v1/sessions/a", "/v1/sessions/a/exec", "/v1/sessions/a/files?path=x", "/metrics",
         "/v1/sessions/a/directory?path=.", "/nowhere", "/v1/sessions/%2e%2e", "/openapi.json", "/v1/sessions/a/usage",
         "/v1/sessions/a/exec/stream", "//", "/v1/sessions/%ff%fe", "*", "/v1/sessions/" + "x" * 3000]  # fmt: skip
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH", "get", "G\x01T", ""]
BODIES = [b"", b"{}", b"[]", b"{", b'{"cmd": ""}', b'{"cmd": 1}', b'{"memory_mb": "x"}', b"\xff\xfe", b"[" * 200, b"null",
          b'{"cmd": "true", "workdir": "x"}', b'{"network": "maybe"}', b"x" * 5000]  # fmt: skip
HEADERS = [b"", b"X: y\r\n", b"Origin: http://evil.example\r\n", b"Expect: 100-continue\r\n", b"Expect: magic\r\n",
           b"Transfer-Encoding: gzip\r\n", b"Content-Length: 5\r\n", b"X : y\r\n", b"Host: evil\r\n", b"X: a\r\n b\r\n",
           b"Authorization: Bearer x\r\n", b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"X: \x00\r\n"]  # fmt: skip


def well_formed(dice, port):
    """A request whose framing is right, whatever else is wrong with it."""
    body = dice.choice(BODIES)
    kind = dice.choice([b"application/json", b"application/json", b"text/plain"])
    if dice.random() < 0.2:
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
        framing = b"Transfer-Encoding: chunked\r\n"
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    else:
        framing = b"Content-Length: %d\r\n" % len(body)
    method, path = dice.choice(METHODS[:8]), dice.choice(PATHS[:12])
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
    return head + b"Content-Type: " + kind + b"\r\n" + framing + b"\r\n" + body


def malformed(dice, port):
    head = f"{dice.choice(METHODS)} {dice.choice(PATHS)} HTTP/{dice.choice(['1.1', '1.0', '9.9'])}\r\n"
    data = head.encode() + f"Host: 127.0.0.1:{port}\r\n".encode() + dice.choice(HEADERS) + dice.choice(HEADERS)
    data = bytearray(data + b"\r\n" + dice.choice(BODIES))
    for _ in range(dice.randrange(6)):
        at = dice.randrange(len(data))
        choice = dice.random()
        if choice < 0.5:
            data[at] = dice.randrange(256)
        elif choice < 0.75:
            del data[at : at + dice.randrange(1, 9)]
        else:
            data[at:at] = dice.randbytes(dice.randrange(1, 9))
    return bytes(data)


class Fuzzer:
    """One connection after the other; on each, requests until the daemon has had enough."""

    def __init__(self, port, seed):
        self.port, self.dice = port, random.Random(seed)
        self.name = f"/fuzz-{seed}".encode()  # a session of its own: others would end it meanwhile
        self.statuses, self.reader, self.socket = {}, None, None

    def connect(self):
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=15)
            self.reader = self.socket.makefile("rb")

    def close(self):
        if self.socket is not None:
            self.reader.close()
            self.socket.close()
            self.socket = None

    def count(self, status):
        self.statuses[status] = self.statuses.get(status, 0) + 1
        assert status < 500 or status in (503, 507), status

    def read_answer(self, bare):
        """True when the connection goes on."""
        line = self.reader.readline()
        if not line:
            return False
        status, length, more, chunked = int(line.split()[1]), 0, True, False
        while (header := self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode("latin-1").lower().partition(":")
            length = int(value) if name == "content-length" else length
            more = more and not (name == "connection" and "close" in value)
            chunked = chunked or name == "transfer-encoding"
        if status == 100:
            return self.read_answer(bare)
        while chunked and not bare and (size := int(self.reader.readline(), 16)) >= 0:
            self.reader.read(size + 2)
            if size == 0:
                break
        if not bare and not chunked:
            self.reader.read(length)
        self.count(status)
        return more

    def run(self, requests):
        for _ in range(requests):
            good = self.dice.random() < 0.7
            data = well_formed(self.dice, self.port) if good else malformed(self.dice, self.port)
            data = data.replace(b"/v1/sessions/a", b"/v1/sessions" + self.name, 1)
            try:
                self.connect()
                self.socket.sendall(data)
                if not good:  # it may want more than there is: nothing more comes
                    self.socket.shutdown(socket.SHUT_WR)
                more = self.read_answer(data.startswith(b"HEAD "))
                while more and not good:
                    more = self.read_answer(False)
            except (ConnectionResetError, BrokenPipeError, ValueError, IndexError):
                more = False
            if not good or not more:
                self.close()
        self.close()
        return self.statuses


def fuzz(daemon, requests, seeds):
    """What was answered how often. At the end all is quiet again."""
    totals = {}
    with ThreadPoolExecutor(len(seeds)) as pool:
        for part in pool.map(lambda seed: Fuzzer(daemon.port, seed).run(requests // len(seeds)), seeds):
            for status, count in part.items():
                totals[status] = totals.get(status, 0) + count
    wait_until(lambda: daemon.client.metric("connections") == 1, "the last connection alone")
    wait_until(lambda: daemon.client.metric("sessions") == 0, "the end of all sessions")
    return dict(sorted(totals.items()))


def test_fuzzed_requests_leave_the_daemon_as_it_was(start_daemon):
    daemon = start_daemon("caisson: {session_ttl_sec: 1}\n")
    fuzz(daemon, max(4000, REQUESTS // 10), range(5, 9))  # what is allocated once is allocated
    rss, fds, started = daemon.rss_kb(), daemon.fds(), time.monotonic()
    totals = fuzz(daemon, REQUESTS, range(1, 5))
    print(f"{REQUESTS} fuzzed requests in {time.monotonic() - started:.1f} s: {totals}; "
          f"RSS {rss} -> {daemon.rss_kb()} kB, descriptors {fds} -> {daemon.fds()}")  # fmt: skip
    assert sum(totals.values()) > REQUESTS * 0.9
    assert daemon.rss_kb() < rss + 4096
    wait_until(lambda: daemon.fds() <= fds + 4, "the descriptors of before")


def test_many_sessions_leave_nothing(start_daemon):
    daemon = start_daemon()

    def live(number):
        client = Client(daemon.port)
        for index in range(number, SESSIONS, 4):
            name = f"session {index}"
            assert client.create(name).status == 201
            assert client.output(name, f"echo {index}") == str(index)
            assert client.delete(name).status == 200
        client.close()

    daemon.warm_up(8)
    rss = daemon.rss_kb()
    with daemon.nothing_left(slack=12) as before:
        started = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(live, range(4)))
        seconds = time.monotonic() - started
    assert daemon.client("GET", "/v1/sessions").json == []
    print(f"{SESSIONS} sessions in {seconds:.1f} s; RSS {rss} -> {daemon.rss_kb()} kB; {before} -> {daemon.footprint()}")
    assert daemon.rss_kb() < rss + 8192
