"""LangBot's own default configuration, whose directories are relative to where LangBot runs, not the daemon."""

import json

import pytest

from rest.daemon import Client

from .rpc import Refused, Rpc, Stdio, namespace, open_socket

# What LangBot 4.11 sends when nobody has changed anything, as far as directories go.
LOCAL = {
    "profile": "default",
    "image": "",
    "host_root": "./data/box",
    "default_workspace": "",
    "allowed_mount_roots": ["./data/box", "/tmp"],
    "workspace_quota_mb": None,
}
TOKEN = "t" * 40


@pytest.fixture
def langbot(tmp_path):
    """The directory in which LangBot runs; the daemon runs elsewhere."""
    directory = tmp_path / "langbot"
    (directory / "data" / "box").mkdir(parents=True)
    return directory


def beside(start_daemon, host_root):
    """A daemon that is told where LangBot is, and nothing else."""
    return start_daemon(json.dumps({"box": {"local": {"host_root": str(host_root)}}}), roots=None)


def own_directory(workspace, name):
    """Of a workspace, made as LangBot makes it."""
    own = workspace / "tenants" / namespace(name)
    own.mkdir(parents=True)
    return own


@pytest.mark.parametrize("named", [".", "data/box"])
def test_a_relative_directory_is_of_the_one_that_the_operator_names(start_daemon, langbot, named):
    daemon = beside(start_daemon, langbot / named)
    with Rpc(daemon.port) as rpc:
        for _ in range(2):  # it sends the same whenever it connects
            rpc.ok("box_init", {"backend": "local", "local": LOCAL})
        place = langbot / "data" / "box" / "default"
        assert place.is_dir()
        marker = ".langbot-box-volume-probe-" + "0" * 32
        (place / marker).write_text("here")
        assert rpc.ok("box_verify_shared_workspace", {"marker_name": marker})["size"] == 4
        own = own_directory(place, "w")
        assert rpc.tenant("w").output("s", "echo made > file; cat file", host_path=str(own)) == "made"
        assert (own / "file").read_text() == "made\n"
        rpc.tenant("w").clear()


def test_the_error_says_what_to_write_where_nothing_is_known_of_the_directory(start_daemon, tmp_path):
    daemon = start_daemon(roots=None)
    with Rpc(daemon.port) as rpc:
        before = rpc.tenant("w").ok("box_status")["limits"]
        message = rpc.error("box_init", {"limits": {"max_sessions": 3}, "local": LOCAL})
        assert message.startswith('BoxValidationError: box.local.host_root: "./data/box" is relative')
        assert "box: {local: {host_root: " in message and "/etc/caisson/caisson.yaml" in message
        assert rpc.tenant("w").ok("box_status")["limits"] == before


def test_a_relative_directory_of_the_host_that_started_the_daemon_is_of_their_common_one(tmp_path):
    with Stdio(tmp_path) as runtime:
        runtime.ok("box_init", {"local": LOCAL})
        place = tmp_path / "data" / "box" / "default"
        assert place.is_dir()
        own = own_directory(place, "w")
        assert runtime.tenant("w").output("s", "echo made > file; pwd", host_path=str(own)) == "/workspace"
        assert (own / "file").read_text() == "made\n"


def test_below_the_host_root_everything_is_allowed_and_nothing_else(start_daemon, langbot, tmp_path):
    daemon = beside(start_daemon, langbot)
    outside = tmp_path / "outside"
    outside.mkdir()
    client = daemon.client
    assert client.create("inside", host_path=str(langbot / "data")).status == 201
    assert client.delete("inside").status == 200
    reply = client.create("outside", host_path=str(outside))
    assert reply.status == 403 and f"is outside allowed_mount_roots: {langbot}" in reply.message, reply


@pytest.mark.parametrize("profile", ["default", "offline", "offline_readonly", "network_basic", "network_extended"])
def test_the_profiles_of_langbot_are_known(start_daemon, langbot, profile):
    daemon = beside(start_daemon, langbot)
    with Rpc(daemon.port) as rpc:
        rpc.ok("box_init", {"local": {**LOCAL, "profile": profile}})
        assert "unknown box profile" in rpc.error("box_init", {"local": {**LOCAL, "profile": "fast"}})


def test_the_control_token_closes_every_door(start_daemon):
    daemon = start_daemon(env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN})
    client = daemon.client
    for method, path, body in [
        ("GET", "/v1/sessions", None),
        ("GET", "/v1/status", None),
        ("GET", "/metrics", None),
        ("POST", "/v1/sessions/a", {}),
        ("POST", "/v1/sessions/a/exec", {"cmd": "true"}),
        ("GET", "/v1/sessions/a/files?path=x", None),
    ]:
        assert (client(method, path, body).status, path) == (401, path)
    assert client("GET", "/v1/health").json.keys() == {"available"}
    assert client("GET", "/healthz").json == {"live": True}
    assert client("GET", "/readyz").json.keys() == {"ready"}
    with pytest.raises(Refused) as refusal:
        open_socket(daemon.port, "/v1/sessions/a/managed-process/p/ws")
    assert refusal.value.status == 401
    # The daemon's own token opens them, and so does its socket, which knows its users.
    token = (daemon.state / "token").read_text().strip()
    known = Client(daemon.port, headers={"Authorization": f"Bearer {token}"})
    assert known("GET", "/v1/sessions").status == 200
    assert "resources" in known("GET", "/healthz").json


def test_a_control_token_beside_an_open_port_is_no_way_to_start(start_daemon):
    daemon = start_daemon(
        json.dumps({"caisson": {"token_required": False}}), launch=False, env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN}
    )
    daemon.launch()
    assert daemon.process.wait(60) != 0
    assert "LANGBOT_BOX_CONTROL_TOKEN is set, and caisson.token_required is false" in daemon.read_log()
