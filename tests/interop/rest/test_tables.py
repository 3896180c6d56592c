"""What a box's settings may be, how they are read, and what a second caller may ask for."""

import itertools
import json
import re

import pytest

from .daemon import Daemon, session_path

BIG = 10**30


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """A directory that boxes may show, with two in it."""
    base = tmp_path_factory.mktemp("mounts")
    for name in ("one", "two"):
        (base / name).mkdir()
    return base


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, roots):
    config = {
        "box": {"limits": {"max_sessions": 1000}, "local": {"allowed_mount_roots": [str(roots)]}},
        "caisson": {"pools": False},
    }
    with Daemon(tmp_path_factory.mktemp("daemon"), json.dumps(config)) as daemon:
        yield daemon


@pytest.fixture
def session(client, name):
    yield name
    client.delete(name)


def refused(reply, sentence):
    assert reply.status == 400, reply
    assert reply.code == "validation_error"
    assert sentence in reply.message


# Coercions, as a lax reader of LangBot's makes them.

INTEGERS = [
    (64, 64), (64.0, 64), ("64", 64), (" 64 ", 64), ("+64", 64), ("1_00", 100), ("64.0", 64), ("064", 64),
]  # fmt: skip
NO_INTEGERS = [999.5, "9.5", "1e3", "0x40", "", " ", None, [], [64], {}, "６４", "6 4", "_64", "64_", "six"]
NUMBERS = [
    (2, 2.0), (0.5, 0.5), (True, 1.0), ("2", 2.0), ("1e1", 10.0), (" 2 ", 2.0), ("1_0", 10.0), ("+2", 2.0),
    (".5", 0.5),
]  # fmt: skip
NO_NUMBERS = ["", "two", None, [], {}, "1,5", "0x2", "２"]
TRUE = [True, 1, 1.0, "true", "TRUE", "t", "yes", "Y", "on", "1"]
FALSE = [False, 0, 0.0, "false", "False", "f", "no", "N", "off", "0"]
NO_BOOLS = [2, -1, 0.5, "", " true", "true ", "maybe", "1.0", None, [], {}]


@pytest.mark.parametrize("value, read", INTEGERS, ids=repr)
def test_an_integer_is_read_leniently(client, session, value, read):
    reply = client.create(session, memory_mb=value)
    assert (reply.status, reply.json.get("memory_mb")) == (201, read)


@pytest.mark.parametrize("value", [7, 999.0, True, "999", " 999 ", "+5", "1_000", "9.0", BIG, str(BIG)], ids=repr)
def test_a_timeout_is_read_leniently(client, session, value):
    assert client.run(session, "echo done", timeout_sec=value)["stdout"] == "done"


@pytest.mark.parametrize("field", ["timeout_sec", "memory_mb", "pids_limit", "workspace_quota_mb"])
@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_what_is_no_integer_is_refused(client, session, field, value):
    refused(client.create(session, **{field: value}), field)
    assert client.get(session).status == 404


@pytest.mark.parametrize("value, read", NUMBERS, ids=repr)
def test_a_number_is_read_leniently(client, session, value, read):
    reply = client.create(session, cpus=value)
    assert (reply.status, reply.json.get("cpus")) == (201, read)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(client, session, value):
    refused(client.create(session, cpus=value), "cpus")


@pytest.mark.parametrize("value", ["nan", "inf", "Infinity", "-inf", "NaN", "1e999", "-1e999"])
def test_cpus_without_an_end_are_refused(client, session, value):
    refused(client.create(session, cpus=value), "cpus")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(client, session, text):
    body = b'{"cpus": ' + text.encode() + b"}"
    reply = client("POST", session_path(session), body, {"Content-Type": "application/json"})
    assert (reply.status, reply.code) == (400, "validation_error"), reply


@pytest.mark.parametrize("value, read", [(v, True) for v in TRUE] + [(v, False) for v in FALSE], ids=repr)
def test_a_truth_is_read_leniently(client, session, value, read):
    reply = client.create(session, read_only_rootfs=value)
    assert (reply.status, reply.json.get("read_only_rootfs")) == (201, read)


@pytest.mark.parametrize("field", ["read_only_rootfs", "persistent"])
@pytest.mark.parametrize("value", NO_BOOLS, ids=repr)
def test_what_is_no_truth_is_refused(client, session, field, value):
    refused(client.create(session, **{field: value}), field)


