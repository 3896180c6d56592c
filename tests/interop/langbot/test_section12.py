"""The checklist of the behaviour of a runtime of LangBot, one test a row."""

import json
import signal

import pytest
from websockets.exceptions import ConnectionClosed

from rest.host import processes_with, wait_until

from .archives import packed, skill
from .conftest import OPEN
from .rpc import LIMIT, Refused, Rpc, Stdio, Tenant, open_socket

MOST = 16 << 20
ZIPPED = {"pack/SKILL.md": skill("zipped", "d"), "pack/tool.sh": "echo tool\n", "pack/noise": bytes(range(256)) * 200}


def padded(size, seq=1):
    """A ping of exactly so many bytes."""
    head, tail = f'{{"seq_id": {seq}, "action": "__ping", "data": {{}}, "padding": "', '"}'
    return head + "x" * (size - len(head) - len(tail)) + tail


def test_row_01_ping_unknown_actions_and_the_129th_at_once(rpc, tenant, place):
    rpc.ping()
    assert rpc.error("__heartbeat") == "ValueError: Action __heartbeat not found"
    assert rpc.error("box_nothing") == "ValueError: Action box_nothing not found"
    spec = {"session_id": "s", "host_path": str(place)}
    started = [
        tenant.begin("s", "until [ -e go ]; do sleep 0.01; done; echo 0", place / "started", host_path=str(place))
    ]
    started += [tenant.send("box_exec", cmd=f"echo {number}", **spec) for number in range(1, 128)]
    busy = "Runtime connection is busy (max 128 concurrent actions)"
    assert rpc.error("__ping") == busy
    assert tenant.error("box_status") == busy
    (place / "go").touch()
    assert [tenant.receive(seq)["data"]["stdout"] for seq in started] == [str(number) for number in range(128)]
    rpc.ping()


def test_row_01_long_errors_are_cut(rpc):
    text = f"Action {'é' * 5000} not found"
    assert rpc.error("é" * 5000) == f"ValueError: {text[:4096]}... [protocol error truncated]"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("box_get_session", "KeyError: 'session_id'"),
        ("box_delete_session", "KeyError: 'session_id'"),
        ("box_get_managed_process", "KeyError: 'session_id'"),
        ("box_stop_managed_process", "KeyError: 'session_id'"),
        ("box_get_skill", "KeyError: 'name'"),
        ("box_delete_skill", "BoxValidationError: 'name'"),
        ("box_read_skill_file", "BoxValidationError: 'name'"),
        ("box_scan_skill_directory", "BoxValidationError: 'path'"),
        ("box_install_skill_zip", "BoxValidationError: 'file_key'"),
        ("__file_chunk", "KeyError: 'file_key'"),
    ],
)
def test_row_01_what_is_missing_is_named(tenant, action, message):
    assert tenant.error(action) == message


@pytest.mark.parametrize("given", ['"9004"', "9005.0", "true", "-3", "123456789012", '" 7 "'])
def test_row_02_seq_ids_come_back_as_they_were(rpc, given):
    answer = rpc.raw(f'{{"seq_id": {given}, "action": "__ping", "data": {{}}}}')
    expected = f'{{"seq_id": {given}, "code": 0, "message": "success", "data": {{}}, "chunk_status": "continue"}}'
    assert answer == expected


@pytest.mark.parametrize("given", ["null", "[]", "1.5", '"x"', "{}"])
def test_row_02_bad_seq_ids_come_back_with_the_error(rpc, given):
    answer = rpc.raw(f'{{"seq_id": {given}, "action": "__ping", "data": {{}}}}')
    assert answer.startswith(f'{{"seq_id": {given}, "code": 1, "message": "ValidationError: ')


def test_row_02_a_missing_seq_id_is_minus_one(rpc):
    answer = json.loads(rpc.raw('{"action": "__ping", "data": {}}'))
    assert (answer["seq_id"], answer["code"]) == (-1, 1)
    assert answer["message"].startswith("ValidationError: ")


@pytest.mark.parametrize("data", ['"data": []', '"data": null', '"other": 1'])
def test_row_02_data_must_be_an_object(rpc, data):
    answer = json.loads(rpc.raw(f'{{"seq_id": 4, "action": "__ping", {data}}}'))
    assert (answer["seq_id"], answer["code"]) == (4, 1)
    assert answer["message"].startswith("ValidationError: ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        '"x"',
        "null",
        "{}",
        '{"seq_id": 5, "data": {}}',
        '{"code": 0}',
        '{"seq_id": 5, "code": 0, "action": "__ping", "data": {}}',
    ],
)
def test_row_02_what_is_no_request_is_ignored(rpc, text):
    rpc.send_text(text)
    rpc.ping()
    assert rpc.answers == {}


def test_row_02_a_binary_message_closes(rpc):
    rpc.socket.send(b'{"seq_id": 1, "action": "__ping", "data": {}}')
    assert rpc.close_code() == 1000


def test_row_03_a_message_may_be_just_below_16_mib(rpc):
    assert json.loads(rpc.raw(padded(MOST - 1)))["code"] == 0


