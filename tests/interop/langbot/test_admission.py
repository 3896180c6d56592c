"""Grants for workspaces: who gets one, what it allows, and nothing at all where isolation is not ready."""

import datetime
import json

import pytest

from rest.host import wait_until

from .archives import skill
from .conftest import settings
from .rpc import INSTANCE, Rpc, namespace

CHECKS = [
    "configuration",
    "required_backend",
    "workspace_mount",
    "backend_available",
    "cgroup_v2",
    "namespace_isolation",
    "mount_isolation",
    "network_isolation",
    "hard_workspace_quota",
    "hard_skill_storage_quota",
    "hard_read_only_mount_quota",
    "bounded_ephemeral_storage",
    "inode_quota",
    "session_cap",
    "managed_process_cap",
]
SANDBOX_ACTIONS = [
    ("box_exec", {"session_id": "global", "cmd": "true"}),
    ("box_create_session", {"session_id": "global"}),
    ("box_get_session", {"session_id": "global"}),
    ("box_get_sessions", {}),
    ("box_delete_session", {"session_id": "global"}),
    ("box_start_managed_process", {"session_id": "global", "spec": {"command": "cat"}}),
    ("box_get_managed_process", {"session_id": "global"}),
    ("box_stop_managed_process", {"session_id": "global"}),
]
UPSERT, REVOKE = "box_upsert_sandbox_admission_grant", "box_revoke_sandbox_admission_grant"


def later(seconds):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


def grant(workspace, revision=1, seconds=200, **change):
    values = {
        "instance_uuid": INSTANCE,
        "workspace_uuid": workspace,
        "execution_generation": 1,
        "entitlement_revision": revision,
        "max_sessions": 1,
        "max_managed_processes": 0,
        "expires_at": later(seconds).isoformat(),
    }
    return {**values, **change}


def revocation(workspace, revision=1, **change):
    return {"instance_uuid": INSTANCE, "workspace_uuid": workspace, "entitlement_revision": revision, **change}


def managed(directory, **admission):
    """The configuration of a managed deployment: the native backend under the name that its hosts ask for."""
    box = directory / "box"
    (box / "default").mkdir(parents=True, exist_ok=True)
    return settings(box, native={"answer_as": "nsjail"}, admission={"required": True, **admission})


SOFT = {"LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS": "1"}


@pytest.fixture
def ready(start_daemon, tmp_path):
    """A connection to a daemon that is ready, with soft limits of storage where the host has no hard ones."""
    daemon = start_daemon(managed(tmp_path), env=SOFT)
    shown = daemon.client("GET", "/readyz").json
    assert shown["ready"], shown
    with Rpc(daemon.port) as rpc:
        rpc.daemon = daemon
        yield rpc


@pytest.fixture
def unready(start_daemon):
    """Without a workspace that could be managed, and under a name that nobody asks for."""
    with Rpc(start_daemon(json.dumps({"box": {"admission": {"required": True}}})).port) as rpc:
        yield rpc


# Readiness.


def test_readiness_names_every_check(start_daemon, tmp_path):
    daemon = start_daemon(managed(tmp_path), env=SOFT)
    answer = daemon.client("GET", "/readyz")
    shown = answer.json
    assert answer.status == (200 if shown["ready"] else 503)
    assert shown["mode"] == "grant_enforced"
    assert [*shown["checks"]] == CHECKS
    assert shown["ready"] is all(shown["checks"].values())
    assert shown["unsafe_soft_storage_limits"] is True
    assert shown["backend"]["name"] == "nsjail" and isinstance(shown["backend"]["details"], dict)
    assert "resources" in shown
    with Rpc(daemon.port) as rpc:
        info = rpc.ok("box_get_backend_info")
        assert (info["name"], info["available"]) == ("nsjail", shown["ready"])
        assert info["readiness"]["checks"] == shown["checks"]