@pytest.mark.parametrize("field", ["cmd", "workdir", "image", "mount_path"])
@pytest.mark.parametrize("value", [1, 1.5, True, [], {}], ids=repr)
def test_what_is_no_text_is_refused(client, session, field, value):
    refused(client.create(session, **{field: value}), field)


# The sentences. LangBot shows them to its users.

SENTENCES = [
    ({"workdir": "relative"}, "workdir must be an absolute path inside the sandbox"),
    ({"workdir": " "}, "workdir must be an absolute path inside the sandbox"),
    ({"timeout_sec": 0}, "timeout_sec must be greater than 0"),
    ({"timeout_sec": -BIG}, "timeout_sec must be greater than 0"),
    ({"timeout_sec": False}, "timeout_sec must be greater than 0"),
    ({"network": "ON"}, "network"),
    ({"network": "on "}, "network"),
    ({"network": True}, "network"),
    ({"network": None}, "network"),
    ({"env": {"A": 1}}, "env.A"),
    ({"env": {"A": None}}, "env.A"),
    ({"env": None}, "env"),
    ({"env": []}, "env"),
    ({"env": {"": "x"}}, "env"),
    ({"env": {"A=B": "x"}}, "env"),
    ({"env": {"A": "x\0y"}}, "env.A"),
    ({"host_path": ""}, "host_path must be an absolute host path"),
    ({"host_path": "relative"}, "host_path must be an absolute host path"),
    ({"host_path": 1}, "host_path"),
    ({"host_path_mode": "wr"}, "host_path_mode"),
    ({"host_path_mode": None}, "host_path_mode"),
    ({"mount_path": "relative"}, "mount_path must be an absolute path inside the sandbox"),
    ({"mount_path": ""}, "mount_path must be an absolute path inside the sandbox"),
    ({"extra_mounts": None}, "extra_mounts"),
    ({"extra_mounts": {}}, "extra_mounts"),
    ({"extra_mounts": ["x"]}, "extra_mounts[0]"),
    ({"extra_mounts": [{"mount_path": "/x"}]}, "extra_mounts[0].host_path"),
    ({"extra_mounts": [{"host_path": "/x"}]}, "extra_mounts[0].mount_path"),
    ({"extra_mounts": [{"host_path": "x", "mount_path": "/x"}]}, "host_path must be an absolute host path"),
    ({"extra_mounts": [{"host_path": "/x", "mount_path": "x"}]},
     "mount_path must be an absolute path inside the sandbox"),
    ({"extra_mounts": [{"host_path": "/x", "mount_path": "/x", "mode": "all"}]}, "extra_mounts[0].mode"),
    ({"cpus": 0}, "cpus must be greater than 0"),
    ({"cpus": -1.5}, "cpus must be greater than 0"),
    ({"cpus": False}, "cpus must be greater than 0"),
    ({"memory_mb": 31}, "memory_mb must be at least 32"),
    ({"memory_mb": True}, "memory_mb must be at least 32"),
    ({"memory_mb": -BIG}, "memory_mb must be at least 32"),
    ({"pids_limit": 0}, "pids_limit must be at least 1"),
    ({"workspace_quota_mb": -1}, "workspace_quota_mb must be greater than or equal to 0"),
    ({"host_path": "/x", "workdir": "/elsewhere"}, "workdir must stay under mount_path when host_path is provided"),
    ({"host_path": "/x", "mount_path": "/data", "workdir": "/database"},
     "workdir must stay under mount_path when host_path is provided"),
]  # fmt: skip


@pytest.mark.parametrize("spec, sentence", SENTENCES, ids=lambda value: str(value)[:60])
def test_a_wrong_setting_is_refused_with_its_sentence(client, session, spec, sentence):
    refused(client.create(session, **spec), sentence)
    assert client.get(session).status == 404
    refused(client.exec(session, "true", **spec), sentence)
    assert client.get(session).status == 404