def test_row_03_a_message_of_16_mib_closes(rpc):
    try:
        rpc.send_text(padded(MOST))
        code = rpc.close_code()
    except ConnectionClosed:
        code = rpc.socket.protocol.close_code
    # A client that still sends may see a reset instead of the close.
    assert code in (1009, 1006)


def test_row_03_fragments_are_put_together(rpc):
    text = padded(1 << 20)
    rpc.socket.send(text[at : at + 65536] for at in range(0, len(text), 65536))
    assert json.loads(rpc.read_text(LIMIT))["code"] == 0


def test_row_03_compressed_messages_count_as_what_they_are(daemon):
    with Rpc(daemon.port, compression="deflate") as rpc:
        assert json.loads(rpc.raw(padded(MOST - 1)))["code"] == 0


def test_row_04_stdio_takes_long_lines_and_chunks(tmp_path):
    with Stdio(tmp_path) as runtime:
        runtime.send_line(padded(40_000, 1))
        assert json.loads(runtime.read_line())["seq_id"] == 1
        runtime.send_line("a stray print")
        runtime.send_line("")
        runtime.send_line('{"type": "chunk_data", "data": "x", "offset": 0}')
        runtime.send_line('{"type": "chunk_end"}')
        runtime.send_line('{"broken": }')
        runtime.send_line('  {"type": "other", "seq_id": 2, "action": "__ping", "data": {}}  ')
        assert json.loads(runtime.read_line())["seq_id"] == 2
        runtime.send_text(padded(300_000, 3))
        assert json.loads(runtime.read_line())["seq_id"] == 3
        tenant = runtime.tenant("w")
        long = "é" * 100_000
        runtime.last_seq = 3
        assert tenant.output("s", f"printf %s {long}") == long
        runtime.process.stdin.close()
        assert runtime.wait() == 0


@pytest.mark.parametrize(
    "lines",
    [
        ['{"type": "chunk_start", "total_size": 10}', '{"type": "chunk_data", "data": "x", "offset": 1}'],
        ['{"type": "chunk_start", "total_size": 1}', '{"type": "chunk_data", "data": "xx", "offset": 0}'],
        ['{"type": "chunk_start", "total_size": 1}', '{"type": "chunk_end"}'],
        ['{"type": "chunk_start", "total_size": 16777217}'],
        ['{"type": "chunk_start", "total_size": -1}'],
        ['{"type": "chunk_start", "total_size": 10}', *["noise"] * 4097],
        ["x" * 65_600],
        [b'{"seq_id": 1, "action": "\xff", "data": {}}'],
    ],
    ids=["offset", "more", "less", "total above 16 MiB", "negative", "lines", "long line", "not UTF-8"],
)
def test_row_04_stdio_closes_after_bad_frames(tmp_path, lines):
    with Stdio(tmp_path) as runtime:
        runtime.ping()
        try:
            for line in lines:
                runtime.send_line(line)
        except BrokenPipeError:
            pass
        assert runtime.wait() == 0


def test_row_04_stdio_serves_the_port_as_well(tmp_path):
    with Stdio(tmp_path) as runtime:
        runtime.tenant("w").create("s")
        runtime.wait_for_port()
        with Rpc(runtime.port) as rpc:
            assert rpc.tenant("w").sessions() == {"s"}
    with Stdio(tmp_path, port=runtime.port) as first, Stdio(tmp_path.parent, port=runtime.port) as second:
        first.ping()
        second.ping()


def test_row_04_a_runtime_on_stdio_leaves_nothing_behind(tmp_path):
    with Stdio(tmp_path) as runtime:
        tenant = runtime.tenant("w")
        tenant.create("persistent", persistent=True)
        tenant.shell("s", "exec sleep 4713.5")
        wait_until(lambda: processes_with("sleep 4713.5"), "the process")
        runtime.process.stdin.close()
        assert runtime.wait() == 0
    assert not processes_with("sleep 4713.5")


@pytest.mark.parametrize(
    "arguments", ["box --stdio-control --ws-control-port", "box --mode stdio --port", "serve --stdio-control --port"]
)
def test_row_04_stdio_has_several_spellings(tmp_path, arguments):
    with Stdio(tmp_path, arguments.split()) as runtime:
        runtime.ping()
        runtime.wait_for_port()


def test_row_05_the_instance_and_the_token_of_a_handshake(start_daemon):
    daemon = start_daemon("caisson: {langbot: {legacy: false}}")
    for bad in (None, "", "-x", "x" * 129, "with space", "x/y"):
        with pytest.raises(Refused) as refusal:
            Rpc(daemon.port, bad)
        refused = refusal.value
        assert (refused.status, refused.text, refused.type) == (401, "Unauthorized", "text/plain; charset=utf-8")
    with Rpc(daemon.port, "first", token="nobody asked for it") as rpc:
        rpc.ping()
        with pytest.raises(Refused) as refusal:
            Rpc(daemon.port, "second")
        assert refusal.value.status == 401
        with Rpc(daemon.port, " first ") as again:
            again.ping()