def test_nothing_runs_where_isolation_is_not_ready(unready):
    tenant = unready.tenant("w")
    unready.ok(UPSERT, grant("w"))
    for action, data in SANDBOX_ACTIONS:
        message = tenant.error(action, **data)
        assert message.startswith("BoxReadinessError: Managed sandbox isolation is not ready (failed checks: ")
        failed = message.removesuffix(")").partition("failed checks: ")[2].split(", ")
        assert {"required_backend", "workspace_mount"} <= set(failed) <= set(CHECKS)
    info = unready.ok("box_get_backend_info")
    assert info["available"] is False and info["readiness"]["ready"] is False
    assert unready.error("box_health") == "BoxReadinessError: managed sandbox isolation is not ready"


def test_a_host_that_is_not_ready_says_so_to_probes(start_daemon):
    daemon = start_daemon(json.dumps({"box": {"admission": {"required": True}}}))
    answer = daemon.client("GET", "/readyz")
    assert (answer.status, answer.json["ready"]) == (503, False)
    assert daemon.client("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "admission",
    [{"required": True, "unknown": 1}, {"required": True, "max_sessions": 2}, {"logical_session_id": "x"}, [], "x"],
    ids=["unknown", "max_sessions", "logical_session_id", "list", "text"],
)
def test_a_broken_policy_refuses_everything(start_daemon, admission):
    with Rpc(start_daemon().port) as rpc:
        rpc.ok("box_init", {"admission": admission})
        message = rpc.error(UPSERT, grant("w"))
        assert message.startswith("BoxReadinessError: Invalid sandbox admission configuration: ")
        assert rpc.tenant("w").error("box_create_session", session_id="global").startswith("BoxReadinessError: ")


def test_admission_cannot_be_switched_off_again(unready):
    unready.ok("box_init", {"admission": {"required": False}})
    message = unready.error(UPSERT, grant("w"))
    sentence = "Sandbox admission enforcement cannot be disabled without restarting the Box Runtime"
    assert message == f"BoxReadinessError: Invalid sandbox admission configuration: {sentence}"


# Grants.


def test_without_admission_there_are_no_grants(rpc):
    expected = "BoxAdmissionError: Sandbox admission enforcement is not enabled"
    assert rpc.error(UPSERT, grant("w")) == expected
    assert rpc.error(REVOKE, revocation("w")) == expected


def test_a_grant_is_installed_and_shown(unready):
    wanted = grant("w", 7)
    answer = unready.ok(UPSERT, wanted)
    assert [*answer] == [
        "installed",
        "workspace_uuid",
        "execution_generation",
        "entitlement_revision",
        "max_sessions",
        "max_managed_processes",
        "expires_at",
    ]
    assert answer == {"installed": True, **{name: wanted[name] for name in answer if name != "installed"}}


@pytest.mark.parametrize("form", ["Z", "space", "seconds", "milliseconds", "digits", "offset"])
def test_forms_of_the_time_of_expiry(unready, form):
    moment = later(100).replace(microsecond=0)
    forms = {
        "Z": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "space": moment.strftime("%Y-%m-%d %H:%M:%S+00:00"),
        "seconds": int(moment.timestamp()),
        "milliseconds": int(moment.timestamp() * 1000),
        "digits": str(int(moment.timestamp())),
        "offset": (moment + datetime.timedelta(hours=2))
        .strftime("%Y-%m-%dT%H:%M:%S+02:00")
        .replace("+00:00", "+02:00"),
    }
    shown = unready.ok(UPSERT, grant("w", expires_at=forms[form]))["expires_at"]
    assert shown.endswith("+00:00") and datetime.datetime.fromisoformat(shown) == moment


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"workspace_uuid": " "}, "must not be empty"),
        ({"execution_generation": 0}, ""),
        ({"entitlement_revision": "1"}, "must be an integer"),
        ({"entitlement_revision": True}, "must be an integer"),
        ({"max_sessions": 1.0}, "must be an integer"),
        ({"max_sessions": -1}, ""),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at must include a timezone"),
        ({"expires_at": "soon"}, ""),
        ({"unknown": 1}, ""),
    ],
)
def test_bad_grants(unready, change, sentence):
    message = unready.error(UPSERT, grant("w", **change))
    assert message.startswith("BoxValidationError: ") and sentence in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"instance_uuid": "other"},
            "PermissionError: Sandbox admission grant does not match the trusted instance",
        ),
        (
            {"seconds": -1},
            "BoxAdmissionError: Cannot install an expired sandbox admission grant",
        ),
        (
            {"seconds": 4000},
            "BoxAdmissionError: Sandbox admission grant lifetime exceeds the configured maximum",
        ),
        ({"max_sessions": 2}, "BoxAdmissionError: Sandbox admission grant exceeds the session cap"),
        ({"max_managed_processes": 1}, "BoxAdmissionError: Sandbox admission grant exceeds the managed-process cap"),
    ],
)
def test_grants_that_are_refused(unready, change, message):
    unready.ping()
    assert unready.error(UPSERT, grant("w", **change)) == message