@pytest.mark.parametrize(
    "spec, path",
    [
        ({"host_path": "/etc"}, "/etc"),
        ({"host_path": "/"}, "/"),
        ({"host_path": "/proc"}, "/proc"),
        ({"extra_mounts": [{"host_path": "/etc/ssh", "mount_path": "/x"}]}, "/etc/ssh"),
    ],
    ids=repr,
)
def test_a_directory_that_no_box_may_see_is_refused(client, session, spec, path):
    for reply in (client.create(session, **spec), client.exec(session, "true", **spec)):
        assert (reply.status, reply.code) == (403, "mount_refused"), reply
        assert f"host_path {path} is blocked for security" in reply.message
    assert client.get(session).status == 404


@pytest.mark.parametrize("cmd", ["", " ", "\n\t "], ids=repr)
def test_an_empty_command_is_refused_and_makes_no_session(client, session, cmd):
    refused(client.exec(session, cmd), "cmd must not be empty")
    assert client.get(session).status == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"1", b"null", b"{} {}", b"{'a': 1}", b'{"a": 1,}', b"\xff\xfe"])
@pytest.mark.parametrize("tail", ["", "/exec", "/exec/stream"])
def test_a_body_that_is_no_object_is_a_fault_of_the_caller(client, session, tail, body):
    reply = client("POST", session_path(session) + tail, body, {"Content-Type": "application/json"})
    assert (reply.status, reply.code) == (400, "validation_error"), reply


@pytest.mark.parametrize("blank", [" ", "\t", "  \n"], ids=repr)
def test_a_blank_name_is_refused(client, blank):
    refused(client.create(blank), "session_id must not be empty")
    refused(client.exec(blank, "true"), "session_id must not be empty")


def test_the_name_in_the_path_wins_over_the_body(client, session):
    assert client.create(session, session_id="another").json["session_id"] == session
    assert client.get("another").status == 404
    assert client.create(session, session_id=5).status == 201


def test_unknown_fields_are_ignored(client, session):
    assert client.create(session, colour="red", nested={"a": [1]}).status == 201


def test_a_workdir_follows_the_mount_path(client, session):
    for workdir in ({}, {"workdir": None}, {"workdir": ""}):
        assert client.output(session, "pwd", mount_path="/data", **workdir) == "/data", workdir


# The session object.


def test_a_session_shows_all_its_settings(client, session, roots):
    spec = {
        "network": "off", "host_path": str(roots / "one"), "host_path_mode": "ro", "mount_path": "/data",
        "persistent": True, "cpus": 0.5, "memory_mb": 64, "pids_limit": 17, "read_only_rootfs": False,
        "workspace_quota_mb": 3,
    }  # fmt: skip
    made = client.create(session, **spec)
    assert made.status == 201
    shown = made.json
    assert {name: shown[name] for name in spec} == spec
    assert shown["session_id"] == session
    assert shown["backend_name"] == "native" and shown["backend_session_id"]
    assert shown["image"] == "rockchin/langbot-sandbox:latest"
    assert (shown["state"], shown["execs"], shown["weaker_isolation"]) == ("idle", 0, [])
    for stamp in ("created_at", "last_used_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", shown[stamp]), shown[stamp]
    assert isinstance(shown["cpus"], float) and type(shown["memory_mb"]) is int
    assert client.get(session).json == shown
    assert shown in client("GET", "/v1/sessions").json


def test_defaults_are_langbots(client, session):
    shown = client.create(session).json
    defaults = {
        "network": "off", "host_path": None, "host_path_mode": "rw", "mount_path": "/workspace",
        "persistent": False, "cpus": 1.0, "memory_mb": 512, "pids_limit": 128, "read_only_rootfs": True,
        "workspace_quota_mb": 0,
    }  # fmt: skip
    assert {name: shown[name] for name in defaults} == defaults
    assert b'"cpus":1.0' in client.get(session).body or b'"cpus":1E0' in client.get(session).body


def test_a_session_that_is_not_there_is_not_found(client, session):
    for reply in (client.get(session), client.delete(session)):
        assert (reply.status, reply.code) == (404, "session_not_found")
        assert reply.message == f"session {session} not found"


def test_making_a_session_twice_gives_the_same_one(client, session):
    first, second = client.create(session), client.create(session, env={"A": "1"}, workdir="/tmp", timeout_sec=5)
    assert (first.status, second.status) == (201, 201)
    for field in ("backend_session_id", "created_at"):
        assert first.json[field] == second.json[field]
    assert second.json["last_used_at"] > first.json["last_used_at"]


# Conflicts. Each row: a field in the order in which they are compared, what the session has, how
# that is shown, and another value.


