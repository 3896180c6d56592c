"""Two daemons on one host, neither of which sees the other's /run: none harms the other.

$CAISSON_ENDURANCE scales the number of times that one comes and goes, 1 being the whole."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from rest.daemon import CGROUPS
from rest.host import command_line, nft_tables, processes_with, wait_until

from .managed import start_shell
from .test_replace import Scene

ROUNDS = max(6, int(200 * float(os.environ.get("CAISSON_ENDURANCE", "0.04"))))
NETWORK = {"network": "on"}
SLEEP = f"sleep {time.monotonic_ns()}.25"

# A mount namespace of its own, whose /run is empty.
ALONE = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]
# The same in a process namespace of its own, as in a container.
CONTAINED = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
             *ALONE[4:]]  # fmt: skip


def places():
    """Where owners make their groups that are started from here, in every hierarchy."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield from (CGROUPS / name / path.strip("/") for name in ([controllers] if controllers else ["", "unified"]))


def groups_of_owners():
    found = set()
    for place in filter(Path.is_dir, places()):
        found |= {str(place / name) for name in os.listdir(place) if name.startswith("caisson-")}
    return found


def groups_of(daemon):
    return {path for path in groups_of_owners() if os.path.basename(path) == f"caisson-{daemon.owner}"}


def tables_of_owners():
    return {name for name in nft_tables() if name.startswith("caisson_")}


def rules(owner):
    """The table of an owner."""
    shown = subprocess.run(["nft", "list", "table", "inet", f"caisson_{owner}"], capture_output=True, text=True)
    return shown.stdout


def sleepers(marker):
    """Those who sleep, not the shells that started them."""
    return {pid for pid in processes_with(marker) if command_line(pid).strip() == marker}


def stop(daemon):
    """Nothing with its number is left; what else is there is the other one's."""
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0, daemon.read_log()
    wait_until(lambda: not groups_of(daemon) and not daemon.interfaces(), "the end of what it had")
    assert f"caisson_{daemon.owner}" not in nft_tables()


def end_for_good(daemon):
    """Killed with all that would find its boxes again: they end by themselves."""
    daemon.kill()
    (daemon.state / "keeper.sock").unlink()


def come_and_go(daemon, chance):
    """A daemon that does what daemons do, and ends one way or the other. Whoever kills the first process of a process
    namespace kills the keeper with it."""
    daemon.start(120)
    client = daemon.client
    client.output("t", f"echo works > file; ({SLEEP} &)")
    client.output("n", "cat /proc/net/dev", **NETWORK)
    if chance.random() < 0.5 and daemon.prefix == ALONE:
        daemon.kill()  # its boxes are found again, by one with another /run
        daemon.start(120)
        assert daemon.client.output("t", "cat file") == "works"
    if chance.random() < 0.5:
        stop(daemon)
    else:
        end_for_good(daemon)


@pytest.mark.parametrize("prefix", [ALONE, CONTAINED], ids=["own-run", "own-processes"])
def test_a_daemon_that_does_not_see_the_other_ones_run_leaves_its_boxes_alone(start_daemon, prefix):
    groups, tables = groups_of_owners(), tables_of_owners()
    first = start_daemon(prefix=ALONE)
    scene = Scene(first)
    marker = f"sleep {time.monotonic_ns()}.5"
    first.client.output("net", f"({marker} &)", **NETWORK)
    beside = wait_until(lambda: sleepers(marker), "what runs beside")
    table = rules(first.owner)
    assert "masquerade" in table
    chance = random.Random(7)
    for number in range(ROUNDS if prefix is ALONE else 2):
        second = start_daemon(launch=False, prefix=prefix)
        come_and_go(second, chance)
        assert second.owner != first.owner
        scene.progress()
        assert sleepers(marker) == beside
        assert rules(first.owner) == table
        assert "eth0" in first.client.output("net", "cat /proc/net/dev", **NETWORK)
        if number % 10 == 4:  # the first one's life goes on in its keeper, and in the next one
            first.kill()
            first.start(120)
            table = rules(first.owner)
    scene.check(first.client)
    assert first.client.delete("net").status == 200
    first.stop()
    # What the killed ones left has become empty, and the next owner takes it away.
    wait_until(lambda: not sleepers(SLEEP), "the end of their boxes", 120)
    last = start_daemon(prefix=ALONE)

    def swept():
        last.client.output("last", "true", **NETWORK)
        last.client.delete("last")
        return len(groups_of_owners() - groups) <= len(groups_of(last))

    wait_until(swept, "the end of their groups", 120)
    last.stop()
    wait_until(lambda: groups_of_owners() <= groups and tables_of_owners() <= tables, "nothing left")


def removed(group):
    """Ends what lives in a control group, and removes it as far as it is empty. Whether it is gone."""
    for path, _, _ in os.walk(group, topdown=False):
        for pid in Path(path, "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            os.rmdir(path)
    return not os.path.exists(group)


def test_boxes_of_an_owner_that_is_not_seen_have_other_ids(start_daemon):
    daemons = [start_daemon(prefix=ALONE) for _ in range(2)]
    uids = set()
    for daemon in daemons:
        marker = f"sleep {time.monotonic_ns()}.5"
        daemon.client.output("s", f"({marker} &)")
        (pid,) = wait_until(lambda: sleepers(marker), "a process in the box")
        uids.add(os.stat(f"/proc/{pid}").st_uid)
    assert len(uids) == 2


def test_groups_that_somebody_removed_are_made_again(start_daemon):
    daemon = start_daemon()
    daemon.client.output("idle", "true")
    start_shell(daemon.client, "busy", "exec sleep 3603.5")
    # As somebody does who knows of no locks: all is ended and removed.
    for path in groups_of(daemon):
        wait_until(lambda: removed(path), f"the end of {path}")

    def works():
        reply = daemon.client.exec("idle", "echo works")
        return reply.status == 200 and reply.json["stdout"] == "works"

    wait_until(works, "a box in new groups")
    assert daemon.boxes()
    assert "removed by somebody else" in daemon.read_log()
    assert daemon.client.output("new", "echo works") == "works"
    daemon.stop()
