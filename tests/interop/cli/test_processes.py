"""Managed processes of a real daemon: start, ps, logs, signal, stop and attach."""

import json
import re
import signal
import subprocess

import pytest

LIMIT = 60
READY = "print('ready', flush=True)"
# Reads lines and tells them; says how it was interrupted.
ECHO = """
import signal, sys
def interrupted(number, frame):
    print("interrupted", flush=True)
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
for line in sys.stdin:
    print("got " + line, end="", flush=True)
print("end of input", flush=True)
sys.exit(7)
"""


@pytest.fixture
def session(daemon):
    """The name of a session that goes after the test."""
    yield "work"
    daemon("rm", "--all")


def started(daemon, session, *command, options=()):
    done = daemon("start", "-s", session, *options, "--", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def python(daemon, session, code, *options):
    return started(daemon, session, "python3", "-c", code, options=options)


def rows_of(done):
    assert done.returncode == 0, done.stderr
    return [re.split(r" {2,}", line) for line in done.stdout.splitlines()]


def followed(daemon, session, *arguments):
    """Returns when the process has ended; what it wrote."""
    done = daemon("logs", "-f", *arguments, session)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- start, ps ----


def test_start_makes_the_session_and_prints_the_id(daemon, session):
    assert started(daemon, session, "sleep", "1000") == "default"
    assert started(daemon, session, "sleep", "1000", options=["--id", "my server"]) == "my server"
    assert daemon.names() == [session]


def test_start_takes_what_a_process_and_its_session_can_be_given(daemon, session, tmp_path):
    (tmp_path / "file").write_text("shared\n")
    code = "import os; print(os.environ['A'], os.getcwd(), open('/workspace/file').read(), end='')"
    options = ["-e", "A=x y", "-w", "/tmp", "--memory", "64", "--restart", "never", "--journal", "2M"]
    box = ["--workspace", f"{tmp_path}:ro", "--pids", "40"]
    started(daemon, session, "python3", "-c", code, options=[*options, *box, "--hold"])
    assert followed(daemon, session) == "x y /tmp shared\n"
    assert json.loads(daemon("inspect", session).stdout)["pids_limit"] == 40


def test_start_in_a_session_with_other_settings_is_refused(daemon, session):
    started(daemon, session, "true", options=["--pids", "40"])
    done = daemon("start", "-s", session, "--pids", "41", "--", "true")
    assert done.returncode == 125
    assert f"`caisson rm {session}`" in done.stderr
    started(daemon, session, "true")


def test_start_tells_the_process_as_json(daemon, session):
    done = daemon("start", "-s", session, "--json", "--id", "x", "--", "sleep", "1000")
    process = json.loads(done.stdout)
    assert (process["process_id"], process["status"], process["args"]) == ("x", "running", ["1000"])
    assert process["pid"] > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-s", "a"], "start: there is no command"),
        (["-s", "a", "sleep"], "start: write the command behind --"),
        (["--", "true"], "caisson start needs --session"),
        (["-s", "a", "--restart", "often", "--", "true"], "--restart: "),
        (["-s", "a", "--journal", "1", "--", "true"], "--journal: journal_bytes"),
        (["-s", "a", "--memory", "x", "--", "true"], "--memory: "),
        (["-s", "a", "--id", "..", "--", "true"], 'process "..": '),
        (["-s", "a", "-w", "x", "--", "true"], "--workdir: "),
    ],
)
def test_a_bad_option_is_named(daemon, arguments, sentence):
    done = daemon("start", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"caisson: {sentence}"), done.stderr


def test_ps_lists_the_processes_of_one_or_all_sessions(daemon, session):
    started(daemon, session, "sleep", "1000")
    started(daemon, session, "sh", "-c", "exit 7", options=["--id", "ended"])
    started(daemon, "other", "sh", "-c", "kill -9 $$", options=["--id", "killed"])
    daemon("logs", "-f", session, "ended")
    daemon("logs", "-f", "other", "killed")
    head, *rows = rows_of(daemon("ps"))
    assert head == ["SESSION", "PROCESS", "STATUS", "PID", "RESTARTS", "UPTIME", "COMMAND"]
    by_name = {row[1]: row for row in rows}
    assert by_name["default"][2] == "running" and by_name["default"][6] == "sleep 1000"
    assert int(by_name["default"][3]) > 0
    assert by_name["ended"][2:4] == ["exited", "-"]
    assert re.fullmatch(r"exit 7, \d+s ago", by_name["ended"][5])
    assert by_name["ended"][6] == "sh -c 'exit 7'"
    assert re.fullmatch(r"SIGKILL, \d+s ago", by_name["killed"][5])
    assert {row[1] for row in rows_of(daemon("ps", session))[1:]} == {"default", "ended"}
    assert {p["process_id"] for p in json.loads(daemon("ps", "--json").stdout)} == set(by_name)


