"""exec -it and attach at a terminal: a tmux of their own."""

import os
import shlex
import signal
import subprocess

import pytest
from rest.host import processes_with, wait_until

LIMIT = 60


class Screen:
    """A shell in a window of a tmux server that nobody else uses."""

    def __init__(self, directory, env):
        self.directory = directory
        self.socket = str(directory / "tmux")
        self.env = {**os.environ, **env, "PS1": "outer> ", "LC_ALL": "C.UTF-8"}
        self.env.pop("TMUX", None)
        shell = ["env", "PS1=outer> ", "bash", "--norc", "--noprofile"]
        self("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", shlex.join(shell))
        self.wait_for("outer>")

    def __call__(self, *words):
        done = subprocess.run(
            ["tmux", "-S", self.socket, *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self):
        return self("capture-pane", "-p", "-S", "-")

    def wait_for(self, wanted):
        """Until it stands there; what is on the screen has no other way to be known."""
        wait_until(lambda: wanted in self.text(), f"for {wanted!r} on the screen", LIMIT)

    def type(self, text):
        self("send-keys", "-l", text)

    def enter(self, text):
        self.type(text)
        self("send-keys", "Enter")

    def press(self, *keys):
        self("send-keys", *keys)

    def run(self, *words):
        """Runs this on the terminal, by a shell that notes its modes before and after."""
        note = f"stty -a > {shlex.quote(str(self.directory))}"
        self.enter(
            shlex.join(
                ["sh", "-c", f'{note}/before; "$@"; code=$?; {note}/after; echo "the ""code is $code"']
                + ["sh", *words]
            )
        )

    def ended(self, code):
        """It did, with that code, and the terminal is as it was."""
        self.wait_for(f"the code is {code}")
        before, after = ((self.directory / name).read_text() for name in ("before", "after"))
        # A window may have got another size meanwhile.
        assert [mode for mode in before.split(";") if "rows" not in mode and "columns" not in mode] == [
            mode for mode in after.split(";") if "rows" not in mode and "columns" not in mode
        ]

    def close(self):
        self("kill-server")


@pytest.fixture
def screen(daemon, tmp_path):
    screen = Screen(tmp_path, {**daemon.caisson.env, **daemon.env})
    yield screen
    screen.close()
    daemon("rm", "--all")


# Its prompt is "box/workspace> ", which does not stand in the line that starts it.
SHELL = ["env", "PS1=box\\w> ", "bash", "--norc", "--noprofile"]
PROMPT = "box/workspace>"


def enter_box(daemon, screen):
    screen.run(daemon.caisson.path, "exec", "-it", "-s", "work", "--", *SHELL)
    screen.wait_for(PROMPT)


def processes_in(daemon, session):
    return len(daemon("ps", session).stdout.splitlines()) - 1


def test_a_shell_in_a_box_is_like_one_here(daemon, screen):
    enter_box(daemon, screen)
    assert processes_in(daemon, "work") == 1
    screen.enter("echo $((6 * 7)) $TERM; tty")
    screen.wait_for("\n42 ")
    screen.wait_for("/dev/pts/")
    screen.enter("stty size")
    screen.wait_for("\n30 100")
    screen.enter("exit 7")
    screen.ended(7)
    assert processes_in(daemon, "work") == 0


def test_the_box_knows_when_the_window_changes(daemon, screen):
    enter_box(daemon, screen)
    screen.enter("trap 'echo size: $(stty size)' WINCH; echo trap is set")
    screen.wait_for("\ntrap is set")
    screen("resize-window", "-x", "77", "-y", "22")
    screen.wait_for("size: 22 77")
    screen.enter("exit 0")
    screen.ended(0)


def test_control_c_reaches_what_runs_in_the_shell(daemon, screen):
    enter_box(daemon, screen)
    screen.enter("sleep 1000.125")
    # Before that, the shell itself would take the key.
    wait_until(lambda: processes_with("sleep 1000.125"), "sleep at work")
    screen.press("C-c")
    screen.enter("echo sleep: $?")
    screen.wait_for("\nsleep: 130")
    screen.press("C-d")
    screen.ended(0)


def test_a_command_that_is_killed_leaves_the_terminal_as_it_was(daemon, screen):
    enter_box(daemon, screen)
    screen.enter("kill -9 $$")
    screen.ended(137)


def test_the_shell_survives_the_death_of_the_daemon(daemon, screen):
    enter_box(daemon, screen)
    screen.enter("kept=here")
    screen.enter("echo set $kept")
    screen.wait_for("\nset here")
    daemon.kill()
    screen.wait_for("the connection to the daemon is lost")
    daemon.start()
    screen.wait_for("connected again")
    screen.enter("echo still $kept")
    screen.wait_for("still here")
    screen.enter("exit 3")
    screen.ended(3)


def test_a_client_that_is_told_to_end_ends_the_shell(daemon, screen):
    enter_box(daemon, screen)
    terminal = screen("display-message", "-p", "#{pane_tty}").strip().removeprefix("/dev/")
    listed = subprocess.run(
        ["ps", "-t", terminal, "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    (client,) = [
        int(pid)
        for pid, program, *_ in map(str.split, listed.stdout.splitlines())
        if program == daemon.caisson.path
    ]
    os.kill(client, signal.SIGTERM)
    screen.ended(143)
    assert processes_in(daemon, "work") == 0


def test_attach_to_a_terminal_detaches_and_comes_back(daemon, screen):
    assert daemon("start", "-s", "work", "-t", "--", *SHELL).returncode == 0
    screen.run(daemon.caisson.path, "attach", "work")
    screen.wait_for(PROMPT)
    screen.enter("kept=here; echo $(stty size) is the size")
    screen.wait_for("30 100 is the size")
    screen.press("C-p", "C-q")
    screen.wait_for("detached from process default of session work, which goes on")
    screen.ended(0)
    assert processes_in(daemon, "work") == 1
    screen.run(daemon.caisson.path, "attach", "work")
    screen.enter("echo still $kept")
    screen.wait_for("still here")
    screen.enter("exit 5")
    screen.ended(5)


def test_control_c_is_a_key_of_the_terminal_also_when_ours_is_none(daemon):
    script = "echo ready; exec sleep 1000"
    process = daemon.begin("exec", "-t", "-s", "work", "--", "sh", "-c", script)
    assert process.stdout.readline() == b"ready\r\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (128 + signal.SIGINT, b"^C", b"")
    daemon("rm", "work")


def test_a_terminal_takes_a_session_and_somebody_at_it(daemon):
    done = daemon("exec", "-t", "--", "true")
    assert done.returncode == 2 and "-t: there are terminals in sessions only" in done.stderr
    done = daemon("exec", "-it", "-s", "work", "--", "true")
    assert done.returncode == 2 and "-t: standard input is no terminal" in done.stderr
    for option in (["--json"], ["--timeout", "1"], ["--request-id", "x"], ["--keep-session"]):
        done = daemon("exec", "-t", "-s", "work", *option, "--", "true")
        assert done.returncode == 2 and option[0] in done.stdout + done.stderr
    script = "test -t 0 && echo yes; exit 3"
    done = daemon("exec", "-t", "-s", "work", "--", "sh", "-c", script, text=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"yes\r\n", b"")
    daemon("rm", "work")