def test_revisions_only_grow(unready):
    first = unready.ok(UPSERT, grant("w", 5, execution_generation=2, seconds=100))
    refusal = "BoxAdmissionError: Sandbox admission "
    assert unready.error(UPSERT, grant("w", 4, execution_generation=2)) == refusal + "grant revision is stale"
    assert unready.error(UPSERT, grant("w", 6, execution_generation=1)) == refusal + "execution generation is stale"
    changed = grant("w", 5, execution_generation=2, max_sessions=0)
    assert unready.error(UPSERT, changed) == refusal + "limits changed without a new entitlement revision"
    assert unready.ok(UPSERT, grant("w", 5, execution_generation=2, seconds=50)) == first
    longer = unready.ok(UPSERT, grant("w", 5, execution_generation=2, seconds=200))
    assert longer["expires_at"] > first["expires_at"]
    assert unready.ok(UPSERT, grant("w", 6, execution_generation=2, max_sessions=0))["max_sessions"] == 0


def test_revocations(unready):
    unready.ok(UPSERT, grant("w", 5))
    answer = unready.ok(REVOKE, revocation("w", 6))
    assert answer == {"revoked": True, "workspace_uuid": "w", "entitlement_revision": 6}
    refusal = "BoxAdmissionError: Sandbox admission "
    assert unready.error(UPSERT, grant("w", 6)) == refusal + "grant revision was revoked"
    assert unready.error(REVOKE, revocation("w", 5)) == refusal + "revocation is stale"
    assert unready.ok(REVOKE, revocation("w", 6))["revoked"] is True
    assert unready.ok(UPSERT, grant("w", 7))["installed"] is True
    assert unready.ok(REVOKE, revocation("never seen", 3))["revoked"] is True
    other = unready.error(REVOKE, revocation("w", 8, instance_uuid="other"))
    assert other == "PermissionError: Sandbox admission revocation does not match the trusted instance"
    assert unready.error(REVOKE, revocation("w", "8")).startswith("BoxValidationError: ")


def test_the_number_of_records_is_bounded(start_daemon):
    config = {"box": {"admission": {"required": True}, "limits": {"max_admission_records": 2}}}
    with Rpc(start_daemon(json.dumps(config)).port) as rpc:
        for number in range(2):
            rpc.ok(UPSERT, grant(f"w{number}"))
        full = "Sandbox admission record capacity reached; refusing an unbounded Workspace fence allocation"
        assert rpc.error(UPSERT, grant("w2")) == f"BoxAdmissionError: {full}"
        assert rpc.error(REVOKE, revocation("w2")) == f"BoxAdmissionError: {full}"
        rpc.ok(UPSERT, grant("w1", 2))


# What a grant allows.


def refusal(tenant, action="box_create_session", **data):
    message = tenant.error(action, **{"session_id": "global", **data})
    assert message.startswith("BoxAdmissionError: "), message
    return message.removeprefix("BoxAdmissionError: ")


def test_without_a_grant_nothing_runs(ready):
    tenant = ready.tenant("w")
    for action, data in SANDBOX_ACTIONS:
        assert refusal(tenant, action, **data) == "Sandbox admission grant is missing"
    tenant.ok("box_status")
    tenant.ok("box_list_skills")


