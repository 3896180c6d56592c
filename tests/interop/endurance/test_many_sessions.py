"""As many sessions as a daemon can have: made, used, back after it was killed, and gone without a trace.

$CAISSON_SESSIONS is their number.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from rest.daemon import Client
from rest.host import status_field, wait_until
from rest.test_recovery import keeper_of

SESSIONS = int(os.environ.get("CAISSON_SESSIONS", 150))
CONFIG = "{box: {limits: {max_sessions: 5000}}, caisson: {session_ttl_sec: 86400}}\n"
CLIENTS = 8
SLACK_KB = 16384
WARM_UP = 80  # what is kept for boxes that are gone is kept then


def in_parallel(daemon, work, numbers):
    """Gives what `work(client, number)` gave for each."""

    def part(first):
        client = Client(daemon.port, timeout=600)
        results = [(number, work(client, number)) for number in numbers[first::CLIENTS]]
        client.close()
        return results

    with ThreadPoolExecutor(CLIENTS) as pool:
        return dict(result for results in pool.map(part, range(CLIENTS)) for result in results)


def make(client, number):
    reply = client.create(f"many {number}")
    assert reply.status == 201, reply
    assert client.output(f"many {number}", f"echo {number} > file; echo {number}") == str(number)
    return reply.json["backend_session_id"]


def use(client, number):
    assert client.output(f"many {number}", "cat file") == str(number)


def remove(client, number):
    assert client.delete(f"many {number}").status == 200


def held(daemon):
    """By the daemon and its keeper: descriptors, and memory in kB."""
    keeper = keeper_of(daemon)
    return {"descriptors": daemon.fds(), "descriptors of the keeper": len(os.listdir(f"/proc/{keeper}/fd")),
            "memory": daemon.rss_kb(), "memory of the keeper": status_field(keeper, "VmRSS")}  # fmt: skip


def settle(daemon):
    """Shells that wait for a command have gone."""
    wait_until(lambda: daemon.client.metric("parked_shells") == 0, "the end of all parked shells")
    return held(daemon)


def test_all_are_back_after_a_kill_and_leave_nothing(start_daemon):
    daemon = start_daemon(CONFIG)
    for work in (make, remove):
        in_parallel(daemon, work, range(WARM_UP))
    before, began = settle(daemon), time.monotonic()

    boxes = in_parallel(daemon, make, range(SESSIONS))
    made, full = time.monotonic() - began, settle(daemon)
    daemon.kill()
    began = time.monotonic()
    daemon.start(600)
    listening = time.monotonic() - began
    wait_until(lambda: daemon.client.metric("sessions_returning") == 0, "the last session", 600)
    back = time.monotonic() - began

    views = {view["session_id"]: view for view in daemon.client("GET", "/v1/sessions").json}
    assert len(views) == SESSIONS, "sessions are lost"
    for number, box in boxes.items():
        view = views[f"many {number}"]
        assert (view["backend_session_id"], view["state"]) == (box, "idle"), view
    began = time.monotonic()
    in_parallel(daemon, use, range(SESSIONS))
    used, began = time.monotonic() - began, time.monotonic()
    in_parallel(daemon, remove, range(SESSIONS))
    removed = time.monotonic() - began
    print(f"{SESSIONS} sessions: made and used in {made:.1f} s, after kill -9 listening in {listening:.2f} s, all back in "
          f"{back:.2f} s, used in {used:.1f} s, removed in {removed:.1f} s")  # fmt: skip
    # Memory is given back from time to time.
    wait_until(lambda: daemon.rss_kb() <= before["memory"] + SLACK_KB, "the memory of before", 120)
    after = settle(daemon)
    print(f"before {before}, with all of them {full}, after {after}")
    assert full["descriptors"] <= before["descriptors"] + 3 * SESSIONS + 16
    assert after["descriptors"] <= before["descriptors"] + 16
    assert after["descriptors of the keeper"] <= before["descriptors of the keeper"] + 4
    assert after["memory of the keeper"] <= before["memory of the keeper"] + SLACK_KB
    daemon.stop(600)
