"""The routes of managed processes, what they tell and what they keep to themselves."""

import json
import time
from datetime import datetime, timedelta, timezone

import pytest

from rest.daemon import session_path
from rest.host import wait_until

from .managed import (
    output,
    process_path,
    remove,
    show,
    signal,
    start,
    start_python,
    start_shell,
    wait_for_end,
    wait_for_output,
)
from .relay import Relay

# Starting.


def test_a_process_is_shown_as_it_is(client, name):
    started = start(client, name, "cat", "-u", env={"B": "2", "A": "1"}, cwd="/tmp", process_id="p")
    assert started.pop("pid") > 1
    assert datetime.fromisoformat(started.pop("started_at"))
    assert started == {
        "session_id": name, "process_id": "p", "status": "running", "command": "cat", "args": ["-u"],
        "cwd": "/tmp", "env_keys": ["A", "B"], "attached": False, "exited_at": None, "exit_code": None,
        "stderr_preview": "", "restarts": 0, "last_end": None, "stdout": {"begin": 0, "end": 0},
        "stderr": {"begin": 0, "end": 0},
    }  # fmt: skip
    listed = client("GET", session_path(name) + "/managed-processes").json
    assert [process["process_id"] for process in listed] == ["p"]
    client.delete(name)


def test_a_program_gets_what_was_asked_for(client, name):
    script = 'echo "$PWD|$A|$1|$2"'
    start(client, name, "sh", "-c", script, "sh", "two words", "*", env={"A": "it's $HOME"}, cwd="/tmp")
    wait_for_end(client, name)
    assert output(client, name).body == b"/tmp|it's $HOME|two words|*\n"
    client.delete(name)


def refusal(client, session, command, **spec):
    reply = client("POST", f"{session_path(session)}/managed-process", {"command": command, **spec})
    assert (reply.status, reply.code) == (422, "command_not_started"), reply
    assert client("GET", f"{session_path(session)}/managed-processes").json == []
    return reply.message


def test_a_program_that_is_not_there_is_refused(client, name):
    assert client.create(name).status == 201
    message = refusal(client, name, "no-such-program")
    assert message.startswith("no-such-program: not found in the box (PATH is ")
    assert "/nowhere:/bin" in refusal(client, name, "no-such-program", env={"PATH": "/nowhere:/bin"})
    assert "working directory /tmp" in refusal(client, name, "./no-such-program", cwd="/tmp")
    # What is there in its place.
    client.exec(name, "mkdir -p bin; ln -s /usr/bin/python3 /bin/sh bin/")
    only = {"PATH": "/workspace/bin"}
    assert refusal(client, name, "python", env=only).endswith("; there is python3")
    client.exec(name, "ln -s /bin/sh bin/uv")
    assert "; there is uv tool run" in refusal(client, name, "uvx", env=only)
    client.delete(name)


def test_a_program_that_cannot_run_is_refused(client, name):
    assert client.create(name).status == 201
    client.exec(
        name,
        "echo text > plain; "
        "printf '#!/opt/venv/bin/python3.12\\n' > script; "
        "printf '#!/usr/bin/env no-such-interpreter\\n' > by-env; "
        "cp /bin/true program; sed -i 's:/lib64/ld-linux:/lib64/ld-absent:; s:/lib/ld-linux:/lib/ld-absent:' program; "
        "chmod +x script by-env program",
    )
    assert "/workspace/plain is in the box and is not executable" in refusal(client, name, "/workspace/plain")
    message = refusal(client, name, "./script")
    assert "is run by /opt/venv/bin/python3.12, which is not in the box; there is python3" in message
    assert "is run by no-such-interpreter, which is not in the box" in refusal(client, name, "./by-env")
    message = refusal(client, name, "./program")
    assert "is loaded by /lib" in message and "ld-absent" in message
    client.delete(name)


def test_a_refused_program_leaves_the_one_that_runs(client, name):
    running = start(client, name, "sleep", "60")
    reply = client("POST", f"{session_path(name)}/managed-process", {"command": "no-such-program"})
    assert reply.status == 422
    assert show(client, name)["pid"] == running["pid"] and show(client, name)["status"] == "running"
    client.delete(name)


