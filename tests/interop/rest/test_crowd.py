"""Many clients at one time, all from this host."""

import asyncio
import json
import resource

import pytest

CLIENTS = 1000
SESSIONS = 8
DESCRIPTORS = ["sh", "-c", 'ulimit -n 4096; exec "$@"', "sh"]


@pytest.fixture(autouse=True)
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def connect(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def ask(streams, port, number):
    """The status and the body of one exec on a connection of its own; the error when there is no whole answer."""
    reader, writer = streams
    body = json.dumps({"cmd": f"echo {number}"}).encode()
    writer.write(
        f"POST /v1/sessions/crowd-{number % SESSIONS}/exec HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    )
    writer.write(body)
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        answer = await reader.read()
    except (OSError, asyncio.IncompleteReadError) as error:
        return 0, repr(error)
    finally:
        writer.close()
    return int(head.split()[1]), answer.decode()


async def ask_all(port, clients):
    """All connections are there before the first request is sent."""
    streams = await asyncio.gather(*(connect(port) for _ in range(clients)))
    return await asyncio.gather(*(ask(pair, port, number) for number, pair in enumerate(streams)))


def check(answers):
    wrong = [(number, answer) for number, answer in enumerate(answers) if answer[0] != 200]
    assert not wrong, (len(wrong), wrong[:3])
    for number, (_, body) in enumerate(answers):
        assert json.loads(body)["stdout"] == str(number), body


def test_a_thousand_execs_on_as_many_connections_are_all_answered(start_daemon):
    daemon = start_daemon(prefix=DESCRIPTORS)
    for number in range(SESSIONS):
        daemon.client.create(f"crowd-{number}")
    check(asyncio.run(ask_all(daemon.port, CLIENTS)))


def test_more_clients_than_connections_wait_their_turn(start_daemon):
    daemon = start_daemon("caisson: {max_connections: 20}\n", prefix=DESCRIPTORS)
    for number in range(SESSIONS):
        daemon.client.create(f"crowd-{number}")
    daemon.client.close()
    check(asyncio.run(ask_all(daemon.port, 300)))
    assert daemon.client.metric("connections_refused_total") == 0