def test_a_session_is_what_the_policy_says(ready, tmp_path):
    tenant = ready.tenant("w")
    ready.ok(UPSERT, grant("w"))
    made = tenant.ok(
        "box_create_session", session_id="anything", cpus=7, memory_mb=4096, image="other", persistent=False
    )
    workspace = tmp_path / "box" / "default" / "tenants" / namespace("w")
    assert made["session_id"] == "global"
    assert (made["cpus"], made["memory_mb"], made["pids_limit"], made["persistent"]) == (1.0, 512, 128, True)
    assert (made["image"], made["host_path"]) == ("rockchin/langbot-sandbox:latest", str(workspace))
    assert tenant.output("global", "echo x > file; pwd") == "/workspace"
    assert (workspace / "file").read_text() == "x\n"
    assert tenant.sessions() == {"global"}
    assert tenant.output("global", "echo again", host_path=str(workspace)) == "again"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"network": "on"}, "Managed sandbox network access is disabled"),
        (
            {"extra_mounts": [{"host_path": "/srv", "mount_path": "/m"}], "skill_name": None},
            "Managed sandbox additional host mounts are disabled",
        ),
        (
            {"extra_mounts": [{"host_path": "/srv", "mount_path": "/workspace/m"}]},
            "Managed sandbox additional mounts must be read-only",
        ),
        (
            {"extra_mounts": [{"host_path": "/srv", "mount_path": "/m", "mode": "ro"}]},
            "Managed sandbox additional mount targets must stay under /workspace",
        ),
        (
            {"extra_mounts": [{"host_path": "/srv", "mount_path": "/workspace/m", "mode": "ro"}] * 2},
            "Managed sandbox additional mount targets must be unique",
        ),
        ({"mount_path": "/m"}, "Managed sandbox mount_path is runtime-owned"),
        ({"workdir": "/tmp"}, "Managed sandbox workdir must stay under /workspace"),
        ({"host_path": "/srv"}, "Managed sandbox host_path is runtime-owned"),
        ({"skill_name": "absent"}, "Managed sandbox skill is unavailable in this Workspace"),
    ],
)
def test_what_a_managed_sandbox_must_not_ask_for(ready, spec, sentence):
    ready.ok(UPSERT, grant("w"))
    assert refusal(ready.tenant("w"), "box_exec", cmd="true", **spec) == sentence


def test_read_only_mounts_are_admitted_and_stay_read_only(ready, tmp_path):
    ready.ok(UPSERT, grant("w"))
    tenant = ready.tenant("w")
    root = tmp_path / "box"
    shared = root / "shared"
    shared.mkdir()
    (shared / "file").write_text("shown")
    mounts = [{"host_path": str(shared), "mount_path": "/workspace/shared", "mode": "ro"}]
    script = "cat shared/file; touch shared/new 2>/dev/null || echo kept"
    assert tenant.output("global", script, extra_mounts=mounts) == "shownkept"
    other = root / "default" / "tenants" / namespace("x")
    other.mkdir(parents=True)
    mounts = [{"host_path": str(other), "mount_path": "/workspace/other", "mode": "ro"}]
    assert tenant.error("box_exec", session_id="global", cmd="true", extra_mounts=mounts).startswith("Box")


def test_without_a_grant_there_is_room_for_no_session(ready):
    assert ready.tenant("w").ok("box_status")["capacity"] == {"limit": 0, "used": 0, "remaining": 0}
    ready.ok(UPSERT, grant("w"))
    assert ready.tenant("w").ok("box_status")["capacity"] == {"limit": 1, "used": 0, "remaining": 1}


def test_other_sessions_and_processes_are_refused(ready):
    ready.ok(UPSERT, grant("w"))
    tenant = ready.tenant("w")
    for action in ("box_get_session", "box_delete_session"):
        assert refusal(tenant, action, session_id="other") == "Managed sandbox session_id is runtime-owned"
    tenant.create("global")
    message = refusal(tenant, "box_start_managed_process", spec={"command": "cat"})
    assert message == "Sandbox admission grant does not permit managed processes"


