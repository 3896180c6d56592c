"""What the daemon keeps in memory for its peers: bounded for all together, and not for ever."""

import base64
import os
import socket
import struct

import pytest

from .daemon import session_path
from .host import wait_until

MIB = 1 << 20
HEAD_OF_16_MIB = bytes([0x82, 0x80 | 127]) + struct.pack("!Q", 16 * MIB - 2) + b"\0\0\0\0"
SMALL_BUDGET = "caisson: {max_buffered_bytes: 67108864, message_deadline_sec: 2}\n"


def websocket(port):
    """An open conversation with the RPC of LangBot's hosts."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    opened.sendall(
        f"GET /rpc/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = opened.recv(1)
        assert byte, head
        head += byte
    assert head.startswith(b"HTTP/1.1 101"), head
    return opened


def close_code(opened):
    """What the daemon closes with; 0 when it does so without a word."""
    opened.settimeout(120)
    received = b""
    try:
        while not (received[:1] == b"\x88" and len(received) >= 4):
            piece = opened.recv(4096)
            if not piece:
                return 0
            received += piece
    except ConnectionError:
        return 0
    return struct.unpack("!H", received[2:4])[0]


def pour(sockets, size, steps):
    """Sends to all of them, in turns, up to `size` bytes each, until nobody takes any more for a while."""
    piece = b"x" * (256 << 10)
    left = {opened: size for opened in sockets}
    for opened in sockets:
        opened.setblocking(False)
    idle = 0
    while left and idle < steps:
        moved = False
        for opened in list(left):
            try:
                sent = opened.send(piece[: left[opened]])
            except BlockingIOError:
                continue
            except ConnectionError:
                del left[opened]
                continue
            moved = True
            left[opened] -= sent
            if left[opened] == 0:
                del left[opened]
        idle = 0 if moved else idle + 1
        if not moved:
            yield
    for opened in sockets:
        opened.setblocking(True)


def test_unfinished_messages_of_many_websockets_stay_within_one_budget(start_daemon):
    daemon = start_daemon()
    client = daemon.client
    client.create("s")
    before = daemon.rss_kb()
    sockets = [websocket(daemon.port) for _ in range(40)]
    for opened in sockets:
        opened.sendall(HEAD_OF_16_MIB)
    most = before
    for _ in pour(sockets, 16 * MIB - 3, 50):
        most = max(most, daemon.rss_kb())
        # Whoever asks for little is served as ever.
        assert client.output("s", "echo served") == "served"
    most = max(most, daemon.rss_kb())
    assert most - before <= (256 + 48) * 1024
    assert client.metric("buffer_limit_bytes") == 256 * MIB
    assert client.metric("buffered_peak_bytes") <= 256 * MIB
    for opened in sockets:
        opened.close()
    wait_until(lambda: client.metric("connections") == 1, "their end")
    wait_until(lambda: daemon.rss_kb() - before < 48 * 1024, "the memory given back")


def test_a_message_that_does_not_come_whole_ends_its_websocket(start_daemon):
    daemon = start_daemon(SMALL_BUDGET)
    before = daemon.rss_kb()
    sockets = [websocket(daemon.port) for _ in range(12)]
    for opened in sockets:
        opened.sendall(HEAD_OF_16_MIB)
    for _ in pour(sockets, 16 * MIB - 3, 50):
        pass
    codes = {close_code(opened) for opened in sockets}
    assert codes <= {1008, 1013}, codes
    for opened in sockets:
        opened.close()
    wait_until(lambda: daemon.client.metric("connections") == 1, "their end")
    assert daemon.client.metric("buffered_peak_bytes") <= 64 * MIB
    assert daemon.client.metric("buffered_incoming_bytes") <= MIB
    wait_until(lambda: daemon.rss_kb() - before < 32 * 1024, "the memory given back")


def test_large_bodies_that_find_no_room_are_told_to_come_again(start_daemon):
    daemon = start_daemon("caisson: {max_buffered_bytes: 67108864}\n")
    client = daemon.client
    client.create("s")
    body = b'{"cmd": "true", "env": {"A": "' + b"x" * (23 * MIB) + b'"}}'
    head = (
        f"POST {session_path('s')}/exec HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    callers = [socket.create_connection(("127.0.0.1", daemon.port), timeout=120) for _ in range(8)]
    # All but the last byte: what comes stays in memory.
    for caller in callers:
        caller.sendall(head + body[: 4 * MIB])
    answers = []
    for caller in callers:
        caller.sendall(body[4 * MIB :])
        answers.append(caller.makefile("rb").readline())
        assert client.output("s", "echo served") == "served"
    refused = [answer for answer in answers if b" 503 " in answer]
    assert refused
    assert all(b" 503 " in answer or b" 400 " in answer or b" 413 " in answer for answer in answers), answers
    for caller in callers:
        caller.close()
    assert client.metric("buffered_peak_bytes") <= 64 * MIB


@pytest.mark.parametrize("text", ["[" + "0," * (4 * MIB) + "0]"])
def test_json_that_takes_many_times_its_text_is_counted(start_daemon, text):
    daemon = start_daemon("caisson: {max_buffered_bytes: 67108864}\n")
    client = daemon.client
    client.create("s")
    before = daemon.rss_kb()
    reply = client("POST", session_path("s") + "/exec", ('{"cmd": "true", "x": ' + text + "}").encode(),
                   {"Content-Type": "application/json"})  # fmt: skip
    assert (reply.status, reply.code) == (503, "busy"), reply
    assert reply.headers["retry-after"] == "1"
    assert client.output("s", "echo served") == "served"
    wait_until(lambda: daemon.rss_kb() - before < 32 * 1024, "the memory given back")