def test_ps_of_no_session_is_an_error(daemon):
    done = daemon("ps", "nobody")
    assert done.returncode == 125 and "nobody" in done.stderr
    assert json.loads(daemon("ps", "--json", "nobody").stdout)["error"]["code"] == "session_not_found"


# ---- logs ----


def test_logs_print_every_byte_as_it_was_written(daemon, session):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40000); sys.stderr.write('oops\\n')"
    python(daemon, session, code)
    daemon("logs", "-f", session, text=False)
    done = daemon("logs", session, text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == bytes(range(256)) * 40000
    assert daemon("logs", "--stderr", session).stdout == "oops\n"
    assert daemon("logs", "-f", "--stderr", session).stdout == "oops\n"


def test_logs_begin_where_told(daemon, session):
    started(daemon, session, "sh", "-c", "printf 'one\\ntwo\\nthree\\n'")
    assert followed(daemon, session) == "one\ntwo\nthree\n"
    assert daemon("logs", "--since", "4", session).stdout == "two\nthree\n"
    assert daemon("logs", "-n", "1", session).stdout == "three\n"
    assert daemon("logs", "-n", "0", session).stdout == ""
    assert daemon("logs", "--since", "1h", session).stdout == "one\ntwo\nthree\n"
    for options, sentence in [
        (["--since", "soon"], '--since: "soon" is neither'),
        (["--since", "1", "-n", "1"], "--since, -n: "),
        (["-n", "x"], '-n: "x" is not'),
        (["--since", "999"], "from: 999 lies behind the end"),
    ]:
        done = daemon("logs", *options, session)
        assert done.returncode == 2 and sentence in done.stderr


def test_logs_tell_what_is_no_longer_kept(daemon, session):
    python(daemon, session, "import sys; sys.stdout.write('x' * (8 << 20))", "--journal", "1M")
    assert followed(daemon, session, "--stderr") == ""
    done = daemon("logs", session)
    match = re.search(r"the (\d+) bytes from offset 0 to (\d+) are no longer kept", done.stderr)
    assert match and match[1] == match[2]
    assert int(match[1]) + len(done.stdout) == 8 << 20


def test_logs_follow_until_the_end(daemon, session):
    python(daemon, session, f"{READY}; input(); print('bye')")
    process = daemon.begin("logs", "-f", session)
    assert process.stdout.readline() == b"ready\n"
    assert daemon("attach", session, input="go\n").stdout == "ready\nbye\n"
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (0, b"bye\n", b"")


def test_logs_end_with_their_reader(daemon, session):
    started(daemon, session, "yes")
    process = daemon.begin("logs", "-f", session)
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(LIMIT) == 128 + signal.SIGPIPE
    process.stderr.close()


def test_logs_follow_through_the_death_of_the_daemon(daemon, session):
    python(daemon, session, ECHO)
    process = daemon.begin("logs", "-f", session)
    assert process.stdout.readline() == b"ready\n"
    daemon.kill()
    assert b"the connection to the daemon is lost" in process.stderr.readline()
    daemon.start()
    assert b"connected again" in process.stderr.readline()
    assert daemon("attach", session, input="a\n").returncode == 7
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (0, b"got a\nend of input\n", b"")


# ---- signal, stop ----


def test_signals_have_names_and_numbers(daemon, session):
    code = """
import signal as s
s.pthread_sigmask(s.SIG_BLOCK, [1, 10, 12])
print("ready", flush=True)
while True:
    print(int(s.sigwait([1, 10, 12])), flush=True)
"""
    python(daemon, session, code)
    process = daemon.begin("logs", "-f", session)
    assert process.stdout.readline() == b"ready\n"
    for sent, number in [("HUP", b"1\n"), ("SIGUSR1", b"10\n"), ("12", b"12\n")]:
        assert daemon("signal", session, sent).returncode == 0
        assert process.stdout.readline() == number
    told = json.loads(daemon("signal", "--json", session, "default", "KILL").stdout)
    assert told["process_id"] == "default"
    assert process.wait(LIMIT) == 0
    process.stdout.close()
    process.stderr.close()
    late = daemon("signal", session, "TERM")
    assert late.returncode == 125 and "has ended" in late.stderr


def test_a_signal_must_be_one(daemon):
    assert 'caisson: "FOO" is no signal' in daemon("signal", "s", "FOO").stderr
    assert "signal: which one?" in daemon("signal", "s").stderr


def test_stop_ends_and_forgets(daemon, session):
    started(daemon, session, "sleep", "1000", options=["--restart", "always"])
    done = daemon("stop", session)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(rows_of(daemon("ps", session))) == 1
    again = daemon("stop", "--json", session)
    assert again.returncode == 125
    assert json.loads(again.stdout)["error"]["code"] == "managed_process_not_found"


# ---- attach ----


def test_attach_passes_everything_both_ways(daemon, session):
    python(daemon, session, ECHO)
    done = daemon("attach", session, input="one\ntwo\n")
    assert done.stdout == "ready\ngot one\ngot two\nend of input\n"
    assert (done.returncode, done.stderr) == (7, "")


def test_attach_passes_ten_megabytes_through(daemon, session):
    data = bytes(range(256)) * (10 << 12)
    started(daemon, session, "cat")
    done = daemon("attach", session, input=data, text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data


def test_attach_exits_as_the_process_does(daemon, session):
    started(daemon, session, "sh", "-c", "read x; echo late >&2; kill -TERM $$")
    done = daemon("attach", session, input="go\n")
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "late\n")
    # It is kept for a while, and so is how it ended.
    assert daemon("attach", session).returncode == 128 + signal.SIGTERM


def test_control_c_is_the_processs(daemon, session):
    python(daemon, session, ECHO)
    process = daemon.begin("attach", session, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"interrupted\n"
    out, err = process.communicate(b"x\n", timeout=LIMIT)
    assert (process.returncode, out, err) == (7, b"got x\nend of input\n", b"")


def test_other_signals_end_the_client_only(daemon, session):
    python(daemon, session, ECHO)
    process = daemon.begin("attach", session, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    assert daemon("attach", session, input="x\n").stdout == "got x\nend of input\n"


def test_without_input_the_process_keeps_its_own(daemon, session):
    python(daemon, session, ECHO)
    process = daemon.begin("attach", "--no-stdin", session)
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    process.communicate(timeout=LIMIT)
    done = daemon("attach", "--from", "0", session, input="x\n")
    assert done.stdout == "ready\ngot x\nend of input\n"


def test_who_comes_second_waits_until_the_first_goes(daemon, session):
    python(daemon, session, ECHO)
    first = daemon.begin("attach", session, stdin=subprocess.PIPE)
    assert first.stdout.readline() == b"ready\n"
    second = daemon.begin("attach", session, stdin=subprocess.PIPE)
    assert b"another client is attached" in second.stderr.readline()
    first.terminate()
    first.wait(LIMIT)  # before its input is closed: that would be the end of the process's, too
    first.communicate()
    out, err = second.communicate(b"x\n", timeout=LIMIT)
    assert (second.returncode, out, err) == (7, b"got x\nend of input\n", b"")


def test_who_takes_over_sends_the_other_away(daemon, session):
    python(daemon, session, ECHO)
    first = daemon.begin("attach", session, stdin=subprocess.PIPE)
    assert first.stdout.readline() == b"ready\n"
    done = daemon("attach", "--takeover", session, input="x\n")
    assert (done.returncode, done.stdout) == (7, "got x\nend of input\n")
    out, err = first.communicate(timeout=LIMIT)
    assert (first.returncode, out) == (125, b"")
    assert b"caisson: another client has taken over process default of session work" in err


def test_attach_ends_with_its_reader_and_the_process_goes_on(daemon, session):
    started(daemon, session, "yes")
    process = daemon.begin("attach", "--no-stdin", session)
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(LIMIT) == 128 + signal.SIGPIPE
    process.stderr.close()
    assert rows_of(daemon("ps", session))[1][2] == "running"


def test_a_signal_ends_attach_also_while_nobody_reads_its_output(daemon, session):
    started(daemon, session, "yes")
    process = daemon.begin("attach", "--no-stdin", session)
    assert process.stdout.readline() == b"y\n"
    process.terminate()
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    process.stdout.close()
    process.stderr.close()


def test_attach_goes_on_when_the_daemon_is_back(daemon, session):
    python(daemon, session, ECHO)
    process = daemon.begin("attach", session, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    daemon.kill()
    assert b"the connection to the daemon is lost" in process.stderr.readline()
    process.stdin.write(b"while nobody listened\n")
    process.stdin.flush()
    daemon.start()
    assert b"connected again" in process.stderr.readline()
    assert process.stdout.readline() == b"got while nobody listened\n"
    out, err = process.communicate(b"x\n", timeout=LIMIT)
    assert (process.returncode, out, err) == (7, b"got x\nend of input\n", b"")


def test_attach_to_nothing_is_an_error(daemon, session):
    done = daemon("attach", "nobody")
    assert done.returncode == 125 and "nobody" in done.stderr
    started(daemon, session, "true", options=["--id", "x"])
    assert "has no managed process" in daemon("attach", session).stderr