def test_a_profile_decides_what_is_there(client, name):
    """As it does for the shell that starts the program."""
    assert client.create(name).status == 201
    client.exec(
        name,
        "mkdir /workspace/mine; ln -s /bin/true /workspace/mine/my-server; "
        "echo 'echo noise; PATH=/workspace/mine:$PATH' > ~/.profile",
    )
    start(client, name, "my-server")
    assert wait_for_end(client, name)["exit_code"] == 0
    client.exec(name, "echo 'exit 3' > ~/.profile")
    start(client, name, "anything")  # a box that does not tell is no reason to refuse
    assert wait_for_end(client, name)["exit_code"] == 3
    client.delete(name)


@pytest.mark.parametrize(
    "spec",
    [
        {}, {"command": " "}, {"command": 1}, {"command": "x", "args": "y"}, {"command": "x", "env": {"A=": "1"}},
        {"command": "x", "cwd": "relative"}, {"command": "x", "restart": "sometimes"},
        {"command": "x", "overflow": "drop"}, {"command": "x", "journal_bytes": 1000},
        {"command": "x", "journal_bytes": 1 << 31}, {"command": "x", "tty": "perhaps"}, {"command": "x", "rows": 0},
        {"command": "x", "columns": 10001},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(client, name, spec):
    client.create(name)
    reply = client("POST", session_path(name) + "/managed-process", spec)
    assert (reply.status, reply.code) == (400, "validation_error"), reply
    assert client("GET", session_path(name) + "/managed-processes").json == []
    client.delete(name)


def test_processes_need_a_session(client, name):
    for method, path, body in [
        ("POST", session_path(name) + "/managed-process", {"command": "true"}),
        ("GET", session_path(name) + "/managed-process", None),
        ("GET", session_path(name) + "/managed-processes", None),
        ("GET", process_path(name, "p"), None),
        ("DELETE", process_path(name, "p"), None),
        ("GET", process_path(name, "p") + "/output", None),
        ("POST", process_path(name, "p") + "/signal", {"signal": 15}),
    ]:
        reply = client(method, path, body)
        assert (reply.status, reply.code) == (404, "session_not_found"), reply


def test_one_that_runs_under_the_same_id_is_replaced(client, name):
    first = start_shell(client, name, "echo first; exec sleep 8101.5")
    wait_for_output(client, name, b"first\n")
    second = start_shell(client, name, "echo second; exec sleep 8101.5")
    assert second["pid"] != first["pid"]
    wait_for_output(client, name, b"second\n")
    assert output(client, name).body == b"second\n"
    assert len(client("GET", session_path(name) + "/managed-processes").json) == 1
    client.delete(name)


IDS = ["default", "UPPER lower", "a/b", "../x", "ü-€-😀", "%2F", "a?b#c&d=e", "output", "...", "'\"\\", "x" * 200]


@pytest.mark.parametrize("process", ["", ".", "..", "ws"])
def test_an_id_that_no_path_can_name_is_refused(client, name, process):
    client.create(name)
    reply = client("POST", session_path(name) + "/managed-process", {"command": "cat", "process_id": process})
    assert (reply.status, reply.code) == (400, "validation_error"), reply
    assert "process_id" in reply.message
    client.delete(name)


@pytest.mark.parametrize("process", IDS)
def test_an_id_may_be_of_any_alphabet(daemon, client, name, process):
    started = start(client, name, "cat", process_id=process)
    assert started["process_id"] == process
    with Relay(daemon, name, process) as relay:
        relay.write("echo")
        assert relay.read() == "echo"
    assert show(client, name, process)["pid"] == started["pid"]
    assert output(client, name, process).body == b"echo\n"
    assert signal(client, name, 15, process).status == 200
    assert wait_for_end(client, name, process)["last_end"]["signal"] == 15
    remove(client, name, process)
    reply = client("GET", process_path(name, process))
    assert (reply.status, reply.code) == (404, "managed_process_not_found")
    client.delete(name)


# Secrets.


def test_the_values_of_its_environment_are_told_to_nobody(start_daemon):
    daemon, secret = start_daemon(), f"secret-{time.monotonic_ns()}"
    client = daemon.client
    start_shell(client, "s", "[ -n \"$KEY\" ] && exec cat", env={"KEY": secret}, restart="on-failure")
    answers = [
        json.dumps(show(client, "s")),
        client("GET", session_path("s") + "/managed-processes").body.decode(),
        client.get("s").body.decode(),
        client("GET", "/metrics").body.decode(),
    ]
    signal(client, "s", 9)
    wait_until(lambda: show(client, "s")["restarts"] == 1, "a restart")
    answers.append(json.dumps(show(client, "s")))
    daemon.kill()
    answers.append(daemon.read_log())
    daemon.start()
    answers.append(json.dumps(show(client := daemon.client, "s")))
    refused = client("POST", session_path("s") + "/managed-process", {"command": "", "env": {"KEY": secret}})
    assert refused.status == 400
    refused_name = client("POST", session_path("s") + "/managed-process", {"command": "x", "env": {"A=": secret}})
    assert refused_name.status == 400
    answers += [refused.body.decode(), refused_name.body.decode(), daemon.read_log()]
    for answer in answers:
        assert secret not in answer
    for file in daemon.state.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
    daemon.stop()


# Limits.


def test_no_more_run_than_the_limit(start_daemon):
    daemon = start_daemon("box: {limits: {max_managed_processes: 2}}\n")
    client = daemon.client
    for process in ("a", "b"):
        start(client, "s", "cat", process_id=process)
    reply = client("POST", session_path("s") + "/managed-process", {"command": "cat", "process_id": "c"})
    assert reply.code == "capacity_reached" and "(2)" in reply.message, reply
    # One that takes the place of another is none more; one that has ended does not count.
    start(client, "s", "cat", process_id="b")
    signal(client, "s", 9, "a")
    wait_for_end(client, "s", "a")
    start(client, "s", "cat", process_id="c")
    daemon.stop()


def test_the_oldest_ends_are_forgotten_first(start_daemon):
    daemon = start_daemon("box: {limits: {max_completed_processes: 2}}\n")
    client = daemon.client
    for process in ("a", "b", "c"):
        start(client, "s", "true", process_id=process)
        wait_for_end(client, "s", process)

    def listed():
        return [process["process_id"] for process in client("GET", session_path("s") + "/managed-processes").json]

    wait_until(lambda: listed() == ["b", "c"], "the oldest to be forgotten")
    wait_until(lambda: len(list((daemon.state / "processes").iterdir())) == 2, "the end of its streams")
    daemon.stop()


def test_an_end_is_forgotten_after_its_time(start_daemon):
    daemon = start_daemon("box: {limits: {completed_process_retention_sec: 1}}\n")
    start(daemon.client, "s", "true")
    start(daemon.client, "s", "cat", process_id="runs")
    wait_until(lambda: daemon.client("GET", process_path("s")).status == 404, "the end of the retention")
    assert show(daemon.client, "s", "runs")["status"] == "running"
    daemon.stop()


def test_the_time_of_an_end_goes_on_under_the_next_daemon(start_daemon):
    daemon = start_daemon("box: {limits: {completed_process_retention_sec: 5}}\n")
    start(daemon.client, "s", "true")
    wait_for_end(daemon.client, "s")
    daemon.kill()
    daemon.start()
    wait_until(lambda: daemon.client("GET", process_path("s")).status == 404, "the end of the retention")
    daemon.stop()


def test_a_session_with_a_process_does_not_expire(start_daemon):
    daemon = start_daemon("caisson: {session_ttl_sec: 3}\n")
    start(daemon.client, "s", "cat")
    daemon.client.output("other", "true")
    wait_until(lambda: daemon.client.get("other").status == 404, "the expiry of another session")
    assert daemon.client.get("s").status == 200
    remove(daemon.client, "s")
    wait_until(lambda: daemon.client.get("s").status == 404, "the expiry")
    daemon.stop()


# Output.


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"], ids=["1 byte", "2 bytes", "3 bytes", "4 bytes"])
def test_the_last_of_standard_error_is_shown(client, name, character):
    script = f"import os\nos.write(2, ('begin' + {character!r} * 5000 + 'end').encode())"
    start_python(client, name, script)
    preview = wait_for_end(client, name)["stderr_preview"]
    assert preview == character * 3997 + "end"
    client.delete(name)


def test_a_preview_is_text_whatever_was_written(client, name):
    start_python(client, name, "import os\nos.write(2, bytes(range(256)) * 2)")
    preview = wait_for_end(client, name)["stderr_preview"]
    assert preview == (bytes(range(256)) * 2).decode(errors="replace")
    client.delete(name)


def test_output_is_answered_from_an_offset(client, name):
    start_shell(client, name, "seq 10; echo error >&2")
    wait_for_end(client, name)
    whole = b"".join(b"%d\n" % number for number in range(1, 11))
    reply = output(client, name)
    assert reply.body == whole
    assert reply.headers["content-type"] == "application/octet-stream"
    assert [reply.headers[f"caisson-{header}"] for header in ("offset", "next-offset", "end-offset", "closed")] == [
        "0", str(len(whole)), str(len(whole)), "true"]  # fmt: skip
    reply = output(client, name, **{"from": 5, "limit": 4})
    assert (reply.body, reply.headers["caisson-next-offset"]) == (whole[5:9], "9")
    assert output(client, name, **{"from": len(whole)}).body == b""
    assert output(client, name, limit=0).body == b""
    assert output(client, name, lines=3).body == b"8\n9\n10\n"
    assert output(client, name, lines=0).body == b""
    assert output(client, name, lines=1000).body == whole
    assert output(client, name, stream="stderr").body == b"error\n"
    now = datetime.now(timezone.utc)
    assert output(client, name, since=(now - timedelta(hours=1)).isoformat()).body == whole
    assert output(client, name, since=(now + timedelta(hours=1)).isoformat()).status == 200
    client.delete(name)


def test_output_that_is_no_longer_kept_is_told(client, name):
    size = 8 << 20
    start_shell(client, name, f"head -c {size} /dev/zero", journal_bytes=1 << 20)
    kept = wait_for_end(client, name)["stdout"]
    assert kept["end"] == size and kept["begin"] > 0
    reply = output(client, name, **{"from": 0})
    assert int(reply.headers["caisson-offset"]) == kept["begin"]
    assert len(reply.body) == size - kept["begin"]
    client.delete(name)


@pytest.mark.parametrize(
    "query",
    [
        {"stream": "stdin"}, {"stream": ""}, {"from": "-1"}, {"from": "x"}, {"from": 5}, {"from": 1 << 64},
        {"limit": "-1"}, {"limit": "all"}, {"lines": "-1"}, {"lines": "x"}, {"since": "yesterday"},
        {"since": "2026-01-31T12:00:00"}, {"from": 0, "lines": 1}, {"since": "2026-01-31T12:00:00Z", "from": 0},
    ],
)  # fmt: skip
def test_a_question_about_output_that_makes_no_sense_is_refused(client, name, query):
    start_shell(client, name, "echo out")
    wait_for_end(client, name)
    reply = output(client, name, **query)
    assert (reply.status, reply.code) == (400, "validation_error"), reply
    assert any(field in reply.message for field in query)
    client.delete(name)


def test_output_of_one_that_runs_is_not_closed(client, name):
    start(client, name, "cat")
    assert output(client, name).headers["caisson-closed"] == "false"
    client.delete(name)


# Signals.


@pytest.mark.parametrize("body", [{}, {"signal": 0}, {"signal": 65}, {"signal": "TERM"}, {"signal": -9}, {"number": 9}])
def test_a_signal_that_does_not_exist_is_refused(client, name, body):
    start(client, name, "cat")
    reply = client("POST", process_path(name) + "/signal", body)
    assert (reply.status, reply.code) == (400, "validation_error"), reply
    assert show(client, name)["status"] == "running"
    client.delete(name)


def test_a_signal_reaches_the_group(client, name):
    start_shell(client, name, "trap 'echo caught; exit 4' USR1; sleep 8102.5 & echo ready; wait")
    wait_for_output(client, name, b"ready\n")
    assert signal(client, name, 10).status == 200
    assert wait_for_end(client, name)["exit_code"] == 4
    assert output(client, name).body == b"ready\ncaught\n"
    assert signal(client, name, 10).status == 200  # nobody is there any more
    client.delete(name)