def test_row_06_contexts(rpc, tenant):
    assert rpc.error("box_status") == "PermissionError: Box tenant action requires a trusted Workspace context"
    other = Tenant(rpc, tenant.workspace, 1, "other")
    assert other.error("box_status") == "PermissionError: Box action context does not match the trusted instance"
    assert tenant.ok("box_status")["backend"] == {"name": "native", "available": True}
    tenant.of(2).ok("box_status")
    assert tenant.error("box_status") == "PermissionError: Stale Box placement generation"
    tenant.generation = 2


def test_row_07_conflicts_name_the_first_field_that_differs(tenant, place):
    (place / "other").mkdir()
    first = {"session_id": "s", "host_path": str(place)}
    tenant.ok("box_create_session", **first)
    changes = [
        ("network", "on", "off"),
        ("image", "other:1", "rockchin/langbot-sandbox:latest"),
        ("host_path", str(place / "other"), str(place)),
        ("host_path_mode", "ro", "rw"),
        ("mount_path", "/work", "/workspace"),
        ("persistent", True, "False"),
        ("cpus", 0.5, "1.0"),
        ("memory_mb", 256, "512"),
        ("pids_limit", 64, "128"),
        ("read_only_rootfs", False, "True"),
        ("workspace_quota_mb", 5, "0"),
    ]
    message = f"BoxSessionConflictError: Box session {tenant.physical('s')} already exists with "
    different = {}
    # From the last to the first: each time the one that comes first is told.
    for field, value, existing in reversed(changes):
        different[field] = value
        alone = {field: value, "workdir": "/work"} if field == "mount_path" else {field: value}
        assert tenant.error("box_create_session", **{**first, **alone}) == message + f"{field}={existing}"
        together = {**first, **different}
        if "mount_path" in different:
            together["workdir"] = "/work"
        assert tenant.error("box_create_session", **together) == message + f"{field}={existing}"
    for spelling in ("docker.io/rockchin/langbot-sandbox", "rockchin/langbot-sandbox:0.7.16"):
        assert tenant.ok("box_create_session", **first, image=spelling)["image"] == spelling
    assert tenant.get("s")["image"] == "rockchin/langbot-sandbox:latest"
    tenant.create("none")
    message = tenant.error("box_create_session", session_id="none", host_path=str(place))
    assert message.endswith(f"{tenant.physical('none')} already exists with host_path=None")


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_row_07_other_extra_mounts_are_a_conflict_or_for_hosts_of_old_a_change(tenant, place, old):
    for name in ("a", "b"):
        (place / name).mkdir()
    mounts = [{"host_path": str(place / name), "mount_path": f"/m/{name}", "mode": "ro"} for name in ("a", "b")]
    nothing = {"host_path": str(place / "a"), "mount_path": "/m/c", "mode": "none"}
    # Until SDK 0.5 a host names a skill with every spec, or none.
    more = {"skill_name": None} if old else {}
    box = tenant.create("s", extra_mounts=mounts, **more)["backend_session_id"]
    same = [mounts[1], mounts[0], mounts[1], nothing]
    assert tenant.create("s", extra_mounts=same, **more)["backend_session_id"] == box
    if old:
        assert tenant.output("s", "ls /m", extra_mounts=mounts[:1], **more) == "a\nb"
        assert tenant.output("s", "mountpoint -q /m/a && ! mountpoint -q /m/b; echo $?", extra_mounts=mounts[:1], **more) == "0"
    else:
        message = tenant.error("box_exec", session_id="s", cmd="ls /m", extra_mounts=mounts[:1])
        assert message.startswith("BoxSessionConflictError: Box mounts differ from this session's immutable mount set; ")
        assert tenant.output("s", "ls /m", extra_mounts=mounts) == "a\nb"
    tenant.shell("s", "exec sleep 60")
    other = [{**mounts[0], "mount_path": "/workspace/x"}]
    if old:
        tenant.exec("s", "ls /workspace/x", extra_mounts=other, **more)
    assert tenant.process("s")["status"] == "running"
    assert tenant.get("s")["backend_session_id"] == box


def test_row_08_the_result_of_a_command(tenant):
    result = tenant.exec("s", "printf '\\n  out \\n\\n'; printf ' err\\n' >&2; exit 41")
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (41, "out", "err")
    assert result["status"] == "completed" and isinstance(result["duration_ms"], int)
    assert tenant.exec("s", "sh -c 'kill -9 $$'")["exit_code"] == 137
    assert tenant.output("s", r"printf 'a\377\342\202b\342\202'") == "a\ufffd\ufffdb\ufffd"
    assert tenant.exec("s", "# only a comment")["status"] == "completed"
    assert tenant.output("s", "pwd", workdir="/tmp/deep/er") == "/tmp/deep/er"
    assert tenant.output("s", 'echo "$A-$B"', env={"A": "x  y"}) == "x  y-"
    # A background process does not hold the result back.
    assert tenant.output("s", "sleep 60 >/dev/null 2>&1 & echo on") == "on"
    assert tenant.error("box_exec", session_id="new", cmd=" \n") == "BoxValidationError: cmd must not be empty"
    assert tenant.sessions() == {"s"}


