"""Connections that come and go, requests that meet each other, and the configuration that hosts send."""

import http.client
import json

import pytest

from rest.host import processes_with, wait_until

from .archives import packed, skill
from .conftest import OPEN, settings
from .rpc import LIMIT, Rpc

# Disconnecting.


def test_a_command_ends_with_its_connection_and_the_session_stays(daemon, tenant, place):
    with Rpc(daemon.port) as leaving:
        second = leaving.tenant(tenant.workspace)
        second.start("s", "cat")
        second.create("t", host_path=str(place))
        second.begin("t", "sleep 8642.5", place / "started", host_path=str(place))
        wait_until(lambda: processes_with("sleep 8642.5"), "the command")
        leaving.cut()
    wait_until(lambda: not processes_with("sleep 8642.5"), "the end of the command")
    assert tenant.sessions() == {"s", "t"}
    assert tenant.process("s")["status"] == "running"
    assert tenant.output("t", "echo on", host_path=str(place)) == "on"


def test_what_waits_for_its_turn_goes_with_its_connection(daemon, tenant, place):
    spec = {"host_path": str(place)}
    running = tenant.begin("s", "until [ -e go ]; do sleep 0.01; done", place / "started", **spec)
    with Rpc(daemon.port) as leaving:
        leaving.tenant(tenant.workspace).send("box_exec", session_id="s", cmd="touch late", **spec)
        leaving.ping()
    (place / "go").touch()
    assert tenant.receive(running)["data"]["exit_code"] == 0
    assert tenant.output("s", "ls", **spec) == "go\nstarted"


def test_a_request_is_cancelled_by_its_number(rpc, tenant, place):
    spec = {"host_path": str(place)}
    running = tenant.begin("s", "sleep 8643.5", place / "started", **spec)
    wait_until(lambda: processes_with("sleep 8643.5"), "the command")
    neighbour = rpc.tenant(f"{tenant.workspace} and another")
    assert neighbour.ok("__cancel_action", seq_id=running) == {"cancelled": False}
    assert tenant.of(1).ok("__cancel_action", seq_id=running + 1000) == {"cancelled": False}
    assert tenant.ok("__cancel_action", seq_id=running) == {"cancelled": True}
    wait_until(lambda: not processes_with("sleep 8643.5"), "the end of the command")
    assert tenant.output("s", "echo on", **spec) == "on"
    assert running not in rpc.answers
    assert tenant.error("__cancel_action", seq_id="1") == "ValueError: Cancellation requires an integer seq_id"
    assert tenant.ok("__stream_ack", seq_id=1, index=1) == {"accepted": False}


def test_who_has_too_many_requests_at_work_can_cancel_some(rpc, tenant):
    waiting = [tenant.send("box_exec", session_id="s", cmd="sleep 8644.5", timeout_sec=600) for _ in range(128)]
    assert tenant.error("box_status") == "Runtime connection is busy (max 128 concurrent actions)"
    for number in reversed(waiting):
        assert tenant.ok("__cancel_action", seq_id=number) == {"cancelled": True}
    wait_until(lambda: not processes_with("sleep 8644.5"), "the end of the commands")
    assert tenant.output("s", "echo on") == "on"
    assert not {*waiting} & {*rpc.answers}


def test_uploads_end_with_their_connection(daemon, tenant):
    with Rpc(daemon.port) as leaving:
        leaving.tenant(tenant.workspace).upload(packed({"SKILL.md": skill("gone")}), "gone.zip")
    message = tenant.error("box_preview_skill_zip", file_key="gone.zip")
    assert message.startswith("BoxValidationError: ")


def test_uploads_are_used_up(tenant):
    key = tenant.upload(packed({"SKILL.md": skill("once")}))
    assert tenant.ok("box_preview_skill_zip", file_key=key)["skills"][0]["name"] == "once"
    assert tenant.error("box_preview_skill_zip", file_key=key).startswith("BoxValidationError: ")


def test_the_number_of_uploads_is_bounded(daemon):
    with Rpc(daemon.port) as rpc:
        tenant = rpc.tenant("w")
        for number in range(128):
            tenant.upload(b"x", f"key-{number}")
        chunk = {"file_key": "one-more", "chunk_base64": "eA==", "chunk_index": 0, "chunk_amount": 1}
        assert rpc.error("__file_chunk", chunk) == "ValueError: Active file transfer capacity reached"
        tenant.upload(b"y", "key-5")


def test_pongs_come_while_commands_run(rpc, tenant, place):
    running = tenant.begin("s", "until [ -e go ]; do sleep 0.01; done", place / "started", host_path=str(place))
    assert rpc.socket.ping().wait(LIMIT)
    rpc.ping()
    (place / "go").touch()
    assert tenant.receive(running)["code"] == 0


# Meeting each other.


