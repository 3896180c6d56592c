"""What runtimes of LangBot got wrong, and what is done instead: one test for each that can be met with native boxes.

Those that cannot belong to backends that are not built yet, or to what the native one does not have:

    B12   docker: a `run` that times out counts as started
    B17   docker half: cleaning up by a label that all runtimes share (the native half is below)
    B18   docker, nsjail: names without an instance after another backend was chosen
    B25   docker: a stopped process goes on in the container
    B27   e2b: exit codes as errors, rewritten commands, network
    B39   nsjail: every probe writes to the host's cgroup.subtree_control
    B40   podman is no candidate any more
"""

import http.client
import json
import math
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rest.host import parents, processes_with, wait_until

from .archives import skill
from .rpc import LIMIT, Refused, Rpc, Stdio


def test_b1_the_status_counts_running_processes(tenant):
    tenant.shell("s", "exec sleep 60")
    tenant.shell("s", "exit 0", process_id="ended")
    tenant.ended("s", "ended")
    assert tenant.ok("box_status")["managed_processes"] == 1


def test_b2_one_line_is_one_message(tenant):
    tenant.shell("s", r"""read -r line; printf '{"a":1}\n{"b":2}\n{"c"'; read -r line; printf ':3}\n'; read -r line""")
    with tenant.relay("s") as relay:
        relay.send("go")
        assert [relay.recv(LIMIT), relay.recv(LIMIT)] == ['{"a":1}', '{"b":2}']
        relay.send("go")
        assert relay.recv(LIMIT) == '{"c":3}'


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_b3_long_lines_and_their_characters_stay_whole(tenant, character):
    tenant.start("s", "cat")
    line = "." + character * 200_000
    with tenant.relay("s") as relay:
        relay.send(line)
        assert relay.recv(LIMIT) == line


def test_b4_nothing_but_the_caller_limits_the_time(tenant):
    assert tenant.output("s", "ulimit -t; ulimit -H -t", timeout_sec=100_000) == "unlimited\nunlimited"
    tenant.shell("s", "ulimit -t >&2; ulimit -H -t >&2")
    assert tenant.ended("s")["stderr_preview"].split() == ["unlimited"] * 2


def test_b5_commands_cannot_read_the_requests(tmp_path):
    with Stdio(tmp_path) as runtime:
        tenant = runtime.tenant("w")
        reading = tenant.send("box_exec", session_id="s", cmd="readlink /proc/self/fd/0; cat; sleep 1; cat")
        for _ in range(100):
            runtime.ping()
        assert tenant.receive(reading)["data"]["stdout"] == "/dev/null"


def test_b6_a_directory_that_is_not_there_is_made(tenant):
    assert tenant.output("s", "pwd", workdir="/tmp/new/one") == "/tmp/new/one"
    tenant.shell("s", "pwd >&2", cwd="/tmp/new/two")
    assert tenant.ended("s")["stderr_preview"].strip() == "/tmp/new/two"


def test_b7_processes_see_the_extra_mounts(tenant, place):
    (place / "file").write_text("extra")
    tenant.create("s", extra_mounts=[{"host_path": str(place), "mount_path": "/extra", "mode": "ro"}])
    tenant.shell("s", "cat /extra/file >&2")
    assert tenant.ended("s")["stderr_preview"] == "extra"


BLOCKED = ["/etc", "/etc/ssl", "/proc", "/sys/kernel", "/dev", "/root", "/boot", "/run", "/var/run"]


@pytest.mark.parametrize("path", BLOCKED)
def test_b8_every_mount_is_judged(tenant, path):
    message = f"BoxValidationError: host_path {path} is blocked for security: "  # and why
    assert tenant.error("box_create_session", session_id="s", host_path=path).startswith(message)
    mounts = [{"host_path": path, "mount_path": "/m", "mode": "ro"}]
    assert tenant.error("box_create_session", session_id="s", extra_mounts=mounts).startswith(message)
    assert tenant.sessions() == set()


def test_b8_links_do_not_hide_a_path(tenant, place):
    (place / "link").symlink_to("/etc")
    message = f"BoxValidationError: host_path {place}/link is blocked for security: "
    assert tenant.error("box_create_session", session_id="s", host_path=f"{place}/link").startswith(message)