def test_row_08_output_is_clipped_at_1_mib(tenant):
    shown = tenant.exec("s", "yes | head -c 1048580; yes 1 | head -c 1048576 >&2")
    note = "\n... [raw output clipped at 1048576 bytes, 4 bytes discarded]"
    assert shown["stdout"] == ("y\n" * 524288).strip() + note
    assert shown["stderr"] == ("1\n" * 524288).strip()


def test_row_08_a_time_limit_ends_the_session(tenant):
    tenant.shell("s", "exec sleep 60")
    result = tenant.exec("s", "echo partial; echo why >&2; sleep 60", timeout_sec=3)
    assert (result["status"], result["exit_code"], result["stdout"]) == ("timed_out", None, "partial")
    assert result["stderr"] == "why"
    message = f"BoxSessionNotFoundError: session {tenant.physical('s')} not found"
    assert tenant.error("box_get_session", session_id="s") == message


INTEGERS = [999.0, True, "999", " 999 ", "+5", "1_000", "9.0", 10**30]
NO_INTEGERS = [999.5, "9.5", "1e3", "0x10", "", None, [], {}, "９"]
FLOATS = [2, 0.5, True, "1e0", " 2 ", "1_0"]
NO_FLOATS = ["x", "", None, [], "0x1"]
TRUE = [True, 1, 1.0, "true", "T", "Yes", "y", "ON", "1"]
FALSE = [False, 0, 0.0, "false", "F", "No", "n", "OFF", "0"]
NO_BOOLEANS = [2, 0.5, " true ", "", None, [], "maybe"]


def test_row_09_coercions(tenant):
    def accepted(**spec):
        return tenant.create("s", **spec)

    def refused(**spec):
        message = tenant.error("box_create_session", session_id="s", **spec)
        assert message.startswith("BoxValidationError: "), (spec, message)
        return message

    for value in INTEGERS:
        accepted(timeout_sec=value)
    for value in NO_INTEGERS:
        refused(timeout_sec=value)
    tenant.delete("s")
    for value in FLOATS:
        assert accepted(cpus=value)["cpus"] == float(value)
        tenant.delete("s")
    for value in NO_FLOATS:
        refused(cpus=value)
    for value in TRUE:
        assert accepted(read_only_rootfs=value)["read_only_rootfs"] is True
    tenant.delete("s")
    for value in FALSE:
        assert accepted(read_only_rootfs=value)["read_only_rootfs"] is False
    for value in NO_BOOLEANS:
        refused(read_only_rootfs=value)
    tenant.delete("s")
    for spec in ({"image": 5}, {"network": "OFF"}, {"host_path_mode": "x"}, {"env": None}, {"env": {"A": 1}}):
        refused(**spec)
    for spec in ({"extra_mounts": None}, {"host_path": ""}, {"workdir": 1}, {"persistent": None}):
        refused(**spec)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"workdir": "relative"}, "workdir must be an absolute path inside the sandbox"),
        ({"timeout_sec": 0}, "timeout_sec must be greater than 0"),
        ({"session_id": "  "}, "session_id must not be empty"),
        ({"host_path": "relative"}, "host_path must be an absolute host path"),
        ({"mount_path": "relative"}, "mount_path must be an absolute path inside the sandbox"),
        ({"cpus": 0}, "cpus must be greater than 0"),
        ({"memory_mb": 31}, "memory_mb must be at least 32"),
        ({"pids_limit": 0}, "pids_limit must be at least 1"),
        ({"workspace_quota_mb": -1}, "workspace_quota_mb must be greater than or equal to 0"),
        ({"skill_name": "a b"}, "skill_name can only contain up to 64 letters, numbers, hyphens and underscores"),
        ({"host_path": "/srv", "workdir": "/tmp"}, "workdir must stay under mount_path when host_path is provided"),
        ({"extra_mounts": [{"host_path": "x", "mount_path": "/y"}]}, "host_path must be an absolute host path"),
        (
            {"extra_mounts": [{"host_path": "/x", "mount_path": "y"}]},
            "mount_path must be an absolute path inside the sandbox",
        ),
        ({"session_id": None}, ""),
    ],
)
def test_row_09_sentences_of_the_model(tenant, spec, sentence):
    for action in ("box_exec", "box_create_session"):
        message = tenant.error(action, **{"session_id": "s", "cmd": "true", **spec})
        assert message.startswith("BoxValidationError: ") and sentence in message


