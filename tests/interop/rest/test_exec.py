"""What a command in a session sees, and what its caller hears of it."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from .daemon import Client, Daemon, session_path
from .host import processes_with, wait_until

MIB = 1 << 20


@pytest.fixture
def session(client, name):
    yield name
    client.delete(name)


def exec_request(port, name, body, tail="/exec"):
    """The bytes of an exec, for a socket of one's own."""
    data = json.dumps(body).encode()
    head = f"POST {session_path(name)}{tail} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def events(stream):
    """The server-sent events of a response, as they come."""
    kind = None
    for line in stream:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            kind = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield kind, json.loads(text.removeprefix("data: "))


def open_stream(daemon, name, cmd, **spec):
    client = Client(daemon.port)
    client.send("POST", session_path(name) + "/exec/stream", {"cmd": cmd, **spec})
    response = client.connection().getresponse()
    assert response.status == 200
    return client, response


# How it ends.

ENDINGS = [
    ("true", 0, None),
    ("false", 1, None),
    ("exit 42", 42, None),
    ("exit 255", 255, None),
    ("nosuchcommand", 127, None),
    ("/etc/passwd", 126, None),
    ("kill -9 $$", 137, 9),
    ("kill -TERM $$", 143, 15),
    ("sh -c 'kill -SEGV $$'", 139, None),
    ("# only a comment", 0, None),
    ("if", 2, None),
    ("cd /nonexistent", 2, None),
]


@pytest.mark.parametrize("cmd, exit_code, number", ENDINGS, ids=[row[0] for row in ENDINGS])
def test_the_end_of_a_command_is_told(client, session, cmd, exit_code, number):
    result = client.run(session, cmd)
    assert (result["status"], result["exit_code"], result["signal"]) == ("completed", exit_code, number), result
    assert client.output(session, "echo next") == "next"


def test_a_result_has_its_seven_fields(client, session):
    result = client.run(session, "echo out; echo err >&2; exit 3")
    assert result["session_id"] == session and result["backend_name"] == "native"
    assert (result["status"], result["exit_code"]) == ("completed", 3)
    assert (result["stdout"], result["stderr"]) == ("out", "err")
    assert type(result["duration_ms"]) is int and 0 <= result["duration_ms"] < 60_000


# What it writes.

OUTPUTS = [
    (r"printf '  a\n\n'", "a"),
    (r"printf '\t\r\n x y \v\f'", "x y"),
    (r"printf 'a\n\nb'", "a\n\nb"),
    (r"printf 'caf\303\251'", "café"),
    (r"printf '\360\237\230\200'", "😀"),
    (r"printf 'a\377b'", "a\ufffdb"),
    (r"printf '\342\202'", "\ufffd"),
    (r"printf '\342\202x'", "\ufffdx"),
    (r"printf '\360\237\230'", "\ufffd"),
    (r"printf '\300\200'", "\ufffd\ufffd"),
    (r"printf '\355\240\200'", "\ufffd\ufffd\ufffd"),
    (r"printf '\364\220\200\200'", "\ufffd\ufffd\ufffd\ufffd"),
    (r"printf 'a\000b'", "a\0b"),
    (r"printf '\033[31mred'", "\033[31mred"),
    (r"""printf '"quoted" \\ back'""", '"quoted" \\ back'),
]


@pytest.mark.parametrize("cmd, text", OUTPUTS, ids=[row[0] for row in OUTPUTS])
def test_output_is_shown_as_text(client, session, cmd, text):
    result = client.run(session, f"{cmd}; {cmd} >&2")
    assert result["stdout"] == text
    assert result["stderr"] == text


CHARACTERS = "aé€😀"  # of one, two, three and four bytes


@pytest.fixture(scope="module")
def small_output(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("daemon"), "caisson: {max_output_bytes: 100}\n").start()
    yield daemon
    daemon.stop()


