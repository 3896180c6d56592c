"""Workspaces apart from each other: names, contexts, the generation fence, who may reach a relay."""

import http.client

import pytest
from websockets.exceptions import ConnectionClosed

from rest.host import wait_until

from .rpc import INSTANCE, Refused, Rpc, Tenant, open_socket, physical

STALE = "PermissionError: Stale Box placement generation"
OTHER_INSTANCE = "PermissionError: Box action context does not match the trusted instance"


# Names.


@pytest.mark.parametrize(
    ("workspace", "expected"),
    [
        ("ws", "ws-108378aeed2d7cca4480d35e"),
        ("ws2", "ws-196c9c22232cb25bbb6bb1e5"),
        ("ws3", "ws-86995e5d104ca92415ec9779"),
        (" ws ", "ws-108378aeed2d7cca4480d35e"),
    ],
)
def test_the_namespace_of_a_workspace(rpc, workspace, expected):
    message = rpc.tenant(workspace).error("box_get_session", session_id="absent")
    assert message == f"BoxSessionNotFoundError: session {expected}-g1-absent not found"


def test_the_physical_id_is_made_safe_and_the_logical_one_shown(rpc):
    tenant = rpc.tenant("ws")
    made = tenant.create("a b/c:d é")
    assert made["session_id"] == "a-b-c-d"
    assert tenant.exec("a b/c:d é", "true")["session_id"] == "a-b-c-d"
    assert tenant.get("a b/c:d é")["session_id"] == "a-b-c-d"
    assert tenant.sessions() == {"a-b-c-d"}
    message = tenant.error("box_exec", session_id="a b/c:d é", cmd="true", network="on")
    expected = "Box session ws-108378aeed2d7cca4480d35e-g1-a-b-c-d already exists with network=off"
    assert message == f"BoxSessionConflictError: {expected}"
    assert tenant.ok("box_delete_session", session_id="a b/c:d é") == {"deleted": "a b/c:d é"}


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ("", "ValueError: Box session_id must not be empty"),
        ("  ", "ValueError: Box session_id must not be empty"),
        ("é €", "ValueError: Box session_id must contain a valid character"),
        ("---", "ValueError: Box session_id must contain a valid character"),
    ],
)
@pytest.mark.parametrize(
    "action", ["box_get_session", "box_delete_session", "box_get_managed_process", "box_stop_managed_process"]
)
def test_ids_without_a_valid_character_are_refused(tenant, action, session, message):
    assert tenant.error(action, session_id=session) == message


def test_the_process_objects_show_the_logical_id(tenant):
    assert tenant.shell("a/b", "exec sleep 60")["session_id"] == "a-b"
    assert tenant.process("a/b")["session_id"] == "a-b"
    shown = tenant.get("a/b")
    assert shown["managed_process"]["session_id"] == shown["managed_processes"]["default"]["session_id"] == "a-b"


# Contexts.


@pytest.mark.parametrize(
    "action", ["box_status", "box_exec", "box_get_sessions", "box_list_skills", "box_create_skill"]
)
@pytest.mark.parametrize("context", [{}, {"context": None}], ids=["absent", "null"])
def test_tenant_actions_need_a_context(rpc, action, context):
    data = {"session_id": "s", "cmd": "true"}
    message = rpc.error(action, data, **context)
    assert message == "PermissionError: Box tenant action requires a trusted Workspace context"


HOST_ACTIONS = ["__ping", "box_health", "box_get_backend_info"]


@pytest.mark.parametrize("action", [*HOST_ACTIONS, "box_get_sessions"])
def test_a_context_of_another_instance_is_refused(rpc, action):
    context = {"instance_uuid": "other", "workspace_uuid": "w", "placement_generation": 1}
    assert rpc.error(action, {}, context) == OTHER_INSTANCE