@pytest.mark.parametrize("path", ["/", "/var", "/etc/..", "//"])
def test_b9_what_holds_a_blocked_path_is_refused(tenant, path):
    assert tenant.error("box_create_session", session_id="s", host_path=path).startswith(
        "BoxValidationError: host_path "
    )


def test_b9_mounts_outside_the_allowed_roots_are_refused(tenant, tmp_path):
    message = tenant.error("box_create_session", session_id="s", host_path=str(tmp_path))
    assert message.startswith("BoxValidationError: ") and str(tmp_path) in message


def test_b10_a_writable_root_is_writable(tenant):
    assert tenant.output("s", "echo x > /new; cat /new", read_only_rootfs=False) == "x"
    assert tenant.exec("t", "echo x > /new")["exit_code"] != 0


def test_b11_a_box_that_died_is_made_again(daemon, tenant):
    made = tenant.create("s")
    marker = f"sleep {time.monotonic_ns()}.25"
    tenant.output("s", f"{marker} >/dev/null 2>&1 & echo")
    left = wait_until(
        lambda: [pid for pid in processes_with(marker) if parents().get(pid) in daemon.guests()],
        "a process of process 1",
    )
    os.kill(parents()[left[0]], signal.SIGKILL)
    wait_until(lambda: not processes_with(marker), "the end of the box")
    assert tenant.output("s", "echo on") == "on"
    assert tenant.get("s")["backend_session_id"] != made["backend_session_id"]


def test_b13_delete_and_stop_do_not_wait_for_a_command(tenant, place):
    tenant.create("s", host_path=str(place))
    tenant.start("s", "cat")
    running = tenant.begin("s", "sleep 600", place / "started", host_path=str(place))
    assert tenant.stop("s") == {"stopped": "default"}
    assert tenant.delete("s") == {"deleted": "s"}
    answer = tenant.receive(running)
    assert answer["code"] == 1 and answer["message"].startswith("BoxSessionNotFoundError: ")


def test_b14_nothing_is_left_without_an_answer(tenant, place):
    running = tenant.begin("s", "sleep 600", place / "started", host_path=str(place))
    tenant.of(2).ok("box_status")
    assert tenant.receive(running)["message"] == "PermissionError: Stale Box placement generation"
    tenant.generation = 2


def test_b15_many_at_once_wait_for_their_turn(tenant):
    sent = [tenant.send("box_exec", session_id=f"s{number}", cmd=f"echo {number}") for number in range(16)]
    assert [tenant.receive(seq)["data"]["stdout"] for seq in sent] == [str(number) for number in range(16)]


def test_b16_a_polite_signal_is_a_polite_end(start_daemon):
    daemon = start_daemon()
    with Rpc(daemon.port) as rpc:
        rpc.tenant("w").shell("s", "trap '' TERM; while :; do sleep 3.1415; done")
    daemon.stop()
    assert not processes_with("sleep 3.1415")


def test_b17_another_runtime_on_this_host_keeps_its_boxes(start_daemon):
    first = start_daemon()
    with Rpc(first.port) as rpc:
        tenant = rpc.tenant("w")
        tenant.start("s", "cat")
        box = tenant.get("s")["backend_session_id"]
        second = start_daemon()
        with Rpc(second.port) as other:
            other.tenant("w").create("s")
            other.ok("box_shutdown")
        second.stop()
        assert tenant.process("s")["status"] == "running"
        assert tenant.output("s", "echo on") == "on"
        assert tenant.get("s")["backend_session_id"] == box


@pytest.mark.parametrize("size", [200_000, 3_000_000])
def test_b19_long_commands(tenant, size):
    assert tenant.output("s", f"cat <<'END' | wc -c\n{'x' * size}\nEND") == str(size + 1)


def test_b20_ids_that_look_the_same_when_made_safe_are_not_mixed_up(tenant):
    tenant.create("a b")
    for action, data in (("box_create_session", {}), ("box_exec", {"cmd": "true"})):
        message = tenant.error(action, session_id="a/b", **data)
        conflict = f"Box session {tenant.physical('a b')} already exists with session_id=a b"
        assert message == f"BoxSessionConflictError: {conflict}"
    tenant.delete("a b")
    tenant.create("a/b")


