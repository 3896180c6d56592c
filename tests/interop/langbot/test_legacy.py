"""Hosts before 0.5, without headers and contexts, beside those that have them."""

import json

import pytest

from .archives import packed, skill
from .rpc import INSTANCE, LIMIT, OMITTED, Refused, Rpc, Stdio, open_socket

CONTEXT_MISSING = "PermissionError: Box tenant action requires a trusted Workspace context"


@pytest.fixture
def domain(legacy, name):
    domain = legacy.domain
    yield domain
    for session in domain.sessions():
        if session.startswith(name):
            domain.delete(session)


# Rule 1: who is one.


@pytest.mark.parametrize(
    ("config", "env"),
    [
        ("caisson: {langbot: {legacy: false}}", {}),
        ("", {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "trusted"}),
        ("", {"LANGBOT_BOX_CONTROL_TOKEN": "t" * 40}),
    ],
    ids=["switched off", "instance", "token"],
)
def test_legacy_hosts_can_be_kept_out(start_daemon, config, env):
    daemon = start_daemon(config, env=env)
    with pytest.raises(Refused) as refusal:
        Rpc(daemon.port, instance=None)
    assert (refusal.value.status, refusal.value.text) == (401, "Unauthorized")


def test_a_legacy_host_pins_no_instance(start_daemon):
    daemon = start_daemon()
    with Rpc(daemon.port, instance=None) as legacy, Rpc(daemon.port, instance="any") as rpc:
        legacy.ping()
        rpc.ping()
        with Rpc(daemon.port, instance=None) as another:
            another.ping()


# Rule 2: their domain.


def test_ids_are_those_that_were_sent(domain, name):
    for session in (f"{name} group_1@chatroom", f"{name}/é:€"):
        made = domain.ok("box_create_session", session_id=f" {session} ")
        assert made["session_id"] == session
        assert domain.output(session, "echo hi") == "hi"
        conflict = f"BoxSessionConflictError: Box session {session} already exists with network=off"
        assert domain.error("box_create_session", session_id=session, network="on") == conflict
        assert session in domain.sessions()
        assert domain.ok("box_delete_session", session_id=session) == {"deleted": session}
        message = f"BoxSessionNotFoundError: session {session} not found"
        assert domain.error("box_get_session", session_id=session) == message


def test_the_domain_and_tenants_do_not_see_each_other(domain, tenant, name):
    domain.create(f"{name}-old")
    tenant.create("new")
    assert tenant.sessions() == {"new"}
    assert f"{name}-old" in domain.sessions()
    assert not [one for one in domain.sessions() if one == "new" or one.startswith("ws-")]
    assert "not found" in domain.error("box_get_session", session_id="new")
    domain.error("box_get_session", session_id=tenant.physical("new"))
    assert "not found" in tenant.error("box_get_session", session_id=f"{name}-old")


def test_counts_are_global(start_daemon):
    daemon = start_daemon()
    with Rpc(daemon.port, instance=None) as legacy, Rpc(daemon.port) as rpc:
        legacy.domain.shell("old", "exec sleep 60")
        rpc.tenant("w").shell("new", "exec sleep 60")
        shown = legacy.ok("box_status")
        assert (shown["active_sessions"], shown["managed_processes"]) == (2, 2)
        assert rpc.tenant("w").ok("box_status")["active_sessions"] == 1


def test_their_skills_are_beside_those_of_tenants(domain, tenant):
    tenant.ok("box_create_skill", skill={"name": "new", "instructions": "x"})
    made = domain.ok("box_create_skill", skill={"name": "old", "instructions": "x"})["skill"]
    assert "/tenants/" not in made["package_root"]
    assert [one["name"] for one in domain.ok("box_list_skills")["skills"]] == ["old"]
    assert [one["name"] for one in tenant.ok("box_list_skills")["skills"]] == ["new"]
    domain.ok("box_delete_skill", name="old")
    tenant.ok("box_delete_skill", name="new")


def test_they_may_import_a_package_from_elsewhere(domain, place):
    (place / "SKILL.md").write_text(skill("brought", "d"))
    made = domain.ok("box_create_skill", skill={"name": "brought", "package_root": str(place)})["skill"]
    assert made["description"] == "d" and made["package_root"] != str(place)
    domain.ok("box_delete_skill", name="brought")
    assert (place / "SKILL.md").exists()


def test_tenant_actions_are_refused_where_admission_is_required(start_daemon):
    daemon = start_daemon(json.dumps({"box": {"admission": {"required": True}}}))
    with Rpc(daemon.port, instance=None) as legacy:
        legacy.ping()
        assert legacy.call("box_create_session", {"session_id": "s"})["code"] == 1


# Rules 3 and 4: contexts.