@pytest.mark.parametrize("action", HOST_ACTIONS)
@pytest.mark.parametrize("context", [{}, {"context": None}], ids=["absent", "null"])
def test_host_actions_need_none(rpc, action, context):
    rpc.ok(action, {}, **context)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"instance_uuid": " "}, "must not be empty"),
        ({"workspace_uuid": ""}, "must not be empty"),
        ({"workspace_uuid": 5}, ""),
        ({"placement_generation": 0}, "placement_generation must be greater than or equal to 1"),
        ({"placement_generation": 2**31}, "placement_generation must be less than or equal to 2147483647"),
        ({"placement_generation": 10**30}, "placement_generation must be less than or equal to 2147483647"),
        ({"placement_generation": "x"}, ""),
        ({"installation_uuid": " "}, "must not be empty"),
        ({"unknown": 1}, ""),
        ({"runtime_revision": 1}, ""),
    ],
)
def test_bad_contexts_are_refused(rpc, change, sentence):
    context = {"instance_uuid": INSTANCE, "workspace_uuid": "bad", "placement_generation": 1, **change}
    message = rpc.error("box_get_sessions", {}, context)
    assert message.startswith("ValidationError: ") and sentence in message


@pytest.mark.parametrize(
    "change",
    [
        {"placement_generation": "1"},
        {"placement_generation": 1.0},
        {"installation_uuid": "plugin"},
        {"installation_uuid": None},
        {"installation_uuid": "plugin", "runtime_revision": 1, "artifact_digest": "0a" * 32},
    ],
)
def test_other_forms_of_contexts_are_accepted(rpc, change):
    context = {"instance_uuid": INSTANCE, "workspace_uuid": "forms", "placement_generation": 1, **change}
    assert rpc.ok("box_get_sessions", {}, context) == {"sessions": []}


def test_a_context_without_a_generation_is_of_the_first(rpc, name):
    rpc.tenant(name).create("s")
    context = {"instance_uuid": INSTANCE, "workspace_uuid": name}
    assert [one["session_id"] for one in rpc.ok("box_get_sessions", {}, context)["sessions"]] == ["s"]
    rpc.tenant(name).clear()


# Apart from each other.


def test_sessions_of_one_are_nothing_to_the_other(rpc, name):
    one, other = rpc.tenant(name), rpc.tenant(name + "-other")
    one.create("s", memory_mb=256)
    assert other.sessions() == set()
    assert "not found" in other.error("box_get_session", session_id="s")
    assert "not found" in other.error("box_delete_session", session_id="s")
    other.create("s", memory_mb=512)
    assert one.get("s")["memory_mb"] == 256
    assert one.ok("box_status")["active_sessions"] == other.ok("box_status")["active_sessions"] == 1
    one.clear()
    assert other.sessions() == {"s"}
    other.clear()


def test_skills_of_one_are_nothing_to_the_other(rpc, name):
    one, other = rpc.tenant(name), rpc.tenant(name + "-other")
    made = one.ok("box_create_skill", skill={"name": "mine", "instructions": "x"})["skill"]
    assert f"/tenants/{physical(name, 's').removesuffix('-g1-s')}/" in made["package_root"]
    assert other.ok("box_list_skills") == {"skills": []}
    assert other.ok("box_get_skill", name="mine") == {"skill": None}
    message = other.error("box_scan_skill_directory", path=made["package_root"])
    assert message == "BoxValidationError: scan path must stay within the Workspace skill root"
    message = other.error("box_create_skill", skill={"name": "theirs", "package_root": made["package_root"]})
    assert message == "BoxValidationError: package_root must stay within the Workspace skill root"
    one.ok("box_delete_skill", name="mine")


def test_two_connections_share_one_runtime(daemon, tenant):
    tenant.create("s")
    with Rpc(daemon.port) as second:
        assert second.tenant(tenant.workspace).sessions() == {"s"}


# The fence.