def test_row_10_the_life_of_a_process(tenant):
    physical = tenant.physical("s")
    tenant.create("s")
    unknown = f"BoxManagedProcessNotFoundError: session {physical} has no managed process with process_id="
    assert tenant.error("box_get_managed_process", session_id="s") == unknown + "default"
    assert tenant.error("box_stop_managed_process", session_id="s", process_id="p") == unknown + "p"
    assert "managed_processes" not in tenant.get("s")
    started = tenant.shell("s", "exec sleep 60", env={"Z": "1", "A": "2"}, cwd="/tmp")
    assert (started["env_keys"], started["cwd"], started["attached"]) == (["A", "Z"], "/tmp", False)
    again = tenant.shell("s", "exec sleep 61")
    assert (again["status"], again["args"]) == ("running", ["-c", "exec sleep 61"])
    tenant.shell("s", "echo one >&2; echo two >&2; exit 3", process_id="p")
    ended = tenant.ended("s", "p")
    assert (ended["exit_code"], ended["stderr_preview"]) == (3, "one\ntwo")
    assert ended["exited_at"] > ended["started_at"]
    shown = tenant.get("s")
    assert sorted(shown["managed_processes"]) == ["default", "p"]
    assert shown["managed_process"] == shown["managed_processes"]["default"]
    assert tenant.stop("s", "p") == {"stopped": "p"}
    assert tenant.stop("s") == {"stopped": "default"}
    assert tenant.error("box_get_managed_process", session_id="s") == unknown + "default"
    missing = tenant.error("box_start_managed_process", session_id="s", spec={"command": "no-such-program"})
    assert missing.startswith("BoxError: no-such-program: not found in the box (PATH is ")
    assert tenant.error("box_get_managed_process", session_id="s") == unknown + "default"
    tenant.shell("s", "exit 0")
    assert tenant.ended("s")["exit_code"] == 0


def test_row_10_ended_processes_are_kept_for_a_while(start_daemon):
    with Rpc(start_daemon().port) as rpc:
        tenant = rpc.tenant("w")

        def gone(process):
            answer = rpc.call("box_get_managed_process", {"session_id": "s", "process_id": process}, tenant.context)
            return "has no managed process" in answer["message"]

        rpc.ok("box_init", {"limits": {"max_completed_processes": 1}})
        for process in ("first", "second"):
            tenant.shell("s", "exit 0", process_id=process)
            wait_until(lambda name=process: tenant.process("s", name)["status"] == "exited", "the end")
        wait_until(lambda: gone("first"), "the older one is forgotten")
        assert not gone("second")
        rpc.ok("box_init", {"limits": {"completed_process_retention_sec": 0}})
        tenant.shell("s", "exit 0", process_id="third")
        wait_until(lambda: gone("third"), "none is kept")


def test_row_10_a_process_may_have_more_memory_than_its_session(tenant):
    tenant.create("s", memory_mb=64)
    tenant.shell("s", "head -c 100m /dev/zero | tail -c 90m | wc -c >&2", memory_mb="256")
    assert tenant.ended("s")["stderr_preview"].strip() == "94371840"


def test_row_10_what_is_wrong_with_a_start(tenant):
    absent = f"BoxSessionNotFoundError: session {tenant.physical('absent')} not found"
    start = "box_start_managed_process"
    assert tenant.error(start, session_id="absent", spec={"command": "x"}) == absent
    assert tenant.error(start, spec={"command": "x"}) == "KeyError: 'session_id'"
    assert tenant.error(start, session_id="absent") == "KeyError: 'spec'"
    tenant.create("s")
    for spec, sentence in (
        ({"command": " "}, "command must not be empty"),
        ({"command": "x", "cwd": "y"}, "cwd must be an absolute path inside the sandbox"),
        ({"command": "x", "args": [1]}, ""),
        ({"command": "x", "env": {"A": 1}}, ""),
        ({}, ""),
    ):
        message = tenant.error(start, session_id="s", spec=spec)
        assert message.startswith("BoxValidationError: ") and sentence in message


def test_row_11_the_relay(tenant):
    tenant.start("s", "cat")
    assert tenant.process("s")["attached"] is False
    with tenant.relay("s") as relay:
        assert relay.subprotocol == "mcp"
        wait_until(lambda: tenant.process("s")["attached"], "the relay is told of")
        relay.send("one")
        relay.send("two\n")
        relay.send(b"binary messages are ignored")
        relay.send("a\nb")
        assert [relay.recv(LIMIT) for _ in range(5)] == ["one", "two", "", "a", "b"]
        with tenant.relay("s") as waiting:
            waiting.send("queued")
            relay.send("first")
            assert relay.recv(LIMIT) == "first"
            relay.close()
            assert waiting.recv(LIMIT) == "queued"
    wait_until(lambda: not tenant.process("s")["attached"], "the end of the relay is told of")
    with tenant.relay("s", subprotocols=None) as relay:
        assert relay.subprotocol is None
        relay.send("again")
        assert relay.recv(LIMIT) == "again"
    tenant.shell("s", "read -r line; printf 'last words'; exit 0")
    with tenant.relay("s") as relay:
        relay.send("go")
        assert relay.recv(LIMIT) == "last words"
        with pytest.raises(ConnectionClosed):
            relay.recv(LIMIT)
        assert relay.protocol.close_code == 1000


def test_row_11_the_short_route_is_that_of_the_default_process(daemon, tenant):
    tenant.start("s", "cat")
    path = f"/v1/sessions/{tenant.physical('s')}/managed-process/ws"
    with open_socket(daemon.port, path, tenant.relay_headers()) as relay:
        relay.send("x")
        assert relay.recv(LIMIT) == "x"