def conflicts(roots, exotic=False):
    one, two = str(roots / "one"), str(roots / "two")
    if exotic:
        return [
            ("network", "on", "on", "off"),
            ("host_path", None, "null", one),
            ("host_path_mode", "ro", "ro", "none"),
            ("mount_path", "/data", "/data", "/workspace"),
            ("persistent", True, "true", False),
            ("cpus", 0.25, "0.25", 1),
            ("memory_mb", 64, "64", 65),
            ("pids_limit", 17, "17", 18),
            ("read_only_rootfs", False, "false", True),
            ("workspace_quota_mb", 3, "3", 0),
        ]
    return [
        ("network", "off", "off", "on"),
        ("image", "rockchin/langbot-sandbox:latest", "rockchin/langbot-sandbox:latest", "debian:12"),
        ("host_path", one, one, two),
        ("host_path_mode", "rw", "rw", "ro"),
        ("mount_path", "/workspace", "/workspace", "/data"),
        ("persistent", False, "false", True),
        ("cpus", 1, "1", 2),
        ("memory_mb", 512, "512", 513),
        ("pids_limit", 128, "128", 129),
        ("read_only_rootfs", True, "true", False),
        ("workspace_quota_mb", 0, "0", 1),
    ]


@pytest.mark.parametrize("exotic", [False, True])
def test_the_first_setting_that_differs_is_named(client, session, roots, exotic):
    rows = conflicts(roots, exotic)
    base = {field: value for field, value, _, _ in rows}
    assert client.create(session, **base).status == 201
    pairs = [(row,) for row in rows] + list(itertools.combinations(rows, 2)) + [tuple(rows)]
    for differing in pairs:
        wish = {**base, **{field: other for field, _, _, other in differing}}
        field, _, shown, _ = differing[0]
        expected = (f"session {session} already exists with {field}={shown}: ask for the same, remove the session with "
                    f"`caisson rm {session}`, or choose another name")  # fmt: skip
        for reply in (client.create(session, **wish), client.exec(session, "true", **wish)):
            assert (reply.status, reply.code, reply.message) == (409, "session_conflict", expected), wish
    assert client.create(session, **base).status == 201


@pytest.mark.parametrize(
    "value, shown", [(1, "1"), (0.1, "0.1"), (1.5, "1.5"), ("1e3", "1000"), (0.00001, "1e-05"), (12, "12")]
)
def test_cpus_are_spelled_as_people_do(client, session, value, shown):
    assert client.create(session, cpus=value).status == 201
    assert f"cpus={shown}: " in client.create(session, cpus=7.25).message


def test_a_missing_setting_means_its_default_and_conflicts(client, session):
    assert client.create(session, memory_mb=64).status == 201
    assert "already exists with memory_mb=64: " in client.create(session).message


def test_other_extra_mounts_are_a_conflict_that_keeps_the_session(client, session, roots):
    one = {"host_path": str(roots / "one"), "mount_path": "/one", "mode": "ro"}
    two = {"host_path": str(roots / "two"), "mount_path": "/two"}
    hidden = {"host_path": str(roots / "two"), "mount_path": "/hidden", "mode": "none"}

    def box(*mounts):
        reply = client.create(session, extra_mounts=list(mounts))
        assert reply.status == 201, reply
        return reply.json["backend_session_id"]

    first = box(one, two)
    client.output(session, "touch /tmp/marker", extra_mounts=[one, two])
    for same in ([two, one], [one, two, one], [hidden, one, two], [two, two, one, hidden, hidden]):
        assert box(*same) == first, same
    for other in ([one], [], [two], [one, {**two, "mode": "ro"}], [one, {**two, "mount_path": "/deux"}]):
        assert client.create(session, extra_mounts=other).status == 409, other
    assert client.run(session, "test -e /tmp/marker; ls -d /one /two")["exit_code"] == 0
    assert client.get(session).json["backend_session_id"] == first


def test_a_conflict_comes_before_extra_mounts(client, session, roots):
    made = client.create(session).json
    mounts = [{"host_path": str(roots / "one"), "mount_path": "/one"}]
    assert client.create(session, extra_mounts=mounts, memory_mb=64).status == 409
    assert client.get(session).json["backend_session_id"] == made["backend_session_id"]