@pytest.mark.parametrize("offset", range(11))
def test_a_cut_never_splits_a_character(small_output, offset):
    text = "x" * offset + CHARACTERS * 30
    data = text.encode()
    escaped = "".join(f"\\{byte:03o}" for byte in data)
    result = small_output.client.run("cut", f"printf '{escaped}'")
    kept = data[:100].decode(errors="ignore")
    lost = len(data) - 100
    assert result["stdout_discarded"] == lost
    assert result["stdout"] == f"{kept}\n... [raw output clipped at 100 bytes, {lost} bytes discarded]"


@pytest.mark.parametrize("size", [99, 100, 101])
def test_the_clip_begins_exactly_above_the_limit(small_output, size):
    result = small_output.client.run("cut", f"head -c {size} /dev/zero | tr '\\0' x >&2")
    suffix = "" if size <= 100 else "\n... [raw output clipped at 100 bytes, 1 bytes discarded]"
    assert result["stderr"] == "x" * min(size, 100) + suffix
    assert result["stderr_discarded"] == max(size - 100, 0)


@pytest.mark.parametrize("extra", [0, 1, 12345, 20 * MIB])
def test_the_first_mebibyte_of_each_stream_is_kept(client, session, extra):
    result = client.run(session, f"head -c {MIB + extra} /dev/zero | tr '\\0' x; echo -n fine >&2")
    suffix = f"\n... [raw output clipped at {MIB} bytes, {extra} bytes discarded]" if extra else ""
    assert result["stdout"] == "x" * MIB + suffix
    assert (result["stdout_discarded"], result["stderr_discarded"]) == (extra, 0)
    assert result["stderr"] == "fine"


# Time.


def test_a_timeout_keeps_what_was_written_and_ends_the_session(client, session):
    result = client.run(session, "echo partial; sleep 1000.125", timeout_sec=3)
    assert (result["status"], result["exit_code"]) == ("timed_out", None)
    assert result["stdout"] == "partial"
    assert result["stderr"] == "Command timed out after 3 seconds."
    assert 3000 <= result["duration_ms"] < 60_000
    assert client.get(session).status == 404
    assert not processes_with("sleep 1000.125")


def test_a_timeouts_own_errors_are_shown_instead_of_the_sentence(client, session):
    assert client.run(session, "echo oops >&2; sleep 100", timeout_sec=3)["stderr"] == "oops"


def test_a_timeout_can_end_the_command_alone(client, session):
    client.output(session, "echo kept > /workspace/file")
    result = client.run(
        session, "echo partial; sleep 1000.25 & sleep 1000.25", timeout_sec=3, on_timeout="end_command"
    )
    assert (result["status"], result["exit_code"], result["stdout"]) == ("timed_out", None, "partial")
    wait_until(lambda: not processes_with("sleep 1000.25"), "the end of the command's processes")
    assert client.output(session, "cat /workspace/file") == "kept"


def test_waiting_for_a_turn_is_no_part_of_the_timeout(daemon, client, session):
    client.create(session)
    slow = Client(daemon.port)
    slow.send("POST", session_path(session) + "/exec", {"cmd": "until [ -e /tmp/go ]; do sleep 0.01; done; sleep 3.2"})
    wait_until(lambda: client.get(session).json["state"] == "busy", "the first exec at work")
    quick = Client(daemon.port)
    quick.send("POST", session_path(session) + "/exec", {"cmd": "echo quick", "timeout_sec": 3})
    client.put_file(session, "/tmp/go", b"")
    assert slow.receive().json["status"] == "completed"
    result = quick.receive().json
    assert (result["status"], result["stdout"]) == ("completed", "quick")
    assert result["duration_ms"] < 3000


def test_a_background_process_does_not_delay_the_answer(client, session):
    result = client.run(session, "sleep 1000.5 & echo started", timeout_sec=20)
    assert (result["status"], result["stdout"]) == ("completed", "started")
    assert result["duration_ms"] < 20_000
    client.delete(session)
    assert not processes_with("sleep 1000.5")


# What it is given.


def test_a_command_may_have_sixteen_mebibytes(client, session):
    begin, end = "echo begin; : '", "'; echo end"
    result = client.run(session, begin + "x" * (16 * MIB - len(begin + end)) + end)
    assert (result["exit_code"], result["stdout"]) == (0, "begin\nend"), result["stderr"][:200]