def test_a_grant_ends(ready):
    tenant = ready.tenant("w")
    ready.ok(UPSERT, grant("w"))
    tenant.create("global")
    ready.ok(UPSERT, grant("w", 2, seconds=5))
    expired = "Sandbox admission grant has expired"
    missing = "Sandbox admission grant is missing"
    wait_until(lambda: ready.call("box_get_sessions", {}, tenant.context)["code"] == 1, "the end of the grant")
    assert refusal(tenant, "box_get_sessions") in (expired, missing)
    wait_until(
        lambda: ready.daemon.client("GET", "/healthz").json["resources"]["sessions"] == 0, "the end of the session"
    )


def test_a_revocation_ends_the_session(ready):
    tenant = ready.tenant("w")
    ready.ok(UPSERT, grant("w"))
    tenant.create("global")
    ready.ok(REVOKE, revocation("w"))
    assert ready.daemon.client("GET", "/healthz").json["resources"]["sessions"] == 0
    assert refusal(tenant, "box_get_sessions") == "Sandbox admission grant is missing"


def test_grants_of_another_generation_and_of_no_sessions(ready):
    ready.ok(UPSERT, grant("w", execution_generation=2))
    another = "Sandbox admission grant belongs to another execution generation"
    for generation in (1, 3):
        assert refusal(ready.tenant("w", generation)) == another
    ready.tenant("w", 2).create("global")
    ready.ok(UPSERT, grant("w", 2, execution_generation=2, max_sessions=0))
    assert refusal(ready.tenant("w", 2)) == "Sandbox admission grant does not permit sessions"
    assert ready.daemon.client("GET", "/healthz").json["resources"]["sessions"] == 0


def test_a_grant_advances_the_fence(ready):
    ready.tenant("w").ok("box_status")
    ready.ok(UPSERT, grant("w", execution_generation=4))
    assert ready.tenant("w").error("box_status") == "PermissionError: Stale Box placement generation"


def test_a_skill_is_mounted_by_name(ready, tmp_path):
    tenant = ready.tenant("w")
    ready.ok(UPSERT, grant("w"))
    made = tenant.ok("box_create_skill", skill={"name": "tool", "instructions": "Use it."})["skill"]
    assert made["instructions"].strip() == "Use it." and skill("tool")
    assert "Use it." in tenant.output("global", "cat .skills/tool/SKILL.md", skill_name="tool")
    assert tenant.exec("global", "touch .skills/tool/x", skill_name="tool")["exit_code"] != 0


def test_the_time_of_a_command_is_limited(start_daemon, tmp_path):
    daemon = start_daemon(managed(tmp_path, max_timeout_sec=1), env=SOFT)
    with Rpc(daemon.port) as rpc:
        rpc.ok(UPSERT, grant("w"))
        assert rpc.tenant("w").exec("global", "sleep 600", timeout_sec=500)["status"] == "timed_out"


# The marker of a shared volume.


def test_the_marker_of_a_shared_volume(rpc, daemon):
    rpc.ok("box_init", {"local": {"host_root": str(daemon.root)}})
    name = ".langbot-box-volume-probe-" + "0a" * 16
    place = daemon.root / "default" / name
    verify = "box_verify_shared_workspace"
    missing = "BoxReadinessError: Box Runtime cannot read the Core shared Workspace probe"
    assert rpc.error(verify, {"marker_name": name}) == missing
    place.write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert rpc.ok(verify, {"marker_name": name}) == {"marker_name": name, "sha256": digest, "size": 3}
    for size in (0, 1025):
        place.write_bytes(b"x" * size)
        assert rpc.error(verify, {"marker_name": name}).startswith("BoxReadinessError: ")
    place.unlink()
    place.symlink_to("/etc/hostname")
    assert rpc.error(verify, {"marker_name": name}).startswith("BoxReadinessError: ")
    place.unlink()
    for bad in ("../x", name.upper(), name + "0", ""):
        message = rpc.error(verify, {"marker_name": bad})
        assert message == "BoxReadinessError: Invalid Box shared Workspace probe basename"