def test_row_11_names_in_the_path_are_decoded(daemon, tenant):
    tenant.start("s", "cat", process_id="a b")
    path = f"/v1/sessions/{tenant.physical('s')}/managed-process/a%20b/ws"
    with open_socket(daemon.port, path, tenant.relay_headers()) as relay:
        relay.send("x")
        assert relay.recv(LIMIT) == "x"


def test_row_12_init_again_and_again(start_daemon, tmp_path):
    with Rpc(start_daemon(json.dumps(OPEN)).port) as rpc:
        tenant = rpc.tenant("w")
        config = {"backend": "local", "limits": {"max_sessions": 7}, "local": {"host_root": str(tmp_path / "box")}}
        config |= {"enabled": True, "default_memory_mb": 512, "docker": {}, "e2b": {}, "unknown": 1}
        config["limits"]["max_workspace_entries"] = 5
        assert rpc.ok("box_init", config) == {"initialized": True}
        assert (tmp_path / "box" / "default").is_dir()
        made = tenant.create("s")
        assert rpc.ok("box_init", config) == {"initialized": True}
        assert tenant.get("s")["backend_session_id"] == made["backend_session_id"]
        for limits, message in (
            ([1], "ValueError: box.limits must be an object"),
            ({"max_sessions": "7"}, "ValueError: box.limits.max_sessions must be an integer"),
            ({"max_sessions": True}, "ValueError: box.limits.max_sessions must be an integer"),
            ({"max_sessions": 5001}, "ValueError: box.limits.max_sessions must be between 0 and 5000"),
            (
                {"max_sessions": 3, "max_rpc_file_bytes": 0},
                "ValueError: box.limits.max_rpc_file_bytes must be between 1 and 104857600",
            ),
        ):
            assert rpc.error("box_init", {"backend": "docker", "limits": limits}) == message
        shown = tenant.ok("box_status")
        assert (shown["limits"]["max_sessions"], shown["backend"]["name"]) == (7, "native")
        assert rpc.ok("box_init", {"limits": {"max_managed_processes": 1}}) == {"initialized": True}
        assert tenant.ok("box_status")["limits"]["max_sessions"] == 7


def test_row_12_a_backend_that_is_not_there(start_daemon):
    with Rpc(start_daemon().port) as rpc:
        tenant = rpc.tenant("w")
        rpc.ok("box_init", {"backend": "nonsense"})
        assert rpc.ok("box_get_backend_info").items() >= {"name": None, "available": False}.items()
        message = tenant.error("box_create_session", session_id="s")
        assert message.startswith("BoxBackendUnavailableError: LangBot Box backend unavailable.")
        rpc.ok("box_init", {"backend": "local"})
        assert rpc.ok("box_get_backend_info") == {"name": "native", "available": True}
        tenant.create("s")
        # With a session it stays what it is.
        rpc.ok("box_init", {"backend": "nonsense"})
        assert rpc.ok("box_get_backend_info") == {"name": "native", "available": True}
        assert tenant.output("s", "echo on") == "on"


def test_row_12_limits_are_kept_to(start_daemon):
    with Rpc(start_daemon().port) as rpc:
        tenant = rpc.tenant("w")
        rpc.ok("box_init", {"limits": {"max_sessions": 1, "max_managed_processes": 1}})
        tenant.create("s")
        message = "BoxCapacityExceededError: Box session capacity reached (1)"
        assert tenant.error("box_create_session", session_id="t") == message
        tenant.shell("s", "exec sleep 60")
        tenant.shell("s", "exec sleep 61")
        message = "BoxCapacityExceededError: Box managed process capacity reached (1)"
        spec = {"command": "cat", "process_id": "second"}
        assert tenant.error("box_start_managed_process", session_id="s", spec=spec) == message


@pytest.mark.slow
def test_row_13_idle_sessions_end_unless_they_are_held(start_daemon, tmp_path):
    local = {"allowed_mount_roots": [str(tmp_path)]}
    daemon = start_daemon(json.dumps({"box": {"local": local}, "caisson": {"session_ttl_sec": 3}}))
    with Rpc(daemon.port) as rpc:
        tenant = rpc.tenant("w")
        tenant.create("idle")
        tenant.create("persistent", persistent=True)
        tenant.shell("holding", "exec sleep 600")
        cmd = "until [ -e go ]; do sleep 0.01; done; echo on"
        running = tenant.begin("busy", cmd, tmp_path / "started", host_path=str(tmp_path), timeout_sec=600)
        wait_until(lambda: tenant.sessions() == {"persistent", "holding", "busy"}, "the idle one ends")
        (tmp_path / "go").touch()
        assert tenant.receive(running)["data"]["stdout"] == "on"
        tenant.stop("holding")
        wait_until(lambda: tenant.sessions() == {"persistent"}, "what held them is gone")