def test_a_newer_generation_ends_the_sessions_of_the_older(tenant):
    tenant.create("s")
    tenant.create("kept", persistent=True)
    newer = tenant.of(3)
    assert newer.sessions() == set()
    assert tenant.error("box_get_sessions") == STALE
    assert tenant.of(2).error("box_get_sessions") == STALE
    assert newer.create("s")["session_id"] == "s"
    newer.clear()
    tenant.generation = 3


def test_skills_survive_a_new_generation(tenant):
    tenant.ok("box_create_skill", skill={"name": "kept", "instructions": "x"})
    tenant.generation = 2
    assert [skill["name"] for skill in tenant.ok("box_list_skills")["skills"]] == ["kept"]
    tenant.ok("box_delete_skill", name="kept")


def test_what_an_older_generation_waits_for_is_answered_as_stale(tenant, place):
    running = tenant.begin("s", "sleep 60", place / "started", host_path=str(place))
    waiting = tenant.send("box_exec", session_id="s", cmd="true", host_path=str(place))
    assert tenant.of(2).sessions() == set()
    assert tenant.receive(running)["message"] == STALE
    assert tenant.receive(waiting)["message"] == STALE
    tenant.generation = 2


def test_the_fence_is_that_of_a_workspace_and_of_all_connections(daemon, tenant, name):
    tenant.of(5).ok("box_status")
    with Rpc(daemon.port) as second:
        assert second.tenant(name).error("box_status") == STALE
        second.tenant(name + "-other").ok("box_status")
    tenant.generation = 5


def test_the_number_of_fenced_workspaces_is_bounded(start_daemon, tmp_path):
    limits = "box: {limits: {max_admission_records: 3}}"
    with Rpc(start_daemon(limits).port) as rpc:
        for number in range(3):
            rpc.tenant(f"w{number}").ok("box_status")
        message = rpc.tenant("w3").error("box_status")
        refusal = "Box generation fence capacity reached; refusing an unbounded Workspace allocation"
        assert message == f"PermissionError: {refusal}"
        rpc.tenant("w2").ok("box_status")


# The relay.


@pytest.fixture
def cat(tenant):
    tenant.start("s", "cat")
    return tenant


def relay_path(session, process="default"):
    return f"/v1/sessions/{session}/managed-process/{process}/ws"


def refused(daemon, path, headers, **options):
    with pytest.raises(Refused) as refusal:
        open_socket(daemon.port, path, headers, **options)
    return refusal.value


@pytest.mark.parametrize(
    "change",
    [
        {"X-LangBot-Instance-Id": "other"},
        {"X-LangBot-Instance-Id": ""},
        {"X-LangBot-Instance-Id": "-bad"},
        {"X-LangBot-Workspace-Id": None},
        {"X-LangBot-Workspace-Id": " "},
        {"X-LangBot-Workspace-Id": "w" * 257},
        {"X-LangBot-Workspace-Id": "never seen"},
        {"X-LangBot-Placement-Generation": None},
        {"X-LangBot-Placement-Generation": "01"},
        {"X-LangBot-Placement-Generation": "+1"},
        {"X-LangBot-Placement-Generation": "0"},
        {"X-LangBot-Placement-Generation": "1.0"},
        {"X-LangBot-Placement-Generation": "2"},
    ],
)
def test_relays_with_bad_headers_are_refused(daemon, cat, change):
    headers = {name: value for name, value in {**cat.relay_headers(), **change}.items() if value is not None}
    refusal = refused(daemon, relay_path(cat.physical("s")), headers)
    assert (refusal.status, refusal.text, refusal.type) == (401, "Unauthorized", "text/plain; charset=utf-8")


@pytest.mark.parametrize("session", ["s", "ws-108378aeed2d7cca4480d35e-g1-s", ""])
def test_relays_of_other_sessions_are_refused(daemon, cat, session):
    path = relay_path(session or cat.physical("").rstrip("-"))
    assert refused(daemon, path, cat.relay_headers()).status == 401


