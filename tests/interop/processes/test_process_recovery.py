"""Processes survive their daemon: what they do meanwhile, their ends, and the pauses of a series."""

import os
import signal
import time

import pytest

from rest.daemon import begin, session_path
from rest.host import command_line, processes_with, wait_until

from .managed import output, remove, show, start_shell, wait_for_end, wait_for_output
from .relay import STDOUT, Offsets, Refused, Relay


@pytest.mark.parametrize("end", ["kill", "leave"])
def test_a_process_goes_on_without_a_daemon(start_daemon, end):
    daemon = start_daemon("caisson: {on_stop: leave}\n")
    script = "i=0; while [ ! -e stop ]; do echo $i; i=$((i + 1)); sleep 0.01; done; cat; exit 6"
    started = start_shell(daemon.client, "s", script)
    with Offsets(daemon, "s", **{"from": 0}) as relay:
        relay.send(b"kept input\n", 1)
        relay.event("written")
    for _ in range(3):
        if end == "kill":
            daemon.kill()
        else:
            daemon.signal(signal.SIGTERM)
            assert daemon.process.wait(20) == 0
        daemon.start()
        assert show(daemon.client, "s")["pid"] == started["pid"]
        assert show(daemon.client, "s")["started_at"] == started["started_at"]
    daemon.client.output("s", "touch stop")
    with Offsets(daemon, "s", **{"from": 0}) as relay:
        assert relay.hello["last_sequence"] == 1
        relay.tell("close_input")
        lines = relay.bytes_until(lambda got: got.endswith(b"kept input\n")).splitlines()[:-1]
        assert lines == [str(number).encode() for number in range(len(lines))]
        assert relay.event("exit")["exit_code"] == 6
    daemon.config.write_text("")
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(20) == 0
    daemon.start()
    daemon.stop()


def test_an_end_that_no_daemon_saw_is_told_by_the_next(start_daemon):
    daemon = start_daemon()
    start_shell(daemon.client, "s", "while [ ! -e stop ]; do sleep 0.02; done; seq 1000; echo why >&2; exit 9")
    marker = "while [ ! -e stop ]"
    daemon.client.output("s", "(sleep 0.5; touch stop) & true")
    daemon.kill()
    wait_until(lambda: not processes_with(marker), "its end")
    daemon.start()
    shown = wait_for_end(daemon.client, "s")
    assert (shown["exit_code"], shown["stderr_preview"]) == (9, "why\n")
    assert len(output(daemon.client, "s").body.splitlines()) == 1000
    daemon.stop()


def test_the_result_of_a_process_survives_the_daemon(start_daemon):
    daemon = start_daemon()
    start_shell(daemon.client, "s", "echo result; exit 2")
    before = wait_for_end(daemon.client, "s")
    daemon.kill()
    daemon.start()
    assert show(daemon.client, "s") == before
    assert output(daemon.client, "s").body == b"result\n"
    with Offsets(daemon, "s", **{"from": 0}) as relay:
        assert not relay.hello["running"]
        assert relay.next() == (STDOUT, 0, b"result\n")
        assert relay.next()["exit_code"] == 2
    with pytest.raises(Refused):
        Relay(daemon, "s")
    daemon.stop()


def test_starts_that_are_cut_short_by_a_kill_leave_nothing(start_daemon):
    daemon = start_daemon()
    daemon.client.create("s")
    marker = f"{time.monotonic_ns()}.5"
    for moment in range(8):
        body = {"process_id": str(moment), "command": "sleep", "args": [marker]}
        caller = begin(daemon, "POST", session_path("s") + "/managed-process", body)
        time.sleep(moment / 500)  # not to wait for anything: to kill it at different moments
        daemon.kill()
        caller.close()
        daemon.start()
    shown = daemon.client("GET", session_path("s") + "/managed-processes").json
    running = [process["process_id"] for process in shown if process["status"] == "running"]
    wait_until(lambda: len([p for p in processes_with(marker) if "exec" not in command_line(p)]) == len(running),
               "the end of those that nobody knows")  # fmt: skip
    assert len(list((daemon.state / "processes").iterdir())) == len(shown)
    assert daemon.client.delete("s").status == 200
    assert not processes_with(marker)
    daemon.stop()


def test_a_crash_loop_goes_on_under_the_next_daemon(start_daemon):
    daemon = start_daemon()
    start_shell(daemon.client, "s", "echo run >&2; exit 4", restart="always")
    wait_until(lambda: show(daemon.client, "s")["restarts"] >= 2, "two restarts")
    for _ in range(3):
        before = show(daemon.client, "s")["restarts"]
        daemon.kill()
        daemon.start()
        assert show(daemon.client, "s")["restarts"] >= before
        wait_until(lambda: show(daemon.client, "s")["restarts"] > before + 1, "a restart")
    shown = show(daemon.client, "s")
    assert shown["last_end"]["exit_code"] == 4
    # None was run twice at a time, none was forgotten.
    assert abs(shown["stderr_preview"].count("run") - shown["restarts"]) <= 1
    remove(daemon.client, "s")
    daemon.stop()


def test_a_process_that_ended_without_a_daemon_is_restarted_by_the_next(start_daemon):
    daemon = start_daemon()
    start_shell(daemon.client, "s", "echo run; exec sleep 8004.5", restart="on-failure")
    wait_for_output(daemon.client, "s", b"run\n")
    victim = processes_with("sleep 8004.5").pop()
    daemon.kill()
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not command_line(victim), "its end")
    daemon.start()
    wait_for_output(daemon.client, "s", b"run\nrun\n")
    shown = show(daemon.client, "s")
    assert (shown["restarts"], shown["last_end"]["signal"]) == (1, 9)
    daemon.stop()
