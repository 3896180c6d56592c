"""The wire as it was captured: requests and answers byte for byte, where they are not numbers of the moment."""

import json
import re

import pytest

from .rpc import CHUNK, Rpc, Stdio

CONTEXT = '{"instance_uuid": "inst", "workspace_uuid": "ws", "placement_generation": 1}'
PHYSICAL = "ws-108378aeed2d7cca4480d35e-g1"


@pytest.fixture(scope="module")
def wire(daemon):
    with Rpc(daemon.port) as connection:
        yield connection


def success(seq, data):
    return f'{{"seq_id": {seq}, "code": 0, "message": "success", "data": {data}, "chunk_status": "continue"}}'


def failure(seq, message):
    return f'{{"seq_id": {seq}, "code": 1, "message": "{message}", "data": {{}}, "chunk_status": "continue"}}'


def test_ping(wire):
    assert wire.raw('{"seq_id": 1, "action": "__ping", "data": {}}') == success(1, "{}")


def test_init(wire, daemon):
    limits = '"limits": {"max_sessions": 64}'
    request = f'{{"backend": "", {limits}, "local": {{"host_root": "{daemon.root}"}}}}'
    assert wire.raw(f'{{"seq_id": 2, "action": "box_init", "data": {request}}}') == success(2, '{"initialized": true}')


def test_an_unknown_action(wire):
    answer = wire.raw('{"seq_id": 3, "action": "nope", "data": {}}')
    assert answer == failure(3, "ValueError: Action nope not found")


def test_a_status_without_a_context(wire):
    answer = wire.raw('{"seq_id": 6, "action": "box_status", "data": {}}')
    assert answer == failure(6, "PermissionError: Box tenant action requires a trusted Workspace context")


def test_a_status(start_daemon):
    limits = (
        '"limits": {"max_sessions": 64, "max_managed_processes": 64, "max_completed_processes": 256, '
        '"max_admission_records": 100000, "max_rpc_file_bytes": 20971520}'
    )
    backend = '"backend": {"name": "native", "available": true}'
    counts = '"active_sessions": 0, "managed_processes": 0, "session_ttl_sec": 300'
    capacity = '"capacity": {"limit": 64, "used": 0, "remaining": 64}'
    with Rpc(start_daemon().port) as wire:
        answer = wire.raw(f'{{"seq_id": 7, "action": "box_status", "data": {{}}, "context": {CONTEXT}}}')
    assert answer == success(7, f"{{{backend}, {counts}, {limits}, {capacity}}}")


def masked(answer):
    """With every number of the moment as N."""
    answer = re.sub(r'"duration_ms": \d+', '"duration_ms": N', answer)
    return re.sub(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z"', '"N"', answer)


def test_an_exec(wire):
    data = '{"session_id": "s1", "cmd": "echo hi; echo err >&2; exit 3"}'
    answer = wire.raw(f'{{"seq_id": 17, "action": "box_exec", "data": {data}, "context": {CONTEXT}}}')
    assert masked(answer) == success(
        17,
        '{"session_id": "s1", "backend_name": "native", "status": "completed", "exit_code": 3, "stdout": "hi", '
        '"stderr": "err", "duration_ms": N}',
    )


def test_a_conflict(wire):
    data = '{"session_id": "s1", "cmd": "x", "network": "on"}'
    answer = wire.raw(f'{{"seq_id": 24, "action": "box_exec", "data": {data}, "context": {CONTEXT}}}')
    message = f"BoxSessionConflictError: Box session {PHYSICAL}-s1 already exists with network=off"
    assert answer == failure(24, message)


def test_a_time_limit(wire):
    data = '{"session_id": "s1", "cmd": "echo partial; sleep 60", "timeout_sec": 3}'
    answer = wire.raw(f'{{"seq_id": 34, "action": "box_exec", "data": {data}, "context": {CONTEXT}}}')
    assert masked(answer) == success(
        34,
        '{"session_id": "s1", "backend_name": "native", "status": "timed_out", "exit_code": null, '
        '"stdout": "partial", "stderr": "Command timed out after 3 seconds.", "duration_ms": N}',
    )


def test_a_process(wire):
    wire.ok("box_create_session", {"session_id": "s2"}, json.loads(CONTEXT))
    data = '{"session_id": "s2", "spec": {"process_id": "p2", "command": "sh", "args": ["-c", "exit 7"]}}'
    answer = wire.raw(f'{{"seq_id": 54, "action": "box_start_managed_process", "data": {data}, "context": {CONTEXT}}}')
    assert masked(answer) == success(
        54,
        '{"session_id": "s2", "process_id": "p2", "status": "running", "command": "sh", "args": ["-c", "exit 7"], '
        '"cwd": "/workspace", "env_keys": [], "attached": false, "started_at": "N", "exited_at": null, '
        '"exit_code": null, "stderr_preview": ""}',
    )


def test_a_session(wire):
    data = '{"session_id": "s3"}'
    answer = wire.raw(f'{{"seq_id": 60, "action": "box_create_session", "data": {data}, "context": {CONTEXT}}}')
    answer = re.sub(r'"backend_session_id": "[^"]+"', '"backend_session_id": "N"', masked(answer))
    assert answer == success(
        60,
        '{"session_id": "s3", "backend_name": "native", "backend_session_id": "N", '
        '"image": "rockchin/langbot-sandbox:latest", "network": "off", "host_path": null, "host_path_mode": "rw", '
        '"mount_path": "/workspace", "persistent": false, "cpus": 1.0, "memory_mb": 512, "pids_limit": 128, '
        '"read_only_rootfs": true, "workspace_quota_mb": 0, "created_at": "N", "last_used_at": "N", '
        '"status": "idle"}',
    )


def test_the_full_request_of_a_client(wire):
    request = (
        '{"seq_id": 5, "action": "box_exec", "data": {"cmd": "echo x", "workdir": "/workspace", "timeout_sec": 30, '
        '"network": "off", "session_id": "s", "env": {}, "image": "rockchin/langbot-sandbox:latest", '
        '"host_path": null, "host_path_mode": "rw", "mount_path": "/workspace", "extra_mounts": [], '
        '"skill_name": null, "persistent": false, "cpus": 1.0, "memory_mb": 512, "pids_limit": 128, '
        f'"read_only_rootfs": true, "workspace_quota_mb": 0}}, "context": {CONTEXT}}}'
    )
    assert json.loads(wire.raw(request))["data"]["stdout"] == "x"


def test_a_long_answer_over_stdio(tmp_path):
    with Stdio(tmp_path) as runtime:
        runtime.send(
            "box_exec", {"session_id": "s", "cmd": "head -c 80000 /dev/zero | tr '\\0' x"}, json.loads(CONTEXT)
        )
        start = runtime.read_line()
        found = re.fullmatch(r'\{"type": "chunk_start", "total_size": (\d+)\}\n', start)
        size = int(found[1])
        whole = ""
        for offset in range(0, size, CHUNK):
            line = runtime.read_line()
            piece = json.loads(line)
            assert line == json.dumps({"type": "chunk_data", "data": piece["data"], "offset": offset}) + "\n"
            whole += piece["data"]
        assert runtime.read_line() == '{"type": "chunk_end"}\n'
        assert json.loads(whole)["data"]["stdout"] == "x" * 80000


def test_two_lines_at_the_relay(wire):
    tenant = wire.tenant("ws")
    tenant.shell("s2", r"""read -r line; printf '{"a":1}\n{"b":2}\n'; read -r line""")
    with tenant.relay("s2") as relay:
        relay.send("go")
        assert [relay.recv(30), relay.recv(30)] == ['{"a":1}', '{"b":2}']
