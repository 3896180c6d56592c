"""Sessions of a real daemon: exec -s, ls, inspect, rm, stats and cp."""

import http.server
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import threading

import pytest

LIMIT = 60


@pytest.fixture
def box(daemon):
    """The name of a session that exists and goes after the test."""
    assert daemon.exec("box", "true").returncode == 0
    yield "box"
    daemon("rm", "--all")


# ---- exec ----


def test_a_session_keeps_its_box_for_the_next_command(daemon, box):
    assert daemon.sh(box, "echo kept > file").returncode == 0
    done = daemon.exec(box, "cat", "file")
    assert (done.returncode, done.stdout, done.stderr) == (0, "kept\n", "")


def test_words_reach_the_program_as_they_are(daemon, box):
    words = ["a b", "it's", '"', "x;y", "$HOME $(id)", "`id`", "line\nbreak\n", "", "\\", "*", "--", "ü"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    done = daemon.exec(box, "python3", "-c", code, *words)
    assert json.loads(done.stdout) == words


def test_streams_and_the_exit_code_are_the_commands(daemon, box):
    done = daemon.sh(box, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_output_comes_while_the_command_runs(daemon, box):
    fifo = "mkfifo go; echo first; cat go"
    process = subprocess.Popen(
        [daemon.caisson.path, "exec", "-s", box, "--", "sh", "-c", fifo],
        env={**daemon.caisson.env, **daemon.env},
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"first\n"
    # Files move beside the command that holds the session.
    assert daemon("cp", f"{box}:go", "-").returncode == 2
    process.terminate()
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    process.stdout.close()


def test_five_megabytes_of_text_arrive_whole(daemon, box):
    done = daemon.exec(box, "seq", "700000")
    assert done.returncode == 0
    assert done.stdout == "".join(f"{i}\n" for i in range(1, 700001))


def test_signals_and_missing_programs_have_the_usual_codes(daemon, box):
    assert daemon.sh(box, "kill -TERM $$").returncode == 128 + signal.SIGTERM
    assert daemon.exec(box, "no-such-program").returncode == 127
    assert daemon.exec(box, "-x").returncode == 127
    assert daemon.exec(box, "/etc/passwd").returncode == 126


def test_running_out_of_memory_is_told(daemon):
    done = daemon.exec("small", "python3", "-c", "x = bytearray(10**9)", options=["--memory", "64"])
    assert done.returncode == 137
    assert "the box ran out of memory: its limit is 64 MB" in done.stderr
    daemon("rm", "small")


def test_a_timeout_ends_the_session_unless_it_is_to_be_kept(daemon, box):
    done = daemon.exec(box, "sleep", "100", options=["--timeout", "0.5", "--keep-session"])
    assert done.returncode == 124
    assert done.stderr == "caisson: the command timed out after 1 s and was killed\n"
    assert daemon.names() == [box]
    done = daemon.exec(box, "sleep", "100", options=["--timeout", "1"])
    assert done.returncode == 124
    assert "and the session with it" in done.stderr
    assert daemon.names() == []


def test_standard_input_is_passed_on_when_asked(daemon, box):
    assert daemon.exec(box, "cat", input="hello").stdout == ""
    text = "ü\0'\n" * 10000
    done = daemon.exec(box, "cat", options=["-i"], input=text)
    assert (done.returncode, done.stdout) == (0, text)
    done = daemon.exec(box, "cat", options=["-i"], input=b"\xff", text=False)
    assert done.returncode == 2
    assert b"must be UTF-8" in done.stderr


def test_json_is_the_result_and_nothing_else(daemon, box):
    done = daemon.sh(box, "echo hi; echo oops >&2; exit 3", "--json")
    assert (done.returncode, done.stderr) == (3, "")
    result = json.loads(done.stdout)
    assert (result["session_id"], result["exit_code"]) == (box, 3)
    assert (result["stdout"], result["stderr"]) == ("hi", "oops")


def test_options_reach_the_box_and_stay_with_the_session(daemon, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "data").write_text("data")
    options = [
        *["--memory", "96", "--cpus", "0.5", "--pids", "33", "--workspace", tmp_path / "work"],
        *["--mount", f"{tmp_path}/data:/data:ro", "-w", "/workspace/sub", "-e", "A=b c"],
    ]
    done = daemon.sh("set", 'pwd; echo "$A"; cat /data; echo made > file', *options)
    assert (done.returncode, done.stdout) == (0, "/workspace/sub\nb c\ndata")
    assert (tmp_path / "work/sub/file").read_text() == "made\n"
    session = json.loads(daemon("inspect", "set").stdout)
    assert (session["memory_mb"], session["cpus"], session["pids_limit"]) == (96, 0.5, 33)
    assert session["host_path"] == str(tmp_path / "work")
    # What is not said again is the session's to know.
    assert daemon.exec("set", "true").returncode == 0
    refused = daemon.exec("set", "true", options=["--memory", "97"])
    assert refused.returncode == 125
    assert "memory_mb=96" in refused.stderr and "caisson rm set" in refused.stderr
    daemon("rm", "set")


def test_faults_of_options_are_told_as_without_a_session(daemon):
    done = daemon.exec("x", "true", options=["--cpus", "-1"])
    assert (done.returncode, done.stderr) == (2, "caisson: --cpus: cpus must be greater than 0\n")


def test_a_signal_ends_the_command_with_the_connection(daemon, tmp_path):
    # The command holds the write end of the fifo; its end is seen as the end of the file.
    os.mkfifo(tmp_path / "fifo")
    process = subprocess.Popen(
        [
            *[daemon.caisson.path, "exec", "-s", "ends", "--workspace", str(tmp_path)],
            *["--", "sh", "-c", "exec 9> fifo; echo ready; sleep 1000"],
        ],
        env={**daemon.caisson.env, **daemon.env},
        stdout=subprocess.PIPE,
    )
    with open(tmp_path / "fifo", "rb", buffering=0) as watch:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 128 + signal.SIGINT
        ready, _, _ = select.select([watch], [], [], LIMIT)
        assert ready and watch.read(1) == b""
    process.stdout.close()
    assert daemon.names() == ["ends"]
    daemon("rm", "ends")


def test_a_reader_that_goes_away_ends_the_command(daemon, box):
    process = subprocess.Popen(
        [daemon.caisson.path, "exec", "-s", box, "--", "yes"],
        env={**daemon.caisson.env, **daemon.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(LIMIT) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()


# ---- the daemon ----


def test_a_daemon_that_is_not_there_is_told_in_one_line(daemon):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        env = {"CAISSON_URL": f"http://127.0.0.1:{unused.getsockname()[1]}"}
        done = daemon.exec("x", "true", env=env)
        listed = daemon("ls", "--json", env=env)
    start = f"caisson: no daemon at {env['CAISSON_URL']} (Connection refused); start one with "
    assert done.returncode == 125
    assert done.stderr == (
        start + "`caisson serve`, or leave -s away to run the command in a box of its own\n"
    )
    assert json.loads(listed.stdout)["error"]["code"] == "backend_unavailable"


def test_the_address_comes_from_the_option_first(daemon):
    done = daemon("ls", "--url", f"http://localhost:{daemon.port}", env={"CAISSON_URL": "unix:/no"})
    assert done.returncode == 0
    assert daemon("ls", "--url", "ftp://x").returncode == 2


def test_a_token_that_is_not_the_daemons_is_refused_and_never_shown(daemon):
    token = "not-the-token-of-this-daemon-at-all"
    done = daemon("ls", env={"CAISSON_TOKEN": token})
    assert done.returncode == 125
    assert "CAISSON_TOKEN is not this daemon's" in done.stderr
    assert token not in done.stderr


# ---- ls, inspect, rm, stats ----


def test_ls_shows_a_table_of_sessions(daemon, box):
    assert daemon.exec("größe/2", "true", options=["--memory", "64"]).returncode == 0
    head, *rows = [re.split(r" {2,}", line) for line in daemon("ls").stdout.splitlines()]
    assert head == ["NAME", "STATE", "EXECS", "AGE", "IDLE", "MEMORY", "NETWORK", "IMAGE"]
    shown = {row[0]: row for row in rows}
    assert set(shown) == {box, "größe/2"}
    assert shown["größe/2"][1:3] == ["idle", "1"]
    assert shown["größe/2"][5:7] == ["64 MB", "off"]
    assert {each["session_id"] for each in json.loads(daemon("ls", "--json").stdout)} == set(shown)


def test_inspect_prints_json_for_people(daemon, box):
    done = daemon("inspect", box)
    assert done.stdout.startswith('{\n  "session_id": "box",\n')
    assert json.loads(done.stdout)["weaker_isolation"] is not None
    missing = daemon("inspect", "nobody", "--json")
    assert missing.returncode == 125
    assert json.loads(missing.stdout)["error"]["code"] == "session_not_found"


def test_rm_removes_all_that_were_named_or_none(daemon):
    for name in ["one", "two", "a b/ü"]:
        assert daemon.exec(name, "true").returncode == 0
    done = daemon("rm", "one", "nobody")
    assert (done.returncode, done.stdout) == (125, "")
    assert "session nobody not found" in done.stderr
    assert daemon("rm", "a b/ü", "one").stdout == "removed a b/ü\nremoved one\n"
    assert daemon.names() == ["two"]
    assert json.loads(daemon("rm", "--all", "--json").stdout) == {"removed": ["two"]}
    assert daemon("rm", "--all").stdout == ""


def test_stats_shows_what_sessions_use(daemon, box):
    assert daemon.exec("other", "true").returncode == 0
    head, *rows = daemon("stats").stdout.splitlines()
    assert head.split() == ["NAME", "MEMORY", "PEAK", "LIMIT", "PROCESSES", "CPU", "OOM"]
    assert [row.split()[0] for row in rows] == [box, "other"]
    (usage,) = json.loads(daemon("stats", box, "--json").stdout)
    assert usage["memory_limit_bytes"] == 512 << 20
    assert 0 < usage["memory_bytes"] < usage["memory_limit_bytes"]
    assert daemon("stats", "nobody").returncode == 125


def test_names_of_sessions_are_completed_and_not_run(daemon, box, tmp_path):
    evil = f"$(touch {tmp_path}/ran)"
    assert daemon.exec(evil, "true").returncode == 0
    script = """
        PATH="$1:$PATH"
        source <(caisson completion bash)
        COMP_WORDS=(caisson rm ""); COMP_CWORD=2
        _caisson
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", os.path.dirname(daemon.caisson.path)],
        env={**daemon.caisson.env, **daemon.env},
        text=True,
        capture_output=True,
        check=True,
    )
    assert box in done.stdout.splitlines()
    assert not (tmp_path / "ran").exists()


# ---- cp ----


def test_files_go_in_and_come_out_byte_for_byte(daemon, box, tmp_path):
    content = os.urandom(3_000_001)
    (tmp_path / "in").write_bytes(content)
    assert daemon("cp", tmp_path / "in", f"{box}:/tmp/a b&c").returncode == 0
    assert daemon("cp", f"{box}:/tmp/a b&c", tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == content


def test_standard_streams_are_copied_as_well(daemon, box):
    content = os.urandom(1_000_000)
    done = daemon("cp", "-", f"{box}:piped", input=content, text=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert daemon("cp", f"{box}:/workspace/piped", "-", text=False).stdout == content
    assert daemon("cp", "-", f"{box}:/tmp", input=b"", text=False).returncode == 2


def test_a_directory_takes_a_file_under_its_own_name(daemon, box, tmp_path):
    (tmp_path / "name").write_text("x")
    assert daemon("cp", tmp_path / "name", f"{box}:").returncode == 0
    assert daemon("cp", tmp_path / "name", f"{box}:new/").returncode == 0
    assert daemon.exec(box, "cat", "name", "new/name").stdout == "xx"
    (tmp_path / "dir").mkdir()
    assert daemon("cp", f"{box}:name", tmp_path / "dir").returncode == 0
    assert (tmp_path / "dir/name").read_text() == "x"
    assert daemon("cp", f"{box}:name", f"{tmp_path}/none/").returncode == 125


def test_programs_stay_programs(daemon, box, tmp_path):
    (tmp_path / "run").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "run").chmod(0o755)
    assert daemon("cp", tmp_path / "run", f"{box}:run").returncode == 0
    assert daemon.exec(box, "./run").stdout == "ran\n"
    daemon.sh(box, "chmod 4755 run; echo plain > plain")
    assert daemon("cp", f"{box}:run", tmp_path / "back").returncode == 0
    assert daemon("cp", f"{box}:plain", tmp_path / "plain").returncode == 0
    assert stat.S_IMODE((tmp_path / "back").stat().st_mode) & 0o7100 == 0o100
    assert not (tmp_path / "plain").stat().st_mode & 0o111


def test_trees_go_in_and_come_out(daemon, box, tmp_path):
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/a").write_text("a")
    (tmp_path / "tree/sub/ü b").write_text("b")
    assert daemon("cp", tmp_path / "tree", f"{box}:").returncode == 2
    done = daemon("cp", "-r", tmp_path / "tree", f"{box}:")
    assert (done.returncode, done.stderr) == (0, "")
    assert daemon.exec(box, "cat", "tree/a", "tree/sub/ü b").stdout == "ab"
    done = daemon("cp", "-r", f"{box}:tree", tmp_path / "back")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "back/sub/ü b").read_text() == "b"
    # Into a directory that exists the tree goes under its own name; "." is its content.
    assert daemon("cp", "-r", f"{box}:tree", tmp_path / "back").returncode == 0
    assert (tmp_path / "back/tree/a").read_text() == "a"
    (tmp_path / "flat").mkdir()
    assert daemon("cp", "-r", f"{box}:tree/.", tmp_path / "flat").returncode == 0
    assert sorted(os.listdir(tmp_path / "flat")) == ["a", "sub"]


def test_what_cannot_be_copied_is_named(daemon, box, tmp_path):
    (tmp_path / "tree/empty").mkdir(parents=True)
    (tmp_path / "tree/a").write_text("a")
    (tmp_path / "tree/link").symlink_to("/etc/passwd")
    done = daemon("cp", "-r", "--json", tmp_path / "tree", f"{box}:tree")
    assert done.returncode == 1
    root = f"{tmp_path}/tree"
    result = json.loads(done.stdout)
    assert result == {"files": 1, "bytes": 1, "left_out": [f"{root}/empty", f"{root}/link"]}
    daemon.sh(box, "ln -s /etc/passwd tree/link; mkfifo tree/fifo; mkdir tree/none")
    done = daemon("cp", "-r", f"{box}:tree", tmp_path / "out")
    assert done.returncode == 1
    assert sorted(os.listdir(tmp_path / "out")) == ["a", "none"]
    assert "box:tree/fifo is left out" in done.stderr and "box:tree/link is left out" in done.stderr


def test_a_box_cannot_make_us_follow_its_links(daemon, tmp_path):
    # The box shares the directory that its tree is copied into.
    (tmp_path / "shared").mkdir()
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "outside").mkdir()
    options = ["--workspace", tmp_path / "shared"]
    script = "mkdir -p /tmp/t/dir; echo theirs > /tmp/t/file; echo theirs > /tmp/t/dir/file"
    assert daemon.sh("evil", script, *options).returncode == 0
    script = 'mkdir t; ln -s "$1/secret" t/file; ln -s "$1/outside" t/dir'
    assert daemon.exec("evil", "sh", "-c", script, "sh", tmp_path).returncode == 0
    assert daemon("cp", "evil:/tmp/t/file", tmp_path / "shared/t/file").returncode == 2
    assert daemon("cp", "-r", "evil:/tmp/t", tmp_path / "shared").returncode == 125
    os.unlink(tmp_path / "shared/t/dir")
    assert daemon("cp", "-r", "evil:/tmp/t", tmp_path / "shared").returncode == 2
    assert (tmp_path / "secret").read_text() == "mine"
    assert os.listdir(tmp_path / "outside") == []
    daemon("rm", "evil")


class Liar(http.server.BaseHTTPRequestHandler):
    """Speaks for a box that lists what no directory can hold."""

    name = ""

    def do_GET(self):
        entries = [{"name": self.name, "type": "file", "mode": 420, "size": 4, "modified": 0}]
        body = json.dumps({"entries": entries}).encode() if "directory" in self.path else b"evil"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("name", ["../evil", "..", ".", "", "a/b", "/tmp/evil", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(daemon, tmp_path, name):
    handler = type("Handler", (Liar,), {"name": name})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        (tmp_path / "target").mkdir()
        done = daemon("cp", "-r", "--url", url, "x:.", tmp_path / "target")
        server.shutdown()
    assert done.returncode == 125
    assert "which could lead out of" in done.stderr
    assert os.listdir(tmp_path) == ["target"] and os.listdir(tmp_path / "target") == []


def test_an_upload_that_is_refused_says_why(daemon, box, tmp_path):
    (tmp_path / "big").write_bytes(bytes(20_000_000))
    done = daemon("cp", tmp_path / "big", f"{box}:/etc/big")
    assert done.returncode == 125
    assert done.stderr == "caisson: session box: /etc/big: Read-only file system\n"
    missing = daemon("cp", tmp_path / "big", "nobody:/tmp/big")
    assert missing.stderr == "caisson: session nobody not found\n"
