"""doctor, version, completion and help."""

import json
import os
import pty
import re
import shutil
import subprocess
import tempfile

import pytest

LAYERS = {
    *["user_namespace", "mount_namespace", "pid_namespace", "ipc_namespace", "uts_namespace"],
    *["cgroup_namespace", "network", "capabilities", "seccomp", "proc_masks", "own_inodes"],
    *["bounded_storage", "workspace_owner", "memory_limit", "pids_limit", "cpu_limit", "guest_protection"],
}

COMMANDS = {
    *["exec", "serve", "box", "langbot", "ls", "inspect", "rm", "stats", "cp"],
    *["start", "ps", "logs", "attach", "signal", "stop"],
    *["image", "doctor", "config", "version", "completion"],
}


def test_doctor_tells_the_state_of_every_layer(caisson):
    done = caisson("doctor")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    told = {}
    for line in lines[1 : lines.index("")]:
        if match := re.fullmatch(r"  (in force|weaker|missing) +([a-z_]+) +(\S.*)", line):
            told[match[2]] = match[1]
    assert set(told) == LAYERS
    assert lines[-1] == "Boxes can be made here."


def test_doctor_speaks_json(caisson):
    done = caisson("doctor", "--json")
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert {layer["layer"] for layer in report["isolation"]} == LAYERS
    for layer in report["isolation"]:
        assert layer["state"] == "in_force" or layer["fix"] == layer["mend"] != ""
    assert report["kernel"] == os.uname().release
    assert report["cgroups"] in {"none", "v1", "v2", "hybrid"}
    assert isinstance(report["network_on"]["available"], bool)


def doctor_on_a_terminal(caisson, **env):
    """What it prints there."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(caisson.path, [caisson.path, "doctor"], {**caisson.env, "TERM": "xterm", **env})
    seen = b""
    try:
        while piece := os.read(fd, 4096):
            seen += piece
    except OSError:  # the terminal has no user any more
        pass
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return seen


def test_colours_are_for_terminals_that_want_them(caisson):
    assert b"\x1b[32min force" in doctor_on_a_terminal(caisson)
    assert b"\x1b" not in doctor_on_a_terminal(caisson, NO_COLOR="1")
    assert b"\x1b" not in doctor_on_a_terminal(caisson, TERM="dumb")


def test_doctor_knows_when_no_box_can_be_made(caisson):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("this takes root, and setpriv to become an ordinary user")
    # An ordinary user whose runtime directory cannot be made.
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        program = shutil.copy(caisson.path, directory)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        env = {**caisson.env, "XDG_RUNTIME_DIR": "/proc/none", "CAISSON_STATE": directory}
        done = subprocess.run(
            [*user, program, "doctor"], env=env, text=True, capture_output=True, check=False
        )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Boxes cannot be made here: ")


def test_version_is_told_in_both_forms(caisson):
    line = caisson("version").stdout
    assert re.fullmatch(r"caisson \d+\.\d+\.\d+ \(guest protocol \d+, \S+ [\d.]+.*\)\n", line)
    assert caisson("--version").stdout == line
    version = json.loads(caisson("version", "--json").stdout)
    assert set(version) == {"version", "guest_protocol", "compiler"}
    assert line.startswith(f"caisson {version['version']} ")


@pytest.mark.parametrize(
    "words", [[], ["exec"], ["start"], ["signal"], ["image"], ["image", "import"], ["doctor"], ["completion"]]
)
def test_help_goes_to_standard_output(caisson, words):
    done = caisson(*words, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: {' '.join(['caisson', *words])}" in done.stdout


def test_a_missing_subcommand_is_named_in_one_line(caisson):
    done = caisson()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("caisson: caisson needs a subcommand: exec, serve, box, ls")
    assert done.stderr.count("\n") == 1


# ---- completion ----


def complete_in_bash(caisson, *words):
    script = """
        PATH="$1:$PATH"; shift
        source <(caisson completion bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        _caisson
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    directory = os.path.dirname(caisson.path)
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", directory, "caisson", *words],
        env=caisson.env,
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_subcommands_options_and_values(caisson, tmp_path):
    assert complete_in_bash(caisson, "") == COMMANDS
    assert complete_in_bash(caisson, "im") == {"image"}
    assert complete_in_bash(caisson, "image", "") == {"import", "ls", "rm", "tools"}
    assert complete_in_bash(caisson, "exec", "--net") == {"--network"}
    assert complete_in_bash(caisson, "exec", "--network", "o") == {"on", "off"}
    assert complete_in_bash(caisson, "exec", "--network", "=", "of") == {"off"}
    assert "seccomp" in complete_in_bash(caisson, "exec", "--allow-missing", "sec")
    assert "offline_readonly" in complete_in_bash(caisson, "exec", "--profile", "")
    assert complete_in_bash(caisson, "completion", "") == {"bash", "zsh", "fish"}
    (tmp_path / "project").mkdir()
    place = f"{tmp_path}/pro"
    assert complete_in_bash(caisson, "exec", "--workspace", place) == {f"{tmp_path}/project"}


def test_bash_completes_the_command_behind_two_dashes(caisson):
    assert "true" in complete_in_bash(caisson, "exec", "--", "tru")


def test_completion_knows_every_option_there_is(caisson):
    shown = set(re.findall(r"--[a-z-]+", caisson("exec", "--help").stdout.split("\n\n")[1]))
    shown.discard("--")
    assert shown <= complete_in_bash(caisson, "exec", "--")


def test_fish_completes_as_well(caisson):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    script = """
        set -x PATH $argv[1] $PATH
        caisson completion fish | source
        complete -C $argv[2]
    """

    def complete(line):
        directory = os.path.dirname(caisson.path)
        done = subprocess.run(
            ["fish", "--no-config", "-c", script, directory, line],
            env=caisson.env,
            text=True,
            capture_output=True,
            check=True,
        )
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    assert complete("caisson ") == COMMANDS
    assert complete("caisson image ") == {"import", "ls", "rm", "tools"}
    assert complete("caisson exec --netw") == {"--network"}
    assert complete("caisson exec --network o") == {"on", "off"}


def test_zsh_accepts_its_script(caisson, tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    script = tmp_path / "_caisson"
    script.write_text(caisson("completion", "zsh").stdout)
    load = 'autoload -U compinit && compinit -u -d "$1/dump" && source "$1/_caisson"'
    done = subprocess.run(
        ["zsh", "-f", "-c", f'{load} && print $_comps[caisson]', "zsh", tmp_path],
        text=True,
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("_caisson\n", "")