def test_relays_need_a_running_process(daemon, cat):
    headers, session = cat.relay_headers(), cat.physical("s")
    refusal = refused(daemon, relay_path(cat.physical("absent")), headers)
    message = f"session {cat.physical('absent')} not found"
    assert (refusal.status, refusal.error) == (400, {"code": "BoxSessionNotFoundError", "message": message})
    refusal = refused(daemon, relay_path(session, "absent"), headers)
    message = f"session {session} has no managed process with process_id=absent"
    assert (refusal.status, refusal.error) == (400, {"code": "BoxManagedProcessNotFoundError", "message": message})
    cat.shell("s", "exit 0", process_id="ended")
    cat.ended("s", "ended")
    refusal = refused(daemon, relay_path(session, "ended"), headers)
    message = f"managed process ended in session {session} is not running"
    assert (refusal.status, refusal.error) == (400, {"code": "BoxManagedProcessConflictError", "message": message})


def test_a_relay_is_an_upgrade(daemon, cat):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
    connection.request("GET", relay_path(cat.physical("s")), headers=cat.relay_headers())
    assert connection.getresponse().status == 400
    connection.close()


def test_no_relay_before_an_instance_is_known(start_daemon):
    daemon = start_daemon("caisson: {langbot: {legacy: false}}")
    headers = Tenant(None, "w", 1, INSTANCE).relay_headers()
    assert refused(daemon, relay_path(physical("w", "s")), headers).status == 401


def test_a_newer_generation_closes_the_relays_of_the_older(cat):
    with cat.relay("s") as relay:
        relay.send("x")
        assert relay.recv(30) == "x"
        cat.of(2).ok("box_status")
        with pytest.raises(ConnectionClosed):
            relay.recv(30)
        assert relay.protocol.close_code == 1000
    refusal = refused_of(cat)
    assert refusal.status == 401
    cat.generation = 2


def refused_of(tenant):
    with pytest.raises(Refused) as refusal:
        tenant.relay("s")
    return refusal.value


# The instance.


def test_an_instance_from_the_environment_is_the_only_one(start_daemon):
    daemon = start_daemon(env={"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "trusted"})
    for instance in (None, "other", "bad instance"):
        with pytest.raises(Refused) as refusal:
            Rpc(daemon.port, instance)
        assert (refusal.value.status, refusal.value.text) == (401, "Unauthorized")
    with Rpc(daemon.port, " trusted ") as rpc:
        rpc.tenant("w", instance="trusted").ok("box_status")


def test_a_token_from_the_environment_is_asked_for(start_daemon):
    token = "t" * 32
    daemon = start_daemon(env={"LANGBOT_BOX_CONTROL_TOKEN": f" {token} "})
    for instance, given in ((INSTANCE, None), (INSTANCE, "wrong"), (None, None), ("bad instance", token)):
        with pytest.raises(Refused) as refusal:
            Rpc(daemon.port, instance, given)
        assert (refusal.value.status, refusal.value.text) == (401, "Unauthorized")
    with Rpc(daemon.port, token=token) as rpc:
        tenant = rpc.tenant("w")
        tenant.start("s", "cat")
        assert refused_of(tenant).status == 401
        headers = {**tenant.relay_headers(), "X-LangBot-Box-Control-Token": token}
        with open_socket(daemon.port, relay_path(tenant.physical("s")), headers, subprotocols=["mcp"]) as relay:
            relay.send("x")
            assert relay.recv(30) == "x"


@pytest.mark.parametrize("token", ["short", "with a space in it, and long enough for it"])
def test_a_bad_token_is_no_way_to_start(start_daemon, token):
    daemon = start_daemon(launch=False, env={"LANGBOT_BOX_CONTROL_TOKEN": token})
    daemon.launch()
    assert daemon.process.wait(60) != 0
    expected = "LANGBOT_BOX_CONTROL_TOKEN must be a non-whitespace secret of at least 32 characters"
    wait_until(lambda: expected in daemon.read_log(), "the reason in the log")
