"""What 0.7 of LangBot's SDK asks of a runtime and 0.5 did not."""

import json
import os

import pytest

from rest.host import wait_until

MIB = 1 << 20


def capacity(tenant):
    return tenant.ok("box_status")["capacity"]


def test_the_capacity_counts_the_sessions_of_the_workspace(rpc, tenant, name):
    before = capacity(tenant)
    assert before["used"] == 0 and before["limit"] == 1000
    tenant.create("a")
    tenant.create("b")
    assert capacity(tenant)["used"] == 2
    other = rpc.tenant(name + "-other")
    assert capacity(other)["used"] == 0
    assert capacity(other)["remaining"] <= before["remaining"] - 2
    tenant.delete("a")
    assert capacity(tenant)["used"] == 1


def test_a_session_says_whether_a_command_runs_in_it(tenant, place):
    os.mkfifo(place / "wait")
    assert tenant.create("s", host_path=str(place))["status"] == "idle"
    seq = tenant.begin("s", "cat wait", place / "started", host_path=str(place))
    assert tenant.get("s")["status"] == "running"
    assert [shown["status"] for shown in tenant.ok("box_get_sessions")["sessions"]] == ["running"]
    (place / "wait").write_text("")  # opens when the command reads
    assert tenant.receive(seq)["code"] == 0
    wait_until(lambda: tenant.get("s")["status"] == "idle", "a session that is idle again")


@pytest.mark.parametrize("action", ["box_exec", "box_create_session"])
def test_unknown_fields_are_refused_as_new_hosts_have_it_and_ignored_as_older_ones(tenant, legacy, action):
    spec = {"session_id": "s", "cmd": "true", "colour": "red"}
    assert tenant.error(action, **spec).startswith("BoxValidationError: colour")
    assert tenant.sessions() == set()
    tenant.ok(action, **spec, skill_name=None)
    legacy.ok(action, {**spec, "session_id": "unknown-fields"})
    legacy.ok("box_delete_session", {"session_id": "unknown-fields"})


def test_mounts_that_are_not_in_normal_form_are_refused_as_new_hosts_have_it(tenant, place):
    mount = {"host_path": str(place), "mount_path": "/workspace/a/../b", "mode": "ro"}
    assert "must be normalized" in tenant.error("box_create_session", session_id="s", extra_mounts=[mount])
    tenant.create("s", extra_mounts=[mount], skill_name=None)


def nested(depth):
    return "[" * depth + "]" * depth


def test_a_request_that_is_nested_too_deeply_is_answered(rpc, legacy):
    for connection in (rpc, legacy):
        for depth, answered in ((200, 0), (201, 1), (100_000, 1)):
            # The list is the data's one member: an object around it is one level more.
            text = '{"seq_id": 4711, "action": "__ping", "data": {"deep": %s}}' % nested(depth - 1)
            answer = json.loads(connection.raw(text))
            assert (answer["seq_id"], answer["code"]) == (4711, answered), (depth, answer)
        assert "nested" in answer["message"]
        connection.ping()


def test_a_command_may_be_as_long_as_a_message(tenant):
    begin, end = "echo begin; : '", "'; echo end"
    for size in (10 * MIB, 16 * MIB - 4096):
        result = tenant.exec("s", begin + "x" * (size - len(begin + end)) + end)
        assert (result["exit_code"], result["stdout"]) == (0, "begin\nend"), result["stderr"][:200]
