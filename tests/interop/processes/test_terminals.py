"""Processes at a terminal."""

import time
from pathlib import Path

from rest.host import processes_with, wait_until

from .managed import remove, show, start, start_shell, wait_for_end
from .relay import Offsets


def test_a_terminal_is_one(daemon, client, name):
    script = "tty; stty size; echo $TERM; test -t 0 && test -t 1 && test -t 2 && echo all; exec cat"
    start_shell(client, name, script, tty=True, rows=31, columns=97)
    with Offsets(daemon, name, **{"from": 0}) as relay:
        assert relay.hello["tty"]
        lines = relay.bytes_until(lambda got: got.endswith(b"all\r\n")).split(b"\r\n")
        assert lines[0].startswith(b"/dev/") and lines[1:4] == [b"31 97", b"xterm-256color", b"all"]
        relay.send("ä echo\n".encode())
        # Once by the terminal, once by the program.
        relay.bytes_until(lambda got: got == "ä echo\r\nä echo\r\n".encode())
    client.delete(name)


def test_a_terminal_changes_its_size(daemon, client, name):
    script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
    start_shell(client, name, script, tty=True)
    with Offsets(daemon, name, **{"from": 0}) as relay:
        relay.bytes_until(lambda got: got.endswith(b"ready\r\n"))
        relay.tell("resize", rows=50, columns=132)
        assert relay.bytes_until(lambda got: got.endswith(b"\n")) == b"50 132\r\n"
    client.delete(name)


PROMPT = b"prompt> "


def start_interactive(client, name):
    """A shell, and a word in its command line that no other process has."""
    marker = f"shell-{time.monotonic_ns()}"
    start(client, name, "bash", "--norc", "-i", "-s", marker, tty=True, env={"PS1": PROMPT.decode(), "TERM": "dumb"})
    return marker


def wait_for_prompt(relay, marker):
    """Until it has prompted and waits: at any terminal, a signal or an end of file before that may be lost on it."""
    shown = relay.bytes_until(lambda got: got.endswith(PROMPT))
    [shell] = processes_with(marker)
    wait_until(lambda: "State:\tS" in Path(f"/proc/{shell}/status").read_text(), "the shell to wait")
    return shown


def test_ctrl_c_interrupts_the_foreground_of_a_terminal(daemon, client, name):
    marker = start_interactive(client, name)
    with Offsets(daemon, name, **{"from": 0}) as relay:
        wait_for_prompt(relay, marker)
        relay.send(b"sh -c 'echo rea\"\"dy; exec sleep 8103.5'\n")  # in the foreground before it says so
        relay.bytes_until(lambda got: got.endswith(b"ready\r\n"))
        relay.send(b"\x03")
        wait_for_prompt(relay, marker)
        relay.send(b"echo sta''tus $? $TERM\n")
        assert b"status 130 dumb\r\n" in wait_for_prompt(relay, marker)
        relay.send(b"\x04")
        relay.event("exit")
    assert wait_for_end(client, name)["stderr"] == {"begin": 0, "end": 0}
    client.delete(name)


def test_a_terminal_survives_the_daemon(start_daemon):
    daemon = start_daemon()
    script = "stty -echo; echo ready; while read line; do echo got $line; stty size; done"
    started = start_shell(daemon.client, "s", script, tty=True, rows=20, columns=70)
    at = 0
    with Offsets(daemon, "s", **{"from": 0}) as relay:
        at += len(relay.bytes_until(lambda got: got.endswith(b"ready\r\n")))
    for number in range(3):
        daemon.kill()
        daemon.start()
        assert show(daemon.client, "s")["pid"] == started["pid"]
        with Offsets(daemon, "s", **{"from": at}) as relay:
            relay.tell("resize", rows=20 + number, columns=70)
            relay.send(b"line\n")
            wanted = f"got line\r\n{20 + number} 70\r\n".encode()
            at += len(relay.bytes_until(lambda got: got == wanted))
    daemon.stop()


def test_a_shell_at_a_terminal_is_hung_up_when_it_is_to_stop(daemon, client, name):
    marker = start_interactive(client, name)
    with Offsets(daemon, name, **{"from": 0}) as relay:
        wait_for_prompt(relay, marker)
        remove(client, name)
        assert relay.event("exit")["signal"] == 1
    client.delete(name)