def test_b21_long_ids(tenant):
    name = "x" * 300
    assert tenant.output(name, "echo hi") == "hi"
    tenant.start(name, "cat")
    with tenant.relay(name) as relay:
        relay.send("x")
        assert relay.recv(LIMIT) == "x"
    assert tenant.delete(name) == {"deleted": name}


@pytest.mark.parametrize("value", ["nan", "inf", "Infinity", "-inf", "1e999"])
def test_b22_numbers_that_are_none(tenant, value):
    assert not math.isfinite(float(value))
    message = tenant.error("box_create_session", session_id="s", cpus=value)
    assert message.startswith("BoxValidationError: ")


def test_b23_another_memory_limit_is_a_conflict(tenant):
    tenant.create("s", memory_mb=256)
    message = tenant.error("box_exec", session_id="s", cmd="true", memory_mb=512)
    conflict = f"Box session {tenant.physical('s')} already exists with memory_mb=256"
    assert message == f"BoxSessionConflictError: {conflict}"


def test_b24_the_preview_is_the_end_of_what_was_written(tenant):
    tenant.shell("s", "printf a >&2; sleep 0.1; printf b >&2; sleep 0.1; printf 'c\\nd\\n' >&2")
    assert tenant.ended("s")["stderr_preview"] == "abc\nd"
    tenant.shell("s", "head -c 10000 /dev/zero | tr '\\0' x >&2; printf end >&2", process_id="burst")
    preview = tenant.ended("s", "burst")["stderr_preview"]
    assert preview.endswith("xend") and 3000 <= len(preview) <= 4000
    assert set(preview[:-3]) == {"x"}


def test_b26_the_environment_is_not_in_the_list_of_processes(tenant):
    secret = f"secret-{time.monotonic_ns()}"
    tenant.shell("s", "exec sleep 60", env={"SECRET": secret})
    assert tenant.output("s", "sleep 0.2; echo ${#SECRET}", env={"SECRET": secret}) == str(len(secret))
    assert not processes_with(secret)


def test_b28_a_request_that_is_no_upgrade_pins_nothing(start_daemon):
    daemon = start_daemon("caisson: {langbot: {legacy: false}}")
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
    connection.request("GET", "/rpc/ws", headers={"X-LangBot-Instance-Id": "first"})
    assert connection.getresponse().status == 400
    connection.close()
    with Rpc(daemon.port, "silent"), Rpc(daemon.port, "second") as second:
        second.ping()
        with pytest.raises(Refused):
            Rpc(daemon.port, "third")

    def third():
        try:
            return Rpc(daemon.port, "third")
        except Refused:
            return None

    # With the last of its connections an instance is forgotten.
    with wait_until(third, "another instance is let in") as rpc:
        rpc.ping()
        rpc.tenant("w", instance="third").ok("box_status")


def test_b29_limits_count_as_soon_as_they_are_given(start_daemon, tmp_path):
    with Rpc(start_daemon().port) as rpc:
        tenant = rpc.tenant("w")
        rpc.ok("box_init", {"limits": {"max_rpc_file_bytes": 10, "max_admission_records": 1}})
        chunk = {"file_key": "k", "file_length": 12, "chunk_index": 0, "chunk_amount": 1, "chunk_size": 12}
        message = rpc.error("__file_chunk", {**chunk, "chunk_base64": "eHh4eHh4eHh4eHh4"})
        assert message == "ValueError: File transfer exceeds the configured size limit"
        tenant.ok("box_status")
        assert "fence capacity reached" in rpc.tenant("other").error("box_status")


def test_b30_a_relay_that_waits_answers_pings(tenant):
    tenant.start("s", "cat")
    with tenant.relay("s") as first, tenant.relay("s") as waiting:
        assert waiting.ping().wait(LIMIT)
        first.send("x")
        assert first.recv(LIMIT) == "x"


