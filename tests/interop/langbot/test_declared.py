"""What released SDKs declare is known to the daemon. What is not is listed by its name.

CAISSON_LANGBOT_SDK names one more release, "newest" or a version, which is fetched from PyPI.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from rest.daemon import PROGRAM, ROOT

from .conftest import settings
from .paths import names_in
from .rpc import INSTANCE, Refused, Rpc, open_socket, physical
from .runtimes import HERE, VERSIONS, interpreter

VARIABLE = "CAISSON_LANGBOT_SDK"
TOKEN = "a-control-token-for-tests-of-declarations"
MARKER = ".langbot-box-volume-probe-" + "0" * 32
SESSION = {"session_id": "global"}
PROCESS = {"session_id": "global", "process_id": "default"}
WRONG = [{}]  # what no field takes
UNKNOWN = "of_tomorrow"
GRANT = {
    "instance_uuid": INSTANCE,
    "workspace_uuid": "declared",
    "execution_generation": 1,
    "entitlement_revision": 1,
    "max_sessions": 1,
    "max_managed_processes": 0,
}


def grant():
    expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=200)
    return {**GRANT, "expires_at": expires.isoformat()}


REVOCATION = {name: GRANT[name] for name in ("instance_uuid", "workspace_uuid", "entitlement_revision")}
# A skill has no place in a host of 0.7, whose runtime is not asked for one.
SKILL = {"name": "declared", "description": "d", "instructions": "i"}


def conversations(directory):
    """Requests whose answers are compared, with a runtime that needs no grants, and with one that does."""
    local = {"host_root": str(directory), "allowed_mount_roots": [str(directory)]}
    plain = [
        ["box_init", {"local": local}],
        ["box_health", {}],
        ["box_get_backend_info", {}],
        ["box_verify_shared_workspace", {"marker_name": MARKER}],
        ["box_create_session", SESSION],
        ["box_exec", {**SESSION, "cmd": "true"}],
        ["box_start_managed_process", {**SESSION, "spec": {"command": "cat"}}],
        ["box_get_session", SESSION],
        ["box_get_sessions", {}],
        ["box_get_managed_process", PROCESS],
        ["box_status", {}],
        ["box_get_storage_analysis", {}],
        ["box_stop_managed_process", PROCESS],
        ["box_delete_session", SESSION],
        ["box_create_skill", {"skill": SKILL}],
        ["box_list_skills", {}],
        ["box_get_skill", {"name": "declared"}],
        ["box_update_skill", {"name": "declared", "skill": SKILL}],
        ["box_write_skill_file", {"name": "declared", "path": "x", "content": "x"}],
        ["box_list_skill_files", {"name": "declared"}],
        ["box_read_skill_file", {"name": "declared", "path": "x"}],
        ["box_delete_skill", {"name": "declared"}],
        ["box_shutdown", {}],
    ]
    managed = [
        ["box_init", {"local": local, "admission": {"required": True}}],
        ["box_get_backend_info", {}],
        ["box_upsert_sandbox_admission_grant", grant()],
        ["box_revoke_sandbox_admission_grant", REVOCATION],
    ]
    return [plain, managed]


def fetch(release):
    """The interpreter of an environment with this release and whatever it depends on."""
    place = ROOT / "build" / "langbot-sdk" / f"asked-for-{release}"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    wanted = "langbot-plugin" if release == "newest" else f"langbot-plugin=={release}"
    command = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--quiet", wanted]
    subprocess.run(command, check=True)
    return str(place / "bin" / "python")


def prepared(directory):
    (directory / "default").mkdir(parents=True)
    (directory / "default" / MARKER).write_text("marker")
    return directory


@pytest.fixture(scope="module", params=[*VERSIONS, *filter(None, [os.environ.get(VARIABLE)])])
def sdk(request, tmp_path_factory):
    """What an SDK declares."""
    version = request.param
    python = interpreter(version) if version in VERSIONS else fetch(version)
    directory = tmp_path_factory.mktemp("sdk")
    asked = json.dumps(conversations(prepared(directory / "box")))
    command = [python, str(HERE / "declared.py"), asked]
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def host(daemon):
    with Rpc(daemon.port) as rpc:
        yield rpc.tenant("declared")


def message_of(tenant, action, data):
    """Why it is refused; empty when it is not."""
    answer = tenant.rpc.call(action, data, tenant.context)
    return answer["message"] if answer["code"] else ""


def unknown_fields(fields, refusal_of):
    """Those with a wrong value that are treated as one that nobody knows: ignored, or refused in the same words."""
    unknown = refusal_of(UNKNOWN)
    return [name for name in fields if refusal_of(name).replace(name, UNKNOWN) == unknown]


def expect_none(names, what):
    """All of them are listed, whatever pytest would leave out."""
    if names := sorted(names):
        pytest.fail(f"{what}: {', '.join(names)}", pytrace=False)


def within(found):
    """{"a": ["b"]} has a.b."""
    return [f"{outer}.{inner}" for outer, names in found.items() for inner in names]


def test_every_action_is_answered(sdk, host):
    unknown = [name for name in sdk["actions"] if message_of(host, name, {}).endswith(f"Action {name} not found")]
    assert message_of(host, UNKNOWN, {}).endswith(f"Action {UNKNOWN} not found")
    expect_none(unknown, "actions that the daemon does not know")


def test_every_field_of_a_request_is_read(sdk, host, daemon):
    host.create("fields")
    mount = {"host_path": str(daemon.root), "mount_path": "/tmp/x"}
    readers = {
        "BoxSpec": lambda name: message_of(host, "box_create_session", {"session_id": "fields", name: WRONG}),
        "BoxMountSpec": lambda name: message_of(
            host, "box_create_session", {"session_id": "mounts", "extra_mounts": [{**mount, name: WRONG}]}
        ),
        "BoxManagedProcessSpec": lambda name: message_of(
            host, "box_start_managed_process", {"session_id": "fields", "spec": {"command": "true", name: WRONG}}
        ),
        "SandboxAdmissionGrant": lambda name: message_of(
            host, "box_upsert_sandbox_admission_grant", {**grant(), name: WRONG}
        ),
        "SandboxAdmissionRevocation": lambda name: message_of(
            host, "box_revoke_sandbox_admission_grant", {**REVOCATION, name: WRONG}
        ),
    }
    unknown = {model: unknown_fields(sdk["models"].get(model, ()), reader) for model, reader in readers.items()}
    host.clear()
    expect_none(within(unknown), "fields that the daemon does not read")


def test_every_field_of_a_policy_is_read(sdk, start_daemon):
    with Rpc(start_daemon().port) as rpc:

        def refusal_of(name):
            rpc.ok("box_init", {"admission": {"required": True, name: WRONG}})
            return rpc.error("box_upsert_sandbox_admission_grant", grant())

        unknown = unknown_fields(sdk["models"].get("SandboxAdmissionPolicy", ()), refusal_of)
    expect_none(unknown, "fields of policies that the daemon does not read")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("BoxNetworkMode", lambda value: {"network": value}),
        ("BoxHostMountMode", lambda value: {"host_path_mode": value}),
    ],
    ids=["network", "mounts"],
)
def test_every_choice_of_a_field_is_taken(sdk, host, kind, fields):
    refused = [
        value
        for value in sdk["choices"][kind]
        if message_of(host, "box_create_session", {"session_id": value, **fields(value)})
    ]
    host.clear()
    expect_none(refused, f"values of {kind} that the daemon does not take")


def test_every_choice_of_an_answer_is_known(sdk):
    """New ones are to be looked at."""
    known = {
        "BoxNetworkMode": {"on", "off"},
        "BoxHostMountMode": {"none", "ro", "rw"},
        "BoxExecutionStatus": {"completed", "timed_out"},
        "BoxManagedProcessStatus": {"running", "exited"},
    }
    new = {name: {*values} - known.get(name, set()) for name, values in sdk["choices"].items()}
    expect_none(within(new), "values that nobody has looked at")


def test_answers_have_all_that_the_sdks_own_runtime_tells(sdk, start_daemon, tmp_path):
    missing = {}
    for requests, answers in zip(conversations(prepared(tmp_path / "box")), sdk["answers"], strict=True):
        with Rpc(start_daemon(settings(tmp_path / "box")).port) as rpc:
            tenant = rpc.tenant("declared")
            for (action, data), names in zip(requests, answers, strict=True):
                told = rpc.call(action, data, tenant.context)
                if names is None:
                    continue
                assert told["code"] == 0, (action, told)
                missing.setdefault(action, set()).update({*names} - {*names_in(told["data"])})
    expect_none(within(missing), "what the daemon does not tell")


def test_answers_have_every_field_of_their_models(sdk, host):
    answers = {
        "BoxSessionInfo": host.create("models"),
        "BoxExecutionResult": host.exec("models", "true"),
        "BoxManagedProcessInfo": host.start("models", "cat"),
    }
    host.delete("models")
    missing = {model: {*sdk["models"][model]} - {*answer} for model, answer in answers.items()}
    expect_none(within(missing), "fields that the daemon does not give")


def provoke_capacity(start_daemon):
    with Rpc(start_daemon("box: {limits: {max_sessions: 0}}").port) as rpc:
        return rpc.tenant("w").error("box_create_session", session_id="s")


def provoke_unavailability(start_daemon):
    with Rpc(start_daemon().port) as rpc:
        rpc.ok("box_init", {"backend": "docker"})
        return rpc.tenant("w").error("box_create_session", session_id="s")


def provoke_admission(start_daemon):
    with Rpc(start_daemon().port) as rpc:
        return rpc.error("box_upsert_sandbox_admission_grant", {**GRANT, "expires_at": "2020-01-01T00:00:00Z"})


def provoke_readiness(start_daemon):
    with Rpc(start_daemon("box: {admission: {required: true}}").port) as rpc:
        return rpc.error("box_health")


def provoke_conflict(tenant):
    tenant.create("s")
    return tenant.error("box_create_session", session_id="s", memory_mb=64)


def provoke_process_conflict(tenant):
    """Only attaching to one that has ended is."""
    tenant.shell("s", "true")
    tenant.ended("s")
    with pytest.raises(Refused) as refusal:
        tenant.relay("s")
    return f"{refusal.value.error['code']}: "


def provoke_missing_process(tenant):
    tenant.create("s")
    return tenant.error("box_get_managed_process", session_id="s")


WITH_A_DAEMON = {
    "BoxAdmissionError": provoke_admission,
    "BoxBackendUnavailableError": provoke_unavailability,
    "BoxCapacityExceededError": provoke_capacity,
    "BoxReadinessError": provoke_readiness,
}
WITH_A_TENANT = {
    "BoxManagedProcessConflictError": provoke_process_conflict,
    "BoxManagedProcessNotFoundError": provoke_missing_process,
    "BoxSessionConflictError": provoke_conflict,
    "BoxSessionNotFoundError": lambda tenant: tenant.error("box_get_session", session_id="absent"),
    "BoxValidationError": lambda tenant: tenant.error("box_exec", session_id="s", cmd=" "),
}
# The base of all of them, and what a client says who has no connection.
NEVER_SENT = {"BoxError", "BoxRuntimeUnavailableError"}


def test_every_class_of_errors_is_known(sdk):
    known = {*WITH_A_DAEMON, *WITH_A_TENANT} | NEVER_SENT
    expect_none({*sdk["errors"]} - known, "errors that the daemon does not know")


@pytest.mark.parametrize("kind", WITH_A_DAEMON)
def test_a_failure_of_the_runtime_comes_as_its_class(start_daemon, kind):
    assert WITH_A_DAEMON[kind](start_daemon).startswith(f"{kind}: ")


@pytest.mark.parametrize("kind", WITH_A_TENANT)
def test_a_failure_of_a_request_comes_as_its_class(tenant, kind):
    assert WITH_A_TENANT[kind](tenant).startswith(f"{kind}: ")


NAMES = {
    "LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS",
    "LANGBOT_BOX_CONFIG",
    "LANGBOT_BOX_CONTROL_TOKEN",
    "LANGBOT_BOX_TRUSTED_INSTANCE_UUID",
    "X-LangBot-Box-Control-Token",
    "X-LangBot-Instance-Id",
    "X-LangBot-Placement-Generation",
    "X-LangBot-Workspace-Id",
}


# What the backend without isolation gives to commands in the place of a directory /workspace.
OF_COMMANDS = {"LANGBOT_BOX_WORKSPACE"}


def test_every_header_and_variable_is_known(sdk):
    expect_none({*sdk["names"]} - NAMES - OF_COMMANDS, "headers and variables that nobody has looked at")


def test_headers_and_variables_have_an_effect(start_daemon):
    env = {
        "LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS": "1",
        "LANGBOT_BOX_CONFIG": json.dumps({"limits": {"max_sessions": 7}}),
        "LANGBOT_BOX_CONTROL_TOKEN": TOKEN,
        "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE,
    }
    port = start_daemon(env=env).port
    for instance, token in ((INSTANCE, None), (INSTANCE, "x" * 40), ("another", TOKEN)):
        with pytest.raises(Refused):
            Rpc(port, instance, token)
    with Rpc(port, token=TOKEN) as rpc:
        tenant = rpc.tenant("w")
        assert tenant.ok("box_status")["limits"]["max_sessions"] == 7
        tenant.start("s", "cat")
        path = f"/v1/sessions/{physical('w', 's')}/managed-process/default/ws"
        headers = {**tenant.relay_headers(), "X-LangBot-Box-Control-Token": TOKEN}
        for name in headers:
            with pytest.raises(Refused):
                open_socket(port, path, {other: headers[other] for other in headers if other != name})
        open_socket(port, path, headers).close()
        tenant.delete("s")
        rpc.ok("box_init", {"admission": {"required": True}})
        assert rpc.ok("box_get_backend_info")["readiness"]["unsafe_soft_storage_limits"] is True
        assert {*env, *headers} == NAMES


# Of a profile, what a session of it shows.
SHOWN = (
    "image", "network", "host_path_mode", "cpus", "memory_mb", "pids_limit", "read_only_rootfs", "workspace_quota_mb"
)  # fmt: skip
PROFILE = {*SHOWN, "name", "timeout_sec", "max_timeout_sec", "locked"}
# LangBot applies its profiles itself; who asks us for none gets no network.
ON_PURPOSE = {"default.network is off"}


def with_profile(daemon, profile, *options):
    """A session of it, as the daemon shows it, and which options the profile decided."""
    command = [PROGRAM, "exec", "--state", daemon.state, "-s", "profile", "--profile", profile, *options]
    done = subprocess.run([*command, "--", "true"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    shown = daemon.client.get("profile").json
    daemon.client.delete("profile")
    return shown, {*re.findall(r"the profile \w+ decides about (\w+)", done.stderr)}


def test_profiles_are_those_of_the_sdk(sdk, daemon):
    """Up to 0.5 the network of the default one was off."""
    expect_none({*sdk["models"]["BoxProfile"]} - PROFILE, "fields of profiles that nobody has looked at")
    help_text = subprocess.run([PROGRAM, "exec", "--help"], capture_output=True, text=True, timeout=60).stdout
    expect_none([name for name in sdk["profiles"] if not re.search(rf"\b{name}\b", help_text)], "unknown profiles")
    other = {}
    for name, profile in sdk["profiles"].items():
        contrary = ["--network", "off" if profile["network"] == "on" else "on"]
        contrary += ["--writable"] if profile["read_only_rootfs"] else []
        shown, _ = with_profile(daemon, name, "--timeout", str(profile["max_timeout_sec"]))
        _, decided = with_profile(daemon, name, "--timeout", str(profile["max_timeout_sec"] + 1), *contrary)
        found = {field: shown[field] for field in SHOWN}
        found["decided"] = decided
        wanted = {field: profile[field] for field in SHOWN}
        wanted["decided"] = {"timeout_sec"} | ({"network", "read_only_rootfs"} & {*profile["locked"]})
        other[name] = [f"{field} is {found[field]}" for field in wanted if found[field] != wanted[field]]
    expect_none({*within(other)} - ON_PURPOSE, "values of profiles that are others")
