"""Workspaces without admission: none reaches into another, and nobody acts for one without being its host."""

import json

import pytest

from .archives import skill
from .rpc import INSTANCE, Refused, Rpc, namespace, open_socket


@pytest.fixture
def workspace(daemon):
    """Where workspaces have their directories."""
    return daemon.root / "default" / "tenants"


@pytest.fixture
def other(rpc, name, workspace):
    """A second workspace, with a file and a skill of its own."""
    other = rpc.tenant(f"{name}-other")
    other.directory = workspace / namespace(other.workspace)
    other.output("s", "echo theirs > secret", host_path=str(other.directory))
    made = other.ok("box_create_skill", skill={"name": "theirs", "instructions": "secret"})["skill"]
    other.package = made["package_root"]
    yield other
    other.ok("box_delete_skill", name="theirs")
    other.clear()


def refusals(tenant, path):
    """Every way to mount the path."""
    yield tenant.error("box_exec", session_id="m1", cmd="cat /workspace/*", host_path=str(path))
    yield tenant.error("box_exec", session_id="m2", cmd="ls", host_path=str(path), host_path_mode="ro")
    yield tenant.error("box_create_session", session_id="m3", host_path=str(path))
    extra = [{"host_path": str(path), "mount_path": "/mnt/x", "mode": "ro"}]
    yield tenant.error("box_exec", session_id="m4", cmd="ls /mnt/x", extra_mounts=extra)


def test_a_workspace_mounts_no_directory_or_skill_of_another(daemon, tenant, other, workspace):
    own = workspace / namespace(tenant.workspace)
    tenant.output("s", f"ln -s {other.directory} link; ln -s ../{other.directory.name} link2", host_path=str(own))
    paths = [other.directory, other.directory / "secret", other.package, own / "link", own / "link2", own / ".."]
    above = [workspace, workspace.parent, daemon.root, daemon.root / "skills", daemon.root / "skills" / "beside"]
    (daemon.root / "skills" / "beside").mkdir(exist_ok=True)
    for path in [*paths, *above]:
        for message in refusals(tenant, path):
            assert message.startswith("BoxValidationError: host_path ") and "is blocked for security" in message, path
    assert tenant.sessions() == {"s"}
    assert (other.directory / "secret").read_text() == "theirs\n"


def test_a_workspace_mounts_its_own_directory_and_skills(daemon, tenant, other, workspace, place):
    own = workspace / namespace(tenant.workspace)
    made = tenant.ok("box_create_skill", skill={"name": "mine", "instructions": "text"})["skill"]
    extra = [{"host_path": made["package_root"], "mount_path": "/workspace/.skills/mine", "mode": "rw"}]
    spec = {"host_path": str(own), "extra_mounts": extra}
    assert "text" in tenant.output("s", "cat .skills/mine/SKILL.md; touch made", **spec)
    assert (own / "made").exists()
    assert tenant.output("t", "touch made; pwd", host_path=str(place)) == "/workspace"
    tenant.ok("box_delete_skill", name="mine")


def test_a_workspace_imports_no_skill_of_another(tenant, other):
    (other.directory / "package").mkdir()
    (other.directory / "package" / "SKILL.md").write_text(skill("theirs"))
    for path in (other.package, other.directory / "package"):
        message = tenant.error("box_create_skill", skill={"name": "mine", "package_root": str(path)})
        assert message == "BoxValidationError: package_root must stay within the Workspace skill root"
        message = tenant.error("box_scan_skill_directory", path=str(path))
        assert message == "BoxValidationError: scan path must stay within the Workspace skill root"


def test_a_connection_without_headers_does_not_act_in_the_context_of_a_workspace(legacy, tenant):
    tenant.create("s")
    for action, data in [
        ("box_get_sessions", {}),
        ("box_exec", {"session_id": "s", "cmd": "true"}),
        ("box_delete_session", {"session_id": "s"}),
        ("box_list_skills", {}),
        ("__ping", {}),
    ]:
        message = legacy.error(action, data, tenant.context)
        assert message.startswith("PermissionError: Box action context on a connection that names no instance")
    for action in ("box_upsert_sandbox_admission_grant", "box_revoke_sandbox_admission_grant"):
        paper = {"instance_uuid": INSTANCE, "workspace_uuid": tenant.workspace, "entitlement_revision": 1}
        if "grant" in action and "upsert" in action:
            limits = {"max_sessions": 1, "max_managed_processes": 0, "expires_at": "2099-01-01T00:00:00Z"}
            paper |= {"execution_generation": 2, **limits}
        assert legacy.error(action, paper).startswith("PermissionError: Sandbox admission ")
    legacy.ping()
    assert tenant.sessions() == {"s"}