def test_b31_asking_for_the_status_starts_no_program(daemon, tenant, tmp_path):
    log = tmp_path / "trace"
    tracer = subprocess.Popen(
        ["strace", "-f", "-e", "trace=execve,fork,vfork", "-o", log, "-p", str(daemon.pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "attached" in tracer.stderr.readline()
    for _ in range(20):
        tenant.ok("box_status")
        tenant.rpc.ok("box_health")
        tenant.rpc.ok("box_get_backend_info")
    tracer.send_signal(signal.SIGINT)
    tracer.wait(60)
    tracer.stderr.close()
    assert "execve" not in log.read_text() and "fork" not in log.read_text()


def test_b32_names_can_be_resolved_with_a_network(tenant):
    assert tenant.exec("s", "cat /etc/resolv.conf", network="on")["exit_code"] == 0


def test_b33_deleting_a_skill_leaves_its_siblings(daemon, tenant):
    root = os.path.dirname(
        tenant.ok("box_create_skill", skill={"name": "first", "instructions": "x"})["skill"]["package_root"]
    )
    for name in ("one", "two"):
        os.makedirs(f"{root}/group/{name}")
        with open(f"{root}/group/{name}/SKILL.md", "w") as entry:
            entry.write(skill(name))
    names = {one["name"] for one in tenant.ok("box_list_skills")["skills"]}
    assert names == {"first", "one", "two"}
    assert tenant.ok("box_delete_skill", name="one") == {"deleted": "one"}
    assert not os.path.exists(f"{root}/group/one") and os.path.exists(f"{root}/group/two/SKILL.md")
    for name in ("two", "first"):
        tenant.ok("box_delete_skill", name=name)
    assert os.listdir(root) == []


def test_b34_split_requests_of_old_clients_are_put_together(legacy):
    request = json.dumps({"seq_id": 1, "action": "__ping", "data": {}, "padding": "x" * 200_000})
    for at in range(0, len(request), 65536):
        legacy.send_text(request[at : at + 65536])
    assert legacy.receive(1)["code"] == 0


def test_b35_answers_to_old_clients_stay_below_1_mib(legacy):
    quotes = "head -c 3000000 /dev/zero | tr '\\0' '\"'"
    legacy.send("box_exec", {"session_id": "b35", "cmd": f"{quotes}; {quotes} >&2"})
    answer = legacy.read_text(LIMIT)
    assert len(answer.encode()) < 1 << 20
    result = json.loads(answer)["data"]
    for stream in ("stdout", "stderr"):
        assert "\n... [" in result[stream] and "clipped" in result[stream]
    legacy.domain.delete("b35")


def test_b36_memory_and_processes_are_limited(tenant):
    assert (
        tenant.exec("s", "head -c 300m /dev/zero | tail -c 200m | wc -c; exit 1", memory_mb=64)["stdout"] != "209715200"
    )
    count = "for n in $(seq 40); do sleep 2 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l"
    shown = tenant.exec("t", count, pids_limit=12)
    assert shown["stdout"] == "" or int(shown["stdout"].split()[-1]) <= 13


@pytest.mark.slow
def test_b37_persistent_sessions_may_have_an_end(start_daemon):
    daemon = start_daemon("caisson: {persistent_idle_limit_sec: 1}")
    with Rpc(daemon.port) as rpc:
        tenant = rpc.tenant("w")
        tenant.create("s", persistent=True)
        wait_until(lambda: tenant.sessions() == set(), "the end of a session that nobody uses")


def test_b38_every_socket_learns_of_the_end(start_daemon):
    daemon = start_daemon()
    with Rpc(daemon.port) as idle, Rpc(daemon.port) as busy, ThreadPoolExecutor() as pool:
        busy.ping()
        busy.tenant("w").send("box_exec", session_id="s", cmd="sleep 600")
        codes = [pool.submit(rpc.close_code) for rpc in (idle, busy)]
        daemon.signal(signal.SIGTERM)
        assert [code.result() for code in codes] == [1001, 1001]
        assert idle.socket.protocol.close_reason == "Box runtime shutting down"
    daemon.process.wait(LIMIT)  # a second signal would cut it short
    daemon.stop()
