"""Names are text. What is not UTF-8 is refused wherever it comes in, and never shown to anybody."""

import json

import pytest

from .daemon import Daemon

# Not UTF-8: no such byte, a half character, a longer spelling, a surrogate, above the last character.
WRONG = ["%ff", "a%ffb", "%c3", "%c0%af", "%ed%a0%80", "%f4%90%80%80"]

# Every place of the port where a name comes in, but for JSON.
PLACES = [
    ("POST", "/v1/sessions/{}", {}),
    ("GET", "/v1/sessions/{}", None),
    ("DELETE", "/v1/sessions/{}", None),
    ("POST", "/v1/sessions/{}/exec", {"cmd": "true"}),
    ("POST", "/v1/sessions/{}/exec", {"cmd": "true", "request_id": "r"}),
    ("POST", "/v1/sessions/{}/exec/stream", {"cmd": "true"}),
    ("GET", "/v1/sessions/{}/exec/r", None),
    ("GET", "/v1/sessions/there/exec/{}", None),
    ("POST", "/v1/sessions/{}/managed-process", {"command": "true"}),
    ("GET", "/v1/sessions/{}/managed-process", None),
    ("GET", "/v1/sessions/there/managed-process/{}", None),
    ("DELETE", "/v1/sessions/there/managed-process/{}", None),
    ("GET", "/v1/sessions/there/managed-process/{}/ws", None),
    ("GET", "/v1/sessions/{}/managed-process/ws", None),
    ("GET", "/v1/sessions/{}/files?path=/tmp/x", None),
    ("GET", "/v1/sessions/there/files?path=/tmp/{}", None),
    ("PUT", "/v1/sessions/there/files?path=/tmp/{}", b"x"),
    ("DELETE", "/v1/sessions/there/files?path=/tmp/{}", None),
    ("GET", "/v1/sessions/there/directory?path=/tmp/{}", None),
    ("GET", "/v1/sessions/{}/usage", None),
    ("GET", "/v1/sessions/there/usage?{}=1", None),
]

# And where it comes as JSON or in a header.
BODIES = [
    ("/v1/sessions/there/exec", b'{"cmd": "\xff"}', {}),
    ("/v1/sessions/there/exec", b'{"cmd": "true", "request_id": "\xff"}', {}),
    ("/v1/sessions/there/exec", b'{"cmd": "true", "workdir": "/\xff"}', {}),
    ("/v1/sessions/there/exec", b'{"cmd": "true", "env": {"\xff": "x"}}', {}),
    ("/v1/sessions/there/exec", b'{"cmd": "true", "env": {"A": "\xff"}}', {}),
    ("/v1/sessions/there/exec", b'{"cmd": "true", "image": "\\ud800"}', {}),
    ("/v1/sessions/there/exec", b'{"cmd": "true"}', {"Idempotency-Key": b"\xff"}),
    ("/v1/sessions/there/managed-process", b'{"command": "true", "process_id": "\xff"}', {}),
    ("/v1/sessions/there/managed-process", b'{"command": "true", "args": ["\xff"]}', {}),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        daemon.client.create("there", persistent=True)
        yield daemon


def names(client):
    """Of all sessions, from an answer that is JSON to the last byte."""
    reply = client("GET", "/v1/sessions")
    return [session["session_id"] for session in json.loads(reply.body.decode("utf-8"))]


@pytest.mark.parametrize(("method", "path", "body"), PLACES, ids=[f"{method} {path}" for method, path, _ in PLACES])
def test_a_target_that_is_not_utf8_is_refused_and_the_list_stays_readable(daemon, client, method, path, body):
    for wrong in WRONG:
        reply = client(method, path.format(wrong), body)
        assert (reply.status, reply.code) == (400, "validation_error"), (wrong, reply)
        json.loads(reply.body.decode("utf-8"))
    assert names(client) == ["there"]


@pytest.mark.parametrize(("path", "body", "headers"), BODIES, ids=range(len(BODIES)))
def test_a_body_or_header_that_is_not_utf8_is_refused(daemon, client, path, body, headers):
    reply = client("POST", path, body, {"Content-Type": "application/json", **headers})
    assert (reply.status, reply.code) == (400, "validation_error"), reply
    assert names(client) == ["there"]


def test_names_of_every_script_are_kept_across_a_restart(start_daemon):
    daemon = start_daemon()
    wanted = ["café", "会话", "\U0001f680 x", "a%2Fb"]
    for name in wanted:
        assert daemon.client.create(name, persistent=True).status == 201
    assert sorted(names(daemon.client)) == sorted(wanted)
    daemon.kill()
    daemon.start()
    assert sorted(names(daemon.client)) == sorted(wanted)
