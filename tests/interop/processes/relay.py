"""A client of the relay without threads: it reads when it is told to, and can be cut off at any moment."""

import json
import socket
import struct
from urllib.parse import urlencode

from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from rest.daemon import session_path

from .managed import process_path

STDIN, STDOUT, STDERR = range(3)


def relay_url(daemon, session, process=None, **query):
    path = f"{session_path(session)}/managed-process" if process is None else process_path(session, process)
    return f"ws://127.0.0.1:{daemon.port}{path}/ws" + (f"?{urlencode(query)}" if query else "")


class Refused(Exception):
    def __init__(self, response):
        self.status = response.status_code
        error = json.loads(response.body)["error"]
        self.code, self.message = error["code"], error["message"]
        super().__init__(self.status, self.code, self.message)


class Relay:
    """One message of the process is one line: the subprotocol `mcp`."""

    subprotocol = "mcp"

    def __init__(self, daemon, session, process=None, receive_buffer=None, timeout=60, **query):
        subprotocols = [self.subprotocol] if self.subprotocol else None
        uri = parse_uri(relay_url(daemon, session, process, **query))
        self.protocol = ClientProtocol(uri, subprotocols=subprotocols, max_size=None)
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.frames = []
        try:
            self.socket.connect(("127.0.0.1", daemon.port))
            self.protocol.send_request(self.protocol.connect())
            self.flush()
            while self.protocol.state is State.CONNECTING and self.protocol.handshake_exc is None:
                self.receive()
        except OSError:
            self.socket.close()
            raise
        if error := self.protocol.handshake_exc:
            self.socket.close()
            raise Refused(error.response) if hasattr(error, "response") else error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def flush(self):
        for data in self.protocol.data_to_send():
            if data:
                self.socket.sendall(data)
            else:
                self.socket.shutdown(socket.SHUT_WR)

    def receive(self, at_most=1 << 20):
        """Some bytes, whatever they are the beginning, the middle or the end of."""
        if data := self.socket.recv(at_most):
            self.protocol.receive_data(data)
        else:
            self.protocol.receive_eof()
        try:
            self.flush()
        except OSError:
            pass  # the answer to a close that nobody waits for
        self.frames += [event for event in self.protocol.events_received() if hasattr(event, "opcode")]
        return data

    def read(self):
        """The next message; None when the server has closed."""
        parts = []
        while True:
            while not self.frames:
                if self.protocol.state is State.CLOSED or not self.receive():
                    if not self.frames:
                        return None
            frame = self.frames.pop(0)
            if frame.opcode in (Opcode.PING, Opcode.PONG):
                continue
            if frame.opcode is Opcode.CLOSE:
                return None
            parts.append(bytes(frame.data))
            if frame.opcode is not Opcode.CONT:
                text = frame.opcode is Opcode.TEXT
            if frame.fin:
                data = b"".join(parts)
                return data.decode() if text else data

    def read_all(self):
        messages = []
        while (message := self.read()) is not None:
            messages.append(message)
        return messages

    def write(self, message):
        if isinstance(message, str):
            self.protocol.send_text(message.encode())
        else:
            self.protocol.send_binary(message)
        self.flush()

    @property
    def close_code(self):
        return self.protocol.close_rcvd and self.protocol.close_rcvd.code

    def close(self):
        """Politely: the server has answered."""
        if self.protocol.state is State.OPEN:
            self.protocol.send_close(1000)
            self.flush()
        while self.protocol.state is not State.CLOSED and self.receive():
            self.frames.clear()
        self.socket.close()

    def cut(self):
        """As a crash or a broken network: what was on its way is gone."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Plain(Relay):
    """Without a subprotocol: the same."""

    subprotocol = None


class Offsets(Relay):
    """Bytes with offsets: the subprotocol `caisson.v1`."""

    subprotocol = "caisson.v1"

    def __init__(self, *arguments, greeted=True, **options):
        super().__init__(*arguments, **options)
        self.hello = self.next() if greeted else None

    def next(self):
        """An event as a dict, bytes as (stream, offset, bytes); None at the end."""
        message = self.read()
        if isinstance(message, bytes):
            return message[0], int.from_bytes(message[1:9], "big"), message[9:]
        return message and json.loads(message)

    def event(self, kind):
        """The next of its kind; what comes before it is left out."""
        while (found := self.next()) is not None:
            if isinstance(found, dict) and found["type"] == kind:
                return found
        raise AssertionError(f"closed with {self.protocol.close_rcvd} before {kind}")

    def bytes_until(self, enough, stream=STDOUT):
        """What comes of the stream, until it is enough."""
        got = b""
        while not enough(got):
            found = self.next()
            assert found is not None, f"closed with {self.protocol.close_rcvd} after {got[-1000:]!r}"
            if not isinstance(found, dict) and found[0] == stream:
                got += found[2]
        return got

    def send(self, data, sequence=0):
        self.write(bytes([STDIN]) + sequence.to_bytes(8, "big") + data)

    def tell(self, kind, **fields):
        self.write(json.dumps({"type": kind, **fields}))

    def confirm(self, offset):
        """What is before the offset need not be kept. Nobody needs that who has closed or was killed."""
        try:
            if self.protocol.state is State.OPEN:
                self.tell("confirm", offset=offset)
        except OSError:
            pass