def test_a_host_of_old_sees_its_default_workspace_without_those_of_workspaces(daemon, legacy, other, workspace, name):
    domain = legacy.domain
    default = workspace.parent
    try:
        for spec in ({"host_path": str(default)}, {"host_path": str(default), "host_path_mode": "ro"}):
            assert domain.output(name, "ls tenants; find . -name secret", **spec) == ""
            domain.delete(name)
        extra = [{"host_path": str(daemon.root), "mount_path": "/mnt/root", "mode": "rw"}]
        assert domain.output(name, "find /mnt/root/*/tenants -mindepth 1; echo end", extra_mounts=extra) == "end"
        assert domain.exec(name, "touch /mnt/root/default/tenants/x", extra_mounts=extra)["exit_code"] != 0
        domain.delete(name)
        for path in (workspace, other.directory, other.package):
            for message in refusals(domain, path):
                assert "it belongs to another workspace" in message, path
        (other.directory / "package").mkdir()
        (other.directory / "package" / "SKILL.md").write_text(skill("theirs"))
        message = domain.error("box_create_skill", skill={"name": "old", "package_root": f"{other.directory}/package"})
        assert "it belongs to another workspace" in message
    finally:
        for session in domain.sessions():
            if session.startswith((name, "m")):
                domain.delete(session)


def test_a_host_of_old_sees_no_workspace_that_comes_later(start_daemon, tmp_path):
    root = tmp_path / "box"
    root.mkdir()
    local = {"host_root": str(root), "allowed_mount_roots": [str(root)]}
    daemon = start_daemon(json.dumps({"box": {"local": local}}))
    with Rpc(daemon.port, instance=None) as legacy, Rpc(daemon.port) as rpc:
        legacy.domain.output("old", "touch mine", host_path=str(root / "default"))
        tenant = rpc.tenant("w")
        directory = root / "default" / "tenants" / namespace("w")
        tenant.output("s", "echo theirs > secret", host_path=str(directory))
        assert (directory / "secret").exists()
        assert legacy.domain.output("old", "find . -name secret; ls", host_path=str(root / "default")) == "mine\ntenants"


def test_rest_looks_at_sessions_of_workspaces_and_does_nothing_in_them(daemon, tenant):
    tenant.start("s", "cat")
    id = tenant.physical("s")
    client = daemon.client
    session = f"/v1/sessions/{id}"
    for method, path, body in [
        ("POST", session, {}),
        ("POST", f"/v1/sessions/{id}-new", {}),
        ("POST", f"/v1/sessions/%20{id}-new", {}),
        ("POST", f"{session}/exec", {"cmd": "true"}),
        ("POST", f"{session}/exec", {"cmd": "true", "request_id": "r"}),
        ("POST", f"{session}/exec/stream", {"cmd": "true"}),
        ("GET", f"{session}/files?path=/etc/hostname", None),
        ("PUT", f"{session}/files?path=/tmp/x", b"x"),
        ("DELETE", f"{session}/files?path=/tmp/x", None),
        ("GET", f"{session}/directory?path=/tmp", None),
        ("POST", f"{session}/managed-process", {"command": "true", "process_id": "p"}),
        ("POST", f"{session}/managed-process/default/signal", {"signal": "TERM"}),
    ]:
        reply = client(method, path, body)
        assert (reply.status, reply.code) == (403, "forbidden"), (method, path, reply)
        client.close()  # a body may have been left unread
    assert client("GET", session).json["session_id"] == id
    assert client("GET", f"{session}/usage").status == 200
    assert client("GET", f"{session}/managed-process/default/output").status == 200
    assert tenant.process("s")["status"] == "running"
    assert client("DELETE", session).status == 200
    assert tenant.sessions() == set()
    client.close()


def test_a_relay_without_headers_looks_at_a_workspaces_process_and_writes_nothing(daemon, tenant):
    tenant.start("s", "cat")
    path = f"/v1/sessions/{tenant.physical('s')}/managed-process/default/ws"
    for query in ("", "?attach=wait", "?attach=takeover", "?attach=takeover&attach=observe"):
        with pytest.raises(Refused) as refusal:
            open_socket(daemon.port, path + query, subprotocols=["caisson.v1"])
        assert refusal.value.status in (400, 401, 403), query
    with open_socket(daemon.port, f"{path}?attach=observe", subprotocols=["caisson.v1"]) as relay:
        assert json.loads(relay.recv(60))["type"] == "hello"