def test_a_command_above_sixteen_mebibytes_is_refused(client, session):
    reply = client.exec(session, "true #" + "x" * (16 * MIB - 5))
    assert (reply.status, reply.code) == (413, "payload_too_large")
    assert "16777216" in reply.message
    assert client.get(session).status == 404


def test_eight_mebibytes_may_be_of_any_characters(client, session):
    text = "\u0001" * (MIB) + "é" * (MIB // 2)
    assert client.output(session, f"printf %s '{text}' | wc -c") == str(2 * MIB)


SCRIPTS = {
    "here-document": ("cat <<'END'\n$HOME `id`\n  two\nEND\necho after", "$HOME `id`\n  two\nafter"),
    "lines": ("a=1\nb=2\n\nif [ $a = 1 ]; then\n  echo $((a + b))\nfi\n", "3"),
    "function": ("f() {\n  echo \"f $1\"\n}\nf x\nf y", "f x\nf y"),
    "quotes": ("echo \"it's\" 'a \"b\"' \\$x", "it's a \"b\" $x"),
    "trailing comment": ("echo a # not this", "a"),
    "trailing backslash": ("echo a \\\n  b", "a b"),
    "first line fails": ("false\necho reached", "reached"),
    "subshell": ("(cd /tmp && pwd); pwd", "/tmp\n/workspace"),
    "crlf": ("echo 'a\r\nb'", "a\r\nb"),
    "unicode": ("echo 'größe 大小'", "größe 大小"),
    "dash": ("printf -- '-n\\n'", "-n"),
    "exec": ("exec echo replaced", "replaced"),
    "zero": ("echo $#", "0"),
}


@pytest.mark.parametrize("script, output", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_is_run_as_it_is_written(client, session, script, output):
    assert client.output(session, script) == output


@pytest.mark.parametrize("data", ["", "one line\n", "no end", "é\n大", "x" * MIB, "\0binary\0"], ids=lambda d: repr(d)[:20])
def test_standard_input_is_given_and_ends(client, session, data):
    assert client.output(session, "wc -c", stdin=data) == str(len(data.encode()))


def test_without_standard_input_a_reader_sees_its_end(client, session):
    assert client.run(session, "cat; echo $?")["stdout"] == "0"


def test_a_command_may_ignore_its_input(client, session):
    assert client.output(session, "echo ignored", stdin="x" * (4 * MIB)) == "ignored"


ODD = {
    "SPACE": " a  b ", "QUOTES": "'\"`$(id)${HOME}", "NEWLINES": "a\nb\n", "UNICODE": "大小é", "EMPTY": "",
    "EQUALS": "a=b=c", "LONG": "x" * 100_000, "BACKSLASH": "\\n\\", "DASH": "-n", "SEMICOLON": "; exit 9",
}  # fmt: skip


@pytest.mark.parametrize("variable", ODD)
def test_an_environment_variable_is_data(client, session, variable):
    script = f"python3 -c 'import os, sys; sys.stdout.write(ascii(os.environ[\"{variable}\"]))'"
    assert client.output(session, script, env=ODD) == ascii(ODD[variable])


def test_an_environment_is_of_one_call(client, session):
    assert client.output(session, "echo $A", env={"A": "1"}) == "1"
    assert client.output(session, "echo $A") == ""
    assert client.output(session, "echo $LANG", env={"LANG": "C"}) == "C"


def test_a_workdir_is_made(client, session):
    assert client.output(session, "pwd", workdir="/workspace/new/deep dir's") == "/workspace/new/deep dir's"


def test_a_workdir_that_cannot_be_made_fails_the_command(client, session):
    result = client.run(session, "echo ran", workdir="/proc/nowhere")
    assert result["exit_code"] != 0 and result["stdout"] == ""
    assert "/proc/nowhere" in result["stderr"]


def test_running_out_of_memory_is_told_with_the_limit(client, session):
    result = client.run(session, "python3 -c 'x = bytearray(200 << 20)'; echo $?", memory_mb=64)
    assert result["oom"] and result["oom_limit_mb"] == 64
    assert result["stdout"] == "137"
    assert not client.run(session, "echo fine", memory_mb=64)["oom"]


# Order.


def test_execs_in_one_session_run_in_the_order_they_came(daemon, client, session):
    client.create(session)
    body = {"cmd": "until [ -e /tmp/go ]; do sleep 0.01; done"}
    callers = []
    for number in range(12):
        busy = client.metric("connections_busy")
        caller = socket.create_connection(("127.0.0.1", daemon.port), timeout=30)
        caller.sendall(exec_request(daemon.port, session, body))
        callers.append(caller)
        wait_until(lambda: client.metric("connections_busy") > busy, "the exec at work")
        body = {"cmd": f"echo {number} >> /tmp/order"}
    client.put_file(session, "/tmp/go", b"")
    for caller in callers:
        assert caller.recv(65536).startswith(b"HTTP/1.1 200")
        caller.close()
    assert client.output(session, "cat /tmp/order").split() == [str(n) for n in range(11)]


def test_execs_in_two_sessions_run_at_the_same_time(daemon, client, name, tmp_path):
    tmp_path.chmod(0o777)

    def meet(mine, other):
        cmd = f"touch {mine}; until [ -e {other} ]; do sleep 0.01; done; echo met"
        return Client(daemon.port).output(f"{name} {mine}", cmd, host_path=str(tmp_path), timeout_sec=10)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(meet, "ab", "ba")) == ["met", "met"]
    for which in "ab":
        client.delete(f"{name} {which}")


# The streaming form.


def test_a_stream_shows_output_as_it_comes(daemon, client, session):
    cmd = "echo one; echo oops >&2; until [ -e /tmp/go ]; do sleep 0.01; done; echo two; exit 3"
    caller, response = open_stream(daemon, session, cmd)
    seen = []
    for kind, data in events(response):
        seen.append((kind, data))
        if {k for k, _ in seen} == {"stdout", "stderr"} and len(seen) == 2:
            client.put_file(session, "/tmp/go", b"")
    caller.close()
    assert sorted(seen[:2]) == [("stderr", {"text": "oops\n"}), ("stdout", {"text": "one\n"})]
    assert seen[2] == ("stdout", {"text": "two\n"})
    kind, result = seen[-1]
    assert kind == "result" and result["exit_code"] == 3
    assert (result["stdout"], result["stderr"]) == ("one\ntwo", "oops")


def test_a_stream_waits_for_whole_characters(daemon, client, session):
    cmd = "printf 'a\\303'; until [ -e /tmp/go ]; do sleep 0.01; done; printf '\\251\\377'"
    caller, response = open_stream(daemon, session, cmd)
    text = ""
    for kind, data in events(response):
        if kind == "stdout":
            text += data["text"]
            client.put_file(session, "/tmp/go", b"")
    caller.close()
    assert text == "aé\ufffd"


def test_a_stream_ends_with_an_error_when_the_exec_fails(daemon, client, session):
    client.create(session)
    caller, response = open_stream(daemon, session, "true", memory_mb=64)
    assert list(events(response)) == [
        ("error", {"error": {"code": "session_conflict",
                             "message": f"session {session} already exists with memory_mb=512: ask for the same, "
                                        f"remove the session with `caisson rm {session}`, or choose another name"}})
    ]  # fmt: skip
    caller.close()


def test_a_stream_shows_all_of_a_large_output(daemon, client, session):
    caller, response = open_stream(daemon, session, f"head -c {5 * MIB} /dev/zero | tr '\\0' x")
    shown = 0
    for kind, data in events(response):
        if kind == "stdout":
            shown += len(data["text"])
    caller.close()
    assert kind == "result" and data["stdout_discarded"] == 4 * MIB
    assert shown == 5 * MIB


# Callers that go away.


def leave(daemon, session, body, tail):
    marker = body["cmd"].split(";")[-1].strip()
    caller = socket.create_connection(("127.0.0.1", daemon.port), timeout=30)
    caller.sendall(exec_request(daemon.port, session, body, tail))
    wait_until(lambda: processes_with(marker), "the command at work")
    caller.close()
    return marker


@pytest.mark.parametrize("tail", ["/exec", "/exec/stream"])
def test_the_command_of_a_caller_who_goes_away_ends(daemon, client, session, tail):
    client.create(session)
    marker = leave(daemon, session, {"cmd": f"echo; sleep 2000.{len(tail)}"}, tail)
    wait_until(lambda: not processes_with(marker), "the end of the command")
    assert client.output(session, "echo usable") == "usable"


@pytest.mark.parametrize("tail", ["/exec", "/exec/stream"])
def test_a_caller_who_goes_away_may_have_the_command_kept(daemon, client, session, tail):
    client.create(session)
    marker = f"sleep 3000.{len(tail)}"
    body = {"cmd": f"echo; ({marker} &) ; until [ -e /tmp/go ]; do sleep 0.01; done; echo kept > /tmp/kept; {marker}"}
    leave(daemon, session, {**body, "on_disconnect": "keep"}, tail)
    wait_until(lambda: client.metric("connections_busy") <= 2, "the connection noticed")
    client.put_file(session, "/tmp/go", b"")
    wait_until(lambda: client.get_file(session, "/tmp/kept").body == b"kept\n", "the work of the command")
    assert client.get(session).json["state"] == "busy"


def test_a_caller_who_goes_away_while_waiting_never_runs_its_command(daemon, client, session):
    client.create(session)
    first = Client(daemon.port)
    first.send("POST", session_path(session) + "/exec", {"cmd": "until [ -e /tmp/go ]; do sleep 0.01; done"})
    wait_until(lambda: client.get(session).json["state"] == "busy", "the first exec at work")
    busy = client.metric("connections_busy")
    caller = socket.create_connection(("127.0.0.1", daemon.port), timeout=30)
    caller.sendall(exec_request(daemon.port, session, {"cmd": "touch /tmp/wrong"}))
    wait_until(lambda: client.metric("connections_busy") > busy, "the second exec waiting")
    caller.close()
    wait_until(lambda: client.metric("connections_busy") == busy, "the second exec gone")
    client.put_file(session, "/tmp/go", b"")
    assert first.receive().status == 200
    assert client.run(session, "ls /tmp/wrong")["exit_code"] != 0


# Names.

NAMES = ["group_1234", "大小", "ünï", "имя", "a b", "a/b", "a\\b", "a;b", "$(id)", "-rf", "..x", "%2e", "a\nb",
         "\x1b[31m", "😀" * 20, "x" * 5000, "名" * 400, "'\"", "a?b#c&d=e", "~", "\u202eabc", "a\x7f"]  # fmt: skip


@pytest.mark.parametrize("session_name", NAMES, ids=lambda n: ascii(n)[:20])
def test_a_session_may_have_any_name(client, session_name):
    assert client.output(session_name, "echo here") == "here"
    assert client.get(session_name).json["session_id"] == session_name
    assert client.delete(session_name).json == {"deleted": session_name}


def test_a_name_that_does_not_fit_into_a_head_is_refused(client):
    fits, too_long = "名" * 1700, "名" * 5000  # nine bytes a character in a path
    assert client.create(fits).status == 201
    assert client.delete(fits).status == 200
    reply = client.create(too_long)
    assert (reply.status, reply.code) == (431, "payload_too_large")


def test_names_that_look_alike_are_different_sessions(client):
    names = ["a/b", "a_b", "a-b", "a b", "a.b", "A_B", "a__b", "a\\b", "ａ_b", "é", "e\u0301", "x" * 5000, "x" * 4999]
    for session_name in names:
        client.output(session_name, "cat > /workspace/me", stdin=session_name)
    for session_name in names:
        assert client.get_file(session_name, "me").body.decode() == session_name
    for session_name in names:
        client.delete(session_name)


def test_many_callers_get_their_own_answers(daemon):
    def call(number):
        own = Client(daemon.port)
        return [own.output(f"many {number % 8}", f"echo {number} {i}") for i in range(5)]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(call, range(32)))
    assert answers == [[f"{number} {i}" for i in range(5)] for number in range(32)]
    for number in range(8):
        daemon.client.delete(f"many {number}")