def test_create_and_exec_without_waiting(tenant):
    first = tenant.send("box_create_session", session_id="s")
    second = tenant.send("box_exec", session_id="s", cmd="echo on")
    assert tenant.receive(second)["data"]["stdout"] == "on"
    assert tenant.receive(first)["data"]["session_id"] == "s"


def test_create_and_delete_without_waiting(tenant):
    first = tenant.send("box_create_session", session_id="s")
    second = tenant.send("box_delete_session", session_id="s")
    assert tenant.receive(first)["code"] == 0
    assert tenant.receive(second)["data"] == {"deleted": "s"}
    assert tenant.sessions() == set()


def test_of_two_deletes_one_finds_it(tenant):
    tenant.create("s")
    sent = [tenant.send("box_delete_session", session_id="s") for _ in range(2)]
    answers = sorted((tenant.receive(seq) for seq in sent), key=lambda answer: answer["code"])
    assert answers[0]["data"] == {"deleted": "s"}
    assert answers[1]["message"].startswith("BoxSessionNotFoundError: session ")


def test_commands_of_a_session_take_turns_in_order(tenant, place):
    spec = {"host_path": str(place)}
    tenant.create("s", **spec)
    sent = [tenant.send("box_exec", session_id="s", cmd=f"echo {number} >> log", **spec) for number in range(20)]
    assert all(tenant.receive(seq)["code"] == 0 for seq in sent)
    assert (place / "log").read_text().split() == [str(number) for number in range(20)]


def test_waiting_does_not_count_as_time(tenant, place):
    spec = {"host_path": str(place)}
    running = tenant.begin("s", "until [ -e go ]; do sleep 0.01; done; sleep 3.2", place / "started", **spec)
    waiting = tenant.send("box_exec", session_id="s", cmd="echo on", timeout_sec=3, **spec)
    (place / "go").touch()
    assert tenant.receive(running)["data"]["status"] == "completed"
    answer = tenant.receive(waiting)["data"]
    assert (answer["status"], answer["stdout"]) == ("completed", "on") and answer["duration_ms"] < 3000


def test_sessions_do_not_wait_for_each_other(tenant, place):
    running = tenant.begin("s", "until [ -e go ]; do sleep 0.01; done", place / "started", host_path=str(place))
    assert tenant.output("t", "echo on") == "on"
    (place / "go").touch()
    assert tenant.receive(running)["code"] == 0


# Routes.


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/rpc/other", 404), ("POST", "/rpc/ws", 405)])
def test_other_routes(daemon, method, path, status):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
    connection.request(method, path)
    assert connection.getresponse().status == status
    connection.close()


def test_a_plain_get_is_no_upgrade(daemon):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
    connection.request("GET", "/rpc/ws", headers={"X-LangBot-Instance-Id": "inst"})
    assert connection.getresponse().status == 400
    connection.close()


# The default workspace.


def test_the_default_workspace_is_made_below_the_allowed_roots(start_daemon, tmp_path):
    with Rpc(start_daemon(settings(tmp_path / "box")).port) as rpc:
        local = {"host_root": str(tmp_path / "box"), "default_workspace": "a/b", "allowed_mount_roots": []}
        rpc.ok("box_init", {"local": local})
        assert (tmp_path / "box" / "a" / "b").is_dir()
        (tmp_path / "box" / "file").touch()
        prefix = "BoxValidationError: box.local.default_workspace "
        local = {
            "host_root": str(tmp_path / "box"),
            "default_workspace": str(tmp_path / "elsewhere"),
            "allowed_mount_roots": "",
        }
        message = rpc.error("box_init", {"local": local})
        assert message.startswith(f"{prefix}is outside allowed_mount_roots: ")
        assert str(tmp_path / "box") in message
        local = {"host_root": str(tmp_path / "box"), "default_workspace": "file"}
        message = rpc.error("box_init", {"local": local})
        assert message == f"{prefix}must point to a directory on the Box runtime host"


def test_allowed_roots_may_be_a_list_or_a_text(start_daemon, tmp_path):
    with Rpc(start_daemon(json.dumps(OPEN)).port) as rpc:
        for number, roots in enumerate(([f"{tmp_path}/a", f"{tmp_path}/b"], f"{tmp_path}/a, {tmp_path}/b")):
            workspace = tmp_path / "b" / str(number)
            local = {
                "host_root": str(tmp_path / "a"),
                "default_workspace": str(workspace),
                "allowed_mount_roots": roots,
            }
            rpc.ok("box_init", {"local": local})
            assert workspace.is_dir()


def test_a_missing_host_path_is_made(tenant, place):
    missing = place / "tenants" / "new"
    assert tenant.output("s", "touch made; pwd", host_path=str(missing)) == "/workspace"
    assert (missing / "made").exists()
