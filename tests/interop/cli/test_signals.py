"""Signals, from other processes and from a terminal."""

import os
import pty
import select
import signal
import time

LIMIT = 60
# A shell sees a signal while it is in `wait`, not while it runs a program.
WAIT = "while :; do sleep 1000 & wait; done"


class Terminal:
    """The program as the foreground job of a terminal of its own."""

    def __init__(self, path, arguments, env):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(path, [path, *arguments], env)

    def read(self, deadline):
        """More output; nothing when the terminal has no user any more."""
        ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"nothing more came; there is {self.seen!r}")
        try:
            piece = os.read(self.fd, 4096)
        except OSError:
            return b""
        self.seen += piece
        return piece

    def read_until(self, text):
        deadline = time.monotonic() + LIMIT
        while text not in self.seen:
            assert self.read(deadline), f"{text!r} did not come; there is {self.seen!r}"

    def type(self, text):
        os.write(self.fd, text)

    def wait(self):
        """The exit code; what is left of the output goes to `seen`."""
        deadline = time.monotonic() + LIMIT
        while self.read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def in_terminal(caisson, *command, options=()):
    arguments = ["exec", *options, "--", *command]
    return Terminal(caisson.path, arguments, {**caisson.env, "TERM": "xterm"})


def test_control_c_ends_a_command(caisson):
    # No shell: one that is about to run a program may miss the signal.
    code = "import signal as s; s.signal(2, s.SIG_DFL); print('ready', flush=True); s.pause()"
    job = in_terminal(caisson, "python3", "-c", code)
    job.read_until(b"ready")
    job.type(b"\x03")
    assert job.wait() == 128 + signal.SIGINT


def test_control_c_is_the_commands_to_answer(caisson):
    job = in_terminal(caisson, "sh", "-c", f"trap 'echo caught; exit 9' INT; echo ready; {WAIT}")
    job.read_until(b"ready")
    job.type(b"\x03")
    assert job.wait() == 9
    assert b"caught" in job.seen


def test_a_second_control_c_ends_the_box(caisson):
    job = in_terminal(caisson, "sh", "-c", f"trap 'echo caught' INT; echo ready; {WAIT}")
    job.read_until(b"ready")
    job.type(b"\x03")
    job.read_until(b"caught")
    job.type(b"\x03")
    assert job.wait() == 128 + signal.SIGINT
    assert b"caisson: ended by signal 2, and the box with it" in job.seen


def test_lines_typed_at_a_terminal_reach_the_command(caisson):
    job = in_terminal(caisson, "sh", "-c", 'read line; echo "got $line"', options=["-i"])
    job.type(b"hello\n")
    assert job.wait() == 0
    assert b"got hello" in job.seen


def test_signals_go_to_the_command(caisson):
    for number, name in [(signal.SIGTERM, "TERM"), (signal.SIGHUP, "HUP"), (signal.SIGINT, "INT")]:
        script = f"trap 'echo caught; exit 5' {name}; echo ready; {WAIT}"
        process = caisson.start("exec", "--", "sh", "-c", script)
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=LIMIT)
        assert (process.returncode, out) == (5, b"caught\n")


def test_a_signal_ends_it_also_while_nobody_reads_its_output(caisson):
    # Its output fills every pipe on the way.
    process = caisson.start("exec", "--", "sh", "-c", "trap '' TERM INT; echo ready >&2; exec yes")
    assert process.stderr.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=LIMIT) in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    process.stdout.close()
    process.stderr.close()


def test_a_killed_program_takes_its_box_along(caisson, tmp_path):
    # The box holds the write end of the fifo; its end is seen as the end of the file.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = caisson.start(
        "exec", "--workspace", tmp_path, "--", "sh", "-c", "exec 9> fifo; echo ready; sleep 1000"
    )
    with open(fifo, "rb", buffering=0) as watch:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait()
        ready, _, _ = select.select([watch], [], [], LIMIT)
        assert ready and watch.read(1) == b""
    process.stdout.close()
    process.stderr.close()
