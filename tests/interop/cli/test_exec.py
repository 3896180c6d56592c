"""caisson exec: what a command in a box says, gets and returns."""

import hashlib
import json
import os
import signal
import subprocess

import pytest

MEGABYTES = 10
# Ten megabytes that hold every byte value, the same in the box and here.
MAKE_BYTES = f"""
import hashlib, sys
for i in range({MEGABYTES} << 10):
    sys.stdout.buffer.write(hashlib.shake_128(str(i).encode()).digest(1024))
"""


def made_bytes():
    return b"".join(
        hashlib.shake_128(str(i).encode()).digest(1024) for i in range(MEGABYTES << 10)
    )


# ---- exit codes ----


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exits_with_the_commands_code(caisson, code):
    done = caisson.sh(f"exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_exits_with_128_and_the_signal_that_ended_the_command(caisson):
    assert caisson.sh("kill -TERM $$").returncode == 128 + signal.SIGTERM
    assert caisson.sh("kill -KILL $$").returncode == 128 + signal.SIGKILL
    assert caisson.sh("kill -SEGV $$").returncode == 128 + signal.SIGSEGV


def test_a_timeout_keeps_what_was_written_and_exits_with_124(caisson):
    done = caisson.sh("echo part; sleep 1000", "--timeout", "2.5")
    assert done.returncode == 124
    assert done.stdout == "part\n"
    assert done.stderr == "caisson: the command timed out after 2.5 s and was killed\n"


def test_a_timeout_also_ends_a_command_whose_output_nobody_reads(caisson):
    process = caisson.start("exec", "--timeout", "2.5", "--", "yes")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 124
    assert out.startswith(b"y\ny\n")
    assert b"timed out after 2.5 s" in err


def test_a_program_that_is_not_there_exits_with_127(caisson):
    done = caisson.exec("no-such-program")
    assert done.returncode == 127
    assert done.stderr == "caisson: no-such-program: not found in the box\n"
    assert caisson.exec("/no/such/program").returncode == 127


def test_a_file_that_is_no_program_exits_with_126(caisson):
    done = caisson.exec("/etc/hosts")
    assert done.returncode == 126
    assert done.stderr == "caisson: /etc/hosts: cannot be executed: Permission denied\n"


def test_an_out_of_memory_death_is_told_with_the_limit(caisson):
    done = caisson.exec("python3", "-c", "x = b'x' * (200 << 20)", options=["--memory", "64"])
    assert done.returncode == 137
    assert "caisson: the command was killed because the box ran out of memory" in done.stderr
    assert "its limit is 64 MB" in done.stderr


def test_an_out_of_memory_death_of_a_child_is_told_too(caisson):
    script = "python3 -c \"x = b'x' * (200 << 20)\"; echo child: $?; exit 3"
    done = caisson.sh(script, "--memory", "64")
    assert done.returncode == 3
    assert done.stdout == "child: 137\n"
    assert "caisson: a process of the command was killed because the box ran out" in done.stderr


def test_a_failure_of_caisson_itself_exits_with_125(caisson):
    done = caisson.exec("true", options=["--workspace", "/proc:ro"])
    assert done.returncode == 125
    assert done.stderr.startswith("caisson: ") and done.stderr.count("\n") == 1


# ---- streams ----


def test_standard_output_and_standard_error_stay_apart(caisson):
    done = caisson.sh("echo one; echo two >&2; echo three")
    assert (done.stdout, done.stderr) == ("one\nthree\n", "two\n")


def test_ten_megabytes_arrive_byte_for_byte_on_either_stream(caisson):
    expected = made_bytes()
    done = caisson.exec("python3", "-c", MAKE_BYTES, text=False)
    assert done.returncode == 0
    assert done.stdout == expected
    swapped = caisson.sh('python3 -c "$CODE" >&2', "-e", f"CODE={MAKE_BYTES}", text=False)
    assert swapped.stderr == expected and swapped.stdout == b""


def test_ten_megabytes_go_through_a_box_and_back(caisson):
    expected = made_bytes()
    done = caisson.exec("cat", options=["-i"], input=expected, text=False)
    assert done.returncode == 0
    assert done.stdout == expected


def test_the_command_reads_nothing_unless_input_is_passed(caisson):
    assert caisson.exec("cat", input="hello").stdout == ""
    assert caisson.exec("cat", options=["-i"], input="hello").stdout == "hello"


def test_a_command_that_reads_nothing_does_not_wait_for_input(caisson):
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w"):
        done = caisson.exec("true", options=["-i"], stdin=read_end)
        assert done.returncode == 0
    os.close(read_end)


def test_a_reader_that_goes_away_ends_the_command(caisson):
    process = caisson.start("exec", "--", "yes")
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()


def test_background_processes_do_not_delay_the_end(caisson):
    done = caisson.sh("sleep 1000 & echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_full_disk_is_a_failure(caisson):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = caisson.exec("echo", "x", stdout=full)
    assert done.returncode == 125
    assert done.stderr == "caisson: standard output: No space left on device\n"


def test_works_without_standard_streams(caisson):
    closed = f'exec "{caisson.path}" exec -- sh -c "exit 4" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", closed], env=caisson.env, check=False).returncode == 4


def test_none_of_our_descriptors_is_in_the_box(caisson, tmp_path):
    script = "readlink /proc/self/fd/1 /proc/self/fd/2; ls /proc/self/fd | wc -w"
    with open(tmp_path / "out", "w", encoding="utf-8") as out:
        assert caisson.sh(script, stdout=out).returncode == 0
    one, two, count = (tmp_path / "out").read_text().split()
    assert one.startswith("pipe:") and two.startswith("pipe:")
    assert int(count) <= 4  # the fourth is the directory that ls reads


# ---- the command's world ----


def test_the_command_runs_as_given_without_a_shell(caisson):
    done = caisson.exec("printf", "%s|", "$HOME", "*", "a b", "", "--json", "--")
    assert done.stdout == "$HOME|*|a b||--json|--|"


def test_the_environment_is_ours_to_give(caisson):
    options = ["-e", "A=1", "-e", "TAKEN", "-e", "NOT_SET_HERE", "--env=C=x=y", "-e", "EMPTY="]
    done = caisson.exec("env", options=options, env={"TAKEN": "from here", "SECRET": "no"})
    lines = done.stdout.splitlines()
    for expected in ["A=1", "TAKEN=from here", "C=x=y", "EMPTY="]:
        assert expected in lines
    names = {line.split("=")[0] for line in lines}
    assert {"PATH", "HOME", "LANG"} <= names
    assert not names & {"SECRET", "NOT_SET_HERE", "CAISSON_STATE"}


def test_starts_in_the_workspace_or_where_told(caisson):
    assert caisson.exec("pwd").stdout == "/workspace\n"
    assert caisson.exec("pwd", options=["-w", "/tmp/a/b"]).stdout == "/tmp/a/b\n"


def test_a_workspace_is_shared_with_its_owner(caisson, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "in").write_text("hello")
    done = caisson.sh("cat in; echo made > out", "--workspace", "work", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello")
    assert (work / "out").read_text() == "made\n"
    assert (work / "out").stat().st_uid == work.stat().st_uid


def test_a_read_only_workspace_stays_as_it_is(caisson, tmp_path):
    done = caisson.sh("echo x > out", "--workspace", f"{tmp_path}:ro")
    assert done.returncode != 0 and "Read-only file system" in done.stderr
    assert not (tmp_path / "out").exists()


def test_mounts_show_host_paths_where_told(caisson, tmp_path):
    colon = tmp_path / "a:b"
    colon.mkdir()
    (colon / "file").write_text("colon")
    (tmp_path / "rw").mkdir()
    done = caisson.sh(
        "cat /data/file; echo x > /data/y; echo z > /out/z",
        *["--mount", f"{colon}:/data:ro", "--mount", "rw:/out"],
        cwd=tmp_path,
    )
    assert done.stdout == "colon"
    assert "Read-only file system" in done.stderr
    assert (tmp_path / "rw" / "z").read_text() == "z\n"


def test_a_writable_root_is_asked_for(caisson):
    assert caisson.sh("echo x > /usr/x").returncode != 0
    done = caisson.sh("echo x > /usr/x && cat /usr/x", "--writable")
    assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr
    assert not os.path.exists("/usr/x")


def test_the_network_is_off_unless_asked_for(caisson):
    assert "eth0" not in caisson.exec("cat", "/proc/net/dev").stdout


def test_the_limit_of_processes_holds(caisson):
    done = caisson.sh("for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done", "--pids", "4")
    assert "fork" in done.stderr.lower()


def test_a_profile_decides_what_it_locks(caisson):
    options = ["--profile", "offline_readonly", "--network", "on"]
    done = caisson.exec("cat", "/proc/net/dev", options=options)
    assert "eth0" not in done.stdout
    assert "caisson: note: the profile offline_readonly decides about network" in done.stderr
    assert caisson.exec("true", options=[*options, "--quiet"]).stderr == ""


# ---- JSON ----


def test_json_is_one_object_with_everything(caisson):
    done = caisson.sh("echo out; printf 'err\\377' >&2; exit 3", "--json")
    assert done.returncode == 3 and done.stderr == ""
    result = json.loads(done.stdout)
    assert result["status"] == "completed"
    assert result["exit_code"] == 3
    assert result["stdout"] == "out\n"
    assert result["stderr"] == "err\ufffd"
    assert result["backend_name"] == "native"
    assert result["signal"] is None and result["oom"] is False
    assert isinstance(result["weaker_layers"], list) and result["overridden"] == []


def test_json_tells_signals_timeouts_and_memory(caisson):
    killed = caisson.sh("kill -TERM $$", "--json")
    assert killed.returncode == 143
    assert json.loads(killed.stdout)["signal"] == signal.SIGTERM
    late = caisson.sh("echo part; sleep 1000", "--json", "--timeout", "2.5")
    result = json.loads(late.stdout)
    assert late.returncode == 124
    assert (result["status"], result["exit_code"]) == ("timed_out", None)
    assert result["stdout"] == "part\n"
    hog = ["python3", "-c", "x = b'x' * (200 << 20)"]
    oom = caisson.exec(*hog, options=["--json", "--memory", "64"])
    result = json.loads(oom.stdout)
    assert (oom.returncode, result["oom"], result["oom_limit_mb"]) == (137, True, 64)


def test_json_errors_have_a_code_and_a_sentence(caisson):
    done = caisson.exec("no-such-program", options=["--json"])
    assert done.returncode == 127 and done.stderr == ""
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "command_not_started" and "no-such-program" in error["message"]
    usage = caisson("exec", "--json", "--nonsense", "--", "true")
    assert usage.returncode == 2
    assert json.loads(usage.stdout)["error"]["code"] == "validation_error"


# ---- refusals ----


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--memory", "lots"], "--memory: "),
        (["--memory", "1"], "--memory: memory_mb must be at least 32"),
        (["--cpus", "-1"], "--cpus: cpus must be greater than 0"),
        (["--timeout", "0"], "--timeout: timeout_sec must be greater than 0"),
        (["--network", "host"], "--network: "),
        (["--mount", "/tmp:/x:readonly"], "--mount: "),
        (["--workspace", "/tmp:readonly"], "--workspace: "),
        (["-w", "relative"], "--workdir: workdir must be an absolute path"),
        (["-e", "=x"], "--env: "),
        (["--profile", "none"], "unknown box profile 'none', available profiles: default,"),
        (["--backend", "none"], "--backend: there is no backend \"none\" in this build"),
        (["--allow-missing", "none"], "--allow-missing: there is no isolation layer \"none\""),
        (["--nonsense"], "unknown option --nonsense; see caisson exec --help"),
    ],
)
def test_a_bad_option_is_named_in_one_line(caisson, options, sentence):
    done = caisson.exec("true", options=options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"caisson: {sentence}")
    assert done.stderr.count("\n") == 1


def test_an_unknown_image_is_named_with_the_next_step(caisson):
    done = caisson.exec("true", options=["--image", "nothing"])
    assert done.returncode == 125
    assert "`caisson image import nothing" in done.stderr
