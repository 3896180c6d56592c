"""What signals do to the daemon, besides those that kill it."""

import os
import pty
import signal
import subprocess

import pytest

from .daemon import PROGRAM
from .host import wait_until


def test_sighup_is_logged_and_ends_nothing(start_daemon):
    daemon = start_daemon()
    daemon.client.create("s")
    for count in range(1, 4):
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.read_log().count("SIGHUP changes nothing") == count, "the line in the log")
    assert daemon.client.output("s", "echo there") == "there"


def test_sighup_of_its_own_terminal_stops_the_daemon_in_order(tmp_path):
    main, terminal = pty.openpty()
    log = tmp_path / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen([PROGRAM, "serve", "--state", tmp_path / "state", "--port", "0", "--config",
                                    "/dev/null"], stdin=terminal, stdout=file, stderr=file)  # fmt: skip
    try:
        wait_until(lambda: b"listening" in log.read_bytes(), "the port in the log")
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
        assert b"stopped" in log.read_bytes()
    finally:
        process.kill()
        process.wait()
        os.close(main)
        os.close(terminal)


def test_who_is_told_to_ignore_sighup_does(start_daemon):
    daemon = start_daemon(prefix=["sh", "-c", 'trap "" HUP; exec "$@"', "sh"])
    daemon.signal(signal.SIGHUP)
    assert daemon.client.create("s").status == 201
    assert "SIGHUP" not in daemon.read_log()


# Neither version 2 nor cpuacct: as on a host with version 1 alone that does not count.
HIDDEN = ["unshare", "-m", "sh", "-c", 'umount -R -l /sys/fs/cgroup && exec "$@"', "sh"]
WITHOUT = "box: {native: {allow_missing: [memory_limit, pids_limit, cpu_limit]}}\n"


def test_processor_time_is_told_where_no_control_group_counts_it(start_daemon):
    if os.geteuid() != 0:
        pytest.skip("hides the control groups from a daemon, which needs root")
    daemon = start_daemon(WITHOUT, prefix=HIDDEN)
    client = daemon.client
    assert client.output("s", "(while :; do :; done) > /dev/null 2>&1 & echo begun") == "begun"

    def cpu_ms():
        return client("GET", "/v1/sessions/s/usage").json["cpu_ms"]

    # It still runs: nothing of it has been reported.
    wait_until(lambda: cpu_ms() >= 500, "the time of a process that runs", 120)
    assert client.delete("s").status == 200