def test_row_14_a_generation_advances(tenant, place):
    tenant.start("s", "cat")
    running = tenant.begin("t", "sleep 60", place / "started", host_path=str(place))
    stale = "PermissionError: Stale Box placement generation"
    with tenant.relay("s") as relay:
        assert tenant.of(2).ok("box_get_sessions") == {"sessions": []}
        with pytest.raises(ConnectionClosed):
            relay.recv(LIMIT)
        assert relay.protocol.close_code == 1000
    assert tenant.receive(running)["message"] == stale
    assert tenant.error("box_create_session", session_id="s") == stale
    tenant.generation = 2


def test_row_15_skills(tenant):
    archive = packed(ZIPPED)
    found = tenant.ok("box_preview_skill_zip", file_key=tenant.upload(archive), filename="My Demo.zip")["skills"]
    assert [(one["name"], one["source_path"]) for one in found] == [("zipped", "")]
    assert "Uploaded" in tenant.error("box_preview_skill_zip", file_key=tenant.upload(b"x"), filename="a.zip")
    installed = tenant.ok("box_install_skill_zip", file_key=tenant.upload(archive), filename="My Demo.zip")["skills"]
    assert installed[0]["package_root"].endswith("/My-Demo-upload")
    keys = ["name", "display_name", "description", "instructions", "package_root", "entry_file", "python_project"]
    assert [*installed[0]] == [*keys, "created_at", "updated_at"]
    assert installed[0]["entry_file"] == "SKILL.md" and installed[0]["python_project"] is False
    assert installed[0]["created_at"].endswith("+00:00")
    again = tenant.error("box_install_skill_zip", file_key=tenant.upload(archive), filename="My Demo.zip")
    assert again == f"BoxValidationError: Skill directory already exists: {installed[0]['package_root']}"
    assert [one["name"] for one in tenant.ok("box_list_skills")["skills"]] == ["zipped"]
    assert tenant.ok("box_get_skill", name="zipped")["skill"]["description"] == "d"
    read = tenant.ok("box_read_skill_file", name="zipped", path="tool.sh")
    assert read == {"skill": {"name": "zipped"}, "path": "tool.sh", "content": "echo tool\n"}
    written = tenant.ok("box_write_skill_file", name="zipped", path="requirements.txt", content="é")
    assert written == {"skill": {"name": "zipped"}, "path": "requirements.txt", "bytes_written": 2}
    assert tenant.ok("box_get_skill", name="zipped")["skill"]["python_project"] is True
    listed = tenant.ok("box_list_skill_files", name="zipped")
    sizes = {"SKILL.md": len(ZIPPED["pack/SKILL.md"]), "noise": 51200, "requirements.txt": 2, "tool.sh": 10}
    entries = [{"path": name, "name": name, "is_dir": False, "size": size} for name, size in sizes.items()]
    assert listed == {"skill": {"name": "zipped"}, "base_path": ".", "entries": entries, "truncated": False}
    made = tenant.ok("box_create_skill", skill={"name": "made", "instructions": "x"})["skill"]
    assert tenant.ok("box_scan_skill_directory", path=made["package_root"])["name"] == "made"
    updated = tenant.ok("box_update_skill", name="made", skill={"description": "new"})["skill"]
    assert (updated["description"], updated["instructions"]) == ("new", "x")
    assert tenant.ok("box_delete_skill", name="made") == {"deleted": "made"}
    assert tenant.ok("box_delete_skill", name="zipped") == {"deleted": "zipped"}
    assert tenant.ok("box_list_skills") == {"skills": []}


@pytest.mark.parametrize(
    ("action", "data", "message"),
    [
        ("box_create_skill", {"skill": {}}, "Skill name is required"),
        (
            "box_create_skill",
            {"skill": {"name": "a b"}},
            "Skill name can only contain letters, numbers, hyphens and underscores",
        ),
        ("box_create_skill", {"skill": {"name": "x" * 65}}, "Skill name cannot exceed 64 characters"),
        ("box_create_skill", {}, "'skill'"),
        ("box_update_skill", {"name": "absent", "skill": {}}, 'Skill "absent" not found'),
        ("box_delete_skill", {"name": "absent"}, 'Skill "absent" not found'),
        ("box_read_skill_file", {"name": "absent", "path": "x"}, 'Skill "absent" not found'),
        (
            "box_read_skill_file",
            {"name": "there", "path": "/etc/passwd"},
            "path must be relative to the skill package root",
        ),
        ("box_read_skill_file", {"name": "there", "path": "../x"}, "path must stay within the skill package root"),
        ("box_read_skill_file", {"name": "there", "path": "absent"}, "Skill file not found: absent"),
        ("box_list_skill_files", {"name": "there", "path": "absent"}, "Skill directory not found: absent"),
        ("box_list_skill_files", {"name": "there", "max_entries": 0}, "max_entries must be a positive integer"),
        ("box_create_skill", {"skill": {"name": "there"}}, 'Skill with name "there" already exists'),
        ("box_update_skill", {"name": "there", "skill": {"name": "else"}}, "Renaming skills is not supported"),
        (
            "box_update_skill",
            {"name": "there", "skill": {"package_root": "/srv"}},
            "Updating package_root is not supported; recreate the skill to import a different package",
        ),
    ],
)
def test_row_15_what_is_wrong_with_skills(tenant, action, data, message):
    tenant.ok("box_create_skill", skill={"name": "there", "instructions": "x"})
    assert tenant.error(action, **data) == f"BoxValidationError: {message}"
    tenant.ok("box_delete_skill", name="there")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file_key": "../x"}, "ValueError: Invalid file transfer key"),
        ({"file_key": "a..b"}, "ValueError: Invalid file transfer key"),
        ({"file_key": ".hidden"}, "ValueError: Invalid file transfer key"),
        ({"file_key": 5}, "ValueError: Invalid file transfer key"),
        ({"chunk_base64": "A" * 21852}, "ValueError: File transfer chunk exceeds the protocol limit"),
        ({"chunk_index": 1}, "ValueError: Invalid file chunk position"),
        ({"chunk_index": True}, "ValueError: Invalid file chunk position"),
        ({"chunk_amount": 0}, "ValueError: Invalid file chunk position"),
        ({"chunk_index": -1}, "ValueError: Invalid file chunk position"),
    ],
)
def test_row_15_bad_chunks(rpc, change, message):
    chunk = {"file_key": "key", "file_length": 1, "chunk_base64": "eA==", "chunk_index": 0, "chunk_amount": 1}
    assert rpc.error("__file_chunk", {**chunk, **change}) == message
    assert rpc.error("__file_chunk", {**chunk, "chunk_base64": "!!"}).startswith("Error: ")


