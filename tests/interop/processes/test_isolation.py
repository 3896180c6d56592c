"""The isolation table on every way into a box: whoever starts a program, it finds the same walls."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from langbot.rpc import INSTANCE, Rpc, Tenant
from rest.daemon import PROGRAM, ROOT, Daemon

from .managed import output, start, wait_for_end
from .relay import Offsets

PAYLOAD = ROOT / "build" / "release" / "payload" / "caisson-payload"
PLACE = "/home/box/payload"  # where boxes see it
SECRET = f"secret-of-the-environment-{os.getpid()}"
OUTSIDE = {"CAISSON_TEST_SECRET": SECRET}  # in the environment of whoever makes boxes
EXPECTED = ("denied", "ok")

# What holds with the network off does not all hold with it on, and the other way round.
OFFLINE_ONLY, ONLINE_ONLY = {"I11"}, {"I12"}
READ_ONLY_ROOT = {"I04"}
ROWS = {f"I{number:02}" for number in range(1, 18)}

# tests/security says why, check by check.
NOT_FOR_AN_ORDINARY_USER = {
    *("host_root_uid", "host_root_gid", "host_groups", "kill_pid1", "res_fork", "res_memory", "res_cpu"),
    "res_tcp_buffers",
}


@pytest.fixture(scope="module")
def checks():
    """The rows of each check, by its name."""
    if not PAYLOAD.exists():
        pytest.fail(f"{PAYLOAD} does not exist: build the target caisson-payload")
    listed = subprocess.run([PAYLOAD, "list"], capture_output=True, text=True, check=True).stdout
    return {name: set(rows.split()) for name, rows in (line.split(" ", 1) for line in listed.splitlines())}


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    """What lies about on the host, and tells each check what to look for."""
    name, key = f"caisson-paths-{os.getpid()}", 0x50610000 + (os.getpid() & 0xFFFF)
    file = tmp_path_factory.mktemp("lies") / "about"
    command = [PAYLOAD, "fixture", name, str(key), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as fixture:
        ready, four, six, address, namespaces = fixture.stdout.readline().split()
        assert ready == "ready"
        yield {
            "host_abstract_unix": name,
            "host_sysv_shm": str(key),
            "host_file": str(file),
            "host_namespaces": namespaces,
            "host_loopback": f"127.0.0.1:{four},[::1]:{six}",
            "host_address": f"{address}:{four}",
            "self_environ": SECRET,
            "res_memory": "1024",
            "res_cpu": "1",
        }
        fixture.stdin.close()
        assert fixture.wait(60) == 0


class Table:
    """The checks that must hold on a path, as one command for a shell, and what their answers say."""

    def __init__(self, checks, arguments, rows, without=()):
        self.names = sorted(name for name, its in checks.items() if its & rows and name not in without)
        self.arguments = arguments

    def script(self):
        lines = []
        for name in self.names:
            argument = self.arguments.get(name, "")
            lines.append(f"{PLACE}/caisson-payload check {name} {argument}")
        return "; ".join(lines) + "; echo finished"

    def judge(self, text):
        lines = text.replace("\r\n", "\n").splitlines()
        answers = dict(line.split(" ", 1) for line in lines if " " in line)
        missing = [name for name in self.names if name not in answers]
        findings = {
            name: answers[name]
            for name in self.names
            if name in answers and answers[name].split(":", 1)[0] not in EXPECTED
        }
        assert not findings and not missing, (findings, missing)
        assert lines[-1] == "finished"


@pytest.fixture(scope="module")
def offline(checks, arguments):
    return Table(checks, arguments, ROWS - ONLINE_ONLY)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    config = {"box": {"local": {"allowed_mount_roots": [str(PAYLOAD.parent)]}}}
    with Daemon(tmp_path_factory.mktemp("daemon"), json.dumps(config), env=OUTSIDE) as daemon:
        yield daemon


MOUNTS = [{"host_path": str(PAYLOAD.parent), "mount_path": PLACE, "mode": "ro"}]
LONG = 120  # seconds; the most that the default profile allows


def run_once(table, tmp_path, *options, prefix=(), env=os.environ):
    done = subprocess.run(
        [*prefix, PROGRAM, "exec", "-q", "--state", tmp_path / "state"]
        + ["--mount", f"{PAYLOAD.parent}:{PLACE}:ro", *options, "--", "sh", "-c", table.script()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        env={**env, **OUTSIDE},
    )
    assert done.returncode == 0, done.stderr
    table.judge(done.stdout)


def test_isolation_holds_for_one_command(offline, tmp_path):
    run_once(offline, tmp_path)


def test_isolation_holds_with_the_network_on(checks, arguments, tmp_path):
    run_once(Table(checks, arguments, ROWS - OFFLINE_ONLY, {"only_lo", "route_default"}), tmp_path, "--network", "on")


def test_isolation_holds_with_a_writable_root(checks, arguments, tmp_path):
    run_once(Table(checks, arguments, ROWS - ONLINE_ONLY - READ_ONLY_ROOT), tmp_path, "--writable")


@pytest.fixture
def home_of_user():
    with tempfile.TemporaryDirectory() as home:  # not below pytest's, which are root's alone
        os.chown(home, 65534, 65534)
        yield Path(home)


def test_isolation_holds_for_an_ordinary_user(checks, arguments, home_of_user):
    home = home_of_user
    prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]
    if subprocess.run([*prefix, "test", "-x", PROGRAM, "-a", "-x", PAYLOAD, "-a", "-w", home]).returncode != 0:
        pytest.skip("an ordinary user cannot reach this tree")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    table = Table(checks, arguments, ROWS - ONLINE_ONLY, NOT_FOR_AN_ORDINARY_USER)
    run_once(table, home, "--allow-missing", "memory_limit,pids_limit,cpu_limit", prefix=prefix, env=env)


def test_isolation_holds_in_a_session(daemon, client, name, offline):
    assert client.create(name, extra_mounts=MOUNTS).status == 201
    client.timeout = 2 * LONG
    for _ in range(2):  # in a parked shell, or in the first of a box; and in a later one
        result = client.run(name, offline.script(), extra_mounts=MOUNTS, timeout_sec=LONG)
        offline.judge(result["stdout"])
    client.delete(name)


def test_isolation_holds_over_rpc(daemon, name, offline):
    with Rpc(daemon.port) as rpc:
        host = Tenant(rpc, "w", 1, INSTANCE)
        host.create(name, extra_mounts=MOUNTS)
        seq = host.send("box_exec", session_id=name, cmd=offline.script(), extra_mounts=MOUNTS, timeout_sec=LONG)
        answer = host.receive(seq, 2 * LONG)
        offline.judge(answer["data"]["stdout"])
        host.delete(name)


def test_isolation_holds_for_a_process(daemon, client, name, offline):
    assert client.create(name, extra_mounts=MOUNTS).status == 201
    start(client, name, "sh", "-c", offline.script())
    assert wait_for_end(client, name, seconds=600)["exit_code"] == 0
    offline.judge(output(client, name, stream="stdout").body.decode())
    client.delete(name)


def test_isolation_holds_at_a_terminal(daemon, client, name, checks, arguments):
    # It does have a controlling terminal: one of the box.
    table = Table(checks, arguments, ROWS - ONLINE_ONLY, {"controlling_tty"})
    assert client.create(name, extra_mounts=MOUNTS).status == 201
    start(client, name, "sh", "-c", f"{table.script()}; exec cat", tty=True)
    with Offsets(daemon, name, **{"from": 0}) as relay:
        shown, end = b"", time.monotonic() + 600
        while not shown.endswith(b"finished\r\n"):
            assert time.monotonic() < end
            shown += relay.bytes_until(lambda got: got.endswith(b"\n"))
    table.judge(shown.decode())
    client.delete(name)