def test_a_context_on_a_legacy_connection_is_refused(legacy, tenant, name):
    tenant.create("s")
    message = legacy.error("box_get_sessions", {}, tenant.context)
    assert message.startswith("PermissionError: Box action context on a connection that names no instance")
    legacy.ping()


def test_a_connection_with_headers_needs_contexts(rpc):
    assert rpc.error("box_get_sessions") == CONTEXT_MISSING


# Rule 5: split requests.


def test_pieces_are_put_together_and_dropped_when_a_whole_one_comes(legacy):
    request = json.dumps({"seq_id": 1, "action": "__ping", "data": {}, "padding": "é" * 100_000}, ensure_ascii=False)
    for at in range(0, len(request), 40_000):
        legacy.send_text(request[at : at + 40_000])
    assert legacy.receive(1)["code"] == 0
    legacy.send_text(request[:40_000])
    legacy.send("__ping", seq=2)
    assert legacy.receive(2)["code"] == 0
    legacy.send("__ping", seq=3)
    assert legacy.receive(3)["code"] == 0
    assert legacy.answers == {}


def test_pieces_are_not_put_together_for_others(rpc):
    request = json.dumps({"seq_id": 1, "action": "__ping", "data": {}})
    rpc.send_text(request[:20])
    rpc.send_text(request[20:])
    rpc.send("__ping", seq=2)
    assert rpc.receive(2)["code"] == 0
    assert rpc.answers == {}


# Rule 6: 1 MiB.


@pytest.mark.parametrize("character", ["x", "\\001", "\\303\\251"], ids=["plain", "escaped", "two bytes"])
def test_answers_fit_the_receive_limit_of_old_clients(legacy, domain, name, character):
    domain.send("box_exec", session_id=name, cmd=f"yes \"$(printf '{character}')\" | tr -d '\\n' | head -c 2000000")
    answer = legacy.read_text(LIMIT)
    assert len(answer.encode()) < 1 << 20
    shown = json.loads(answer)["data"]["stdout"]
    assert "\n... [" in shown and "clipped" in shown


# Rules 7 and 8: relays.


def test_relays_without_headers_reach_only_their_domain(daemon, domain, tenant, name):
    tenant.start("s", "cat")
    domain.start(name, "cat")
    with domain.relay(name) as relay:
        relay.send("x\ny")
        assert [relay.recv(LIMIT), relay.recv(LIMIT)] == ["x", "y"]
    with pytest.raises(Refused) as refusal:
        open_socket(daemon.port, f"/v1/sessions/{tenant.physical('s')}/managed-process/default/ws")
    assert refusal.value.status in (400, 401, 404)


def test_relays_say_what_is_missing(daemon, domain, name):
    domain.shell(name, "exit 0")
    domain.ended(name)
    expected = {
        f"{name}-absent/managed-process": f"session {name}-absent not found",
        f"{name}/managed-process/absent": f"session {name} has no managed process with process_id=absent",
        f"{name}/managed-process": f"managed process default in session {name} is not running",
    }
    for path, message in expected.items():
        with pytest.raises(Refused) as refusal:
            open_socket(daemon.port, f"/v1/sessions/{path}/ws", subprotocols=["mcp"])
        # The route is that of the REST era as well, whose statuses tell more.
        assert refusal.value.status in (400, 404, 409) and refusal.value.error["message"] == message


# Rule 10: stdio without an instance.


def test_stdio_without_an_instance_is_legacy(tmp_path):
    with Stdio(tmp_path, instance=None) as runtime:
        runtime.ping()
        assert runtime.ok("box_exec", {"session_id": "a b", "cmd": "echo hi"})["session_id"] == "a b"
        runtime.wait_for_port()
        with Rpc(runtime.port, instance=None) as legacy:
            assert legacy.domain.sessions() == {"a b"}


def test_stdio_takes_the_instance_of_the_first_context(tmp_path):
    with Stdio(tmp_path, instance=None) as runtime:
        runtime.tenant("w").create("s")
        other = {"instance_uuid": "other", "workspace_uuid": "w", "placement_generation": 1}
        message = runtime.error("box_get_sessions", {}, other)
        assert message == "PermissionError: Box action context does not match the trusted instance"
        assert INSTANCE != "other"


# And the uploads.


def test_uploads_of_old_clients(domain):
    archive = packed({"old/SKILL.md": skill("uploaded"), "old/noise": bytes(50_000)})
    installed = domain.ok("box_install_skill_zip", file_key=domain.upload(archive), filename="old.zip")["skills"]
    assert [one["name"] for one in installed] == ["uploaded"]
    assert domain.rpc.ok("box_delete_skill", {"name": "uploaded"}, OMITTED) == {"deleted": "uploaded"}