def test_row_16_health_and_readiness(daemon, tenant):
    tenant.shell("s", "exec sleep 60")
    health = daemon.client("GET", "/healthz")
    assert (health.status, health.json["live"]) == (200, True)
    resources = health.json["resources"]
    counts = ["sessions", "managed_processes", "completed_processes", "creating_session_tasks"]
    counts += ["closing_session_tasks", "background_tasks"]
    assert {"event_loop", "blocking_executor", *counts} <= resources.keys()
    assert all(isinstance(resources[name], int) for name in counts)
    assert (resources["sessions"], resources["managed_processes"]) == (1, 1)
    ready = daemon.client("GET", "/readyz")
    assert ready.status == 200
    assert ready.json["resources"].keys() == resources.keys()
    shown = {name: value for name, value in ready.json.items() if name != "resources"}
    backend = {"name": "native", "available": True}
    assert shown == {"ready": True, "mode": "standard", "backend": backend, "checks": {"backend_available": True}}
    assert tenant.rpc.ok("box_health") == backend


def test_row_16_shutdown_ends_sessions_and_nothing_else(start_daemon):
    with Rpc(start_daemon().port) as rpc:
        tenant = rpc.tenant("w")
        tenant.create("persistent", persistent=True)
        tenant.shell("s", "exec sleep 60")
        rpc.tenant("other").create("s")
        assert rpc.ok("box_shutdown") == {}
        assert tenant.sessions() == rpc.tenant("other").sessions() == set()
        assert tenant.output("s", "echo on") == "on"


def test_row_16_a_signal_leaves_nothing_behind(start_daemon):
    daemon = start_daemon()
    with Rpc(daemon.port) as rpc, Rpc(daemon.port) as second:
        tenant = rpc.tenant("w")
        tenant.create("persistent", persistent=True)
        tenant.shell("s", "exec sleep 4711.5")
        wait_until(lambda: processes_with("sleep 4711.5"), "the process")
        with tenant.relay("s") as relay:
            daemon.signal(signal.SIGTERM)
            assert second.close_code() == rpc.close_code() == 1001
            with pytest.raises(ConnectionClosed):
                relay.recv(LIMIT)
            assert (relay.protocol.close_code, relay.protocol.close_reason) == (1001, "Box runtime shutting down")
    daemon.process.wait(LIMIT)  # a second signal would cut it short
    daemon.stop()
    assert not processes_with("sleep 4711.5")


def test_row_17_a_legacy_client(daemon, legacy):
    domain = legacy.domain
    assert domain.exec("group_1@chatroom", "echo hi")["session_id"] == "group_1@chatroom"
    tenant_error = domain.error("box_get_session", session_id="absent one")
    assert tenant_error == "BoxSessionNotFoundError: session absent one not found"
    domain.start("group_1@chatroom", "cat")
    with domain.relay("group_1@chatroom") as relay:
        relay.send("x")
        assert relay.recv(LIMIT) == "x"
    archive = packed({"SKILL.md": skill("old")})
    installed = domain.ok("box_install_skill_zip", file_key=domain.upload(archive), filename="old.zip")["skills"]
    assert "/tenants/" not in installed[0]["package_root"]
    assert [one["name"] for one in domain.ok("box_list_skills")["skills"]] == ["old"]
    domain.ok("box_delete_skill", name="old")
    request = json.dumps(
        {
            "seq_id": 77,
            "action": "box_exec",
            "data": {"session_id": "group_1@chatroom", "cmd": f": {'x' * 150_000}; echo whole"},
        }
    )
    for at in range(0, len(request), 65536):
        legacy.send_text(request[at : at + 65536])
    assert legacy.receive(77)["data"]["stdout"] == "whole"
    domain.delete("group_1@chatroom")
