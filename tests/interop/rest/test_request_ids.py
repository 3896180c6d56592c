"""Request ids: a command that is asked for again does not run twice, whatever happens meanwhile."""

import http.client
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from .daemon import PROGRAM, Client, begin, session_path, works
from .host import fill, orphans, processes_with, state_on, wait_until

KEY = "Idempotency-Key"
COUNT = "echo ran >> /workspace/log; echo out; echo err >&2; exit 3"


def ask(client, session, key, cmd=COUNT, tail="/exec", **spec):
    return client("POST", session_path(session) + tail, {"cmd": cmd, **spec}, {KEY: key})


def look(client, session, key):
    return client("GET", f"{session_path(session)}/exec/{key}")


def is_replayed(reply):
    return reply.headers.get("idempotent-replayed") == "true"


def events(reply):
    """(name, data) of each server-sent event."""
    found = []
    for block in reply.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


@pytest.fixture
def shown(tmp_path):
    """A directory of the host for boxes: what commands leave in it outlives every daemon."""
    tmp_path.chmod(0o777)
    place = tmp_path / "shown"
    place.mkdir()
    place.chmod(0o777)
    return place


def runs(shown):
    log = shown / "log"
    return log.read_text().count("ran\n") if log.exists() else 0


def test_a_repeated_request_gets_the_same_answer_and_runs_nothing(client, name):
    first = ask(client, name, "k")
    assert first.status == 200 and not is_replayed(first), first
    assert (first.json["exit_code"], first.json["stdout"], first.json["stderr"]) == (3, "out", "err")
    for _ in range(3):
        again = ask(client, name, "k")
        assert (again.status, again.body) == (200, first.body)
        assert is_replayed(again)
    assert client.output(name, "cat log") == "ran"
    assert look(client, name, "k").json == {"state": "completed", "result": first.json}


def test_the_body_may_carry_the_id_as_well(client, name):
    first = client.exec(name, COUNT, request_id="k")
    again = ask(client, name, "k")
    assert first.body == again.body and is_replayed(again)
    both = ask(client, name, "k", request_id="k")
    assert is_replayed(both)
    differing = ask(client, name, "k", request_id="other")
    assert (differing.status, differing.code) == (400, "validation_error")
    assert KEY in differing.message


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\tin it", "stream", ".", ".."])
def test_an_id_that_could_not_be_asked_for_is_refused(client, name, key):
    for reply in (ask(client, name, key), client.exec(name, COUNT, request_id=key)):
        assert (reply.status, reply.code) == (400, "validation_error"), reply
    assert client.get(name).status == 404


@pytest.mark.parametrize("key", [3, None, ["k"], True])
def test_an_id_that_is_no_text_is_refused(client, name, key):
    assert client.exec(name, COUNT, request_id=key).status == 400


def test_two_ids_in_the_head_are_refused(daemon, name):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
    body = json.dumps({"cmd": "true"}).encode()
    connection.putrequest("POST", session_path("twice") + "/exec")
    for header, value in ((KEY, "a"), (KEY, "b"), ("Content-Type", "application/json"), ("Content-Length", len(body))):
        connection.putheader(header, value)
    connection.endheaders(body)
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.parametrize("key", ["x" * 200, "a b", "a%2Fb", "~!@$^&*()+=|[]{}<>;:'\"", "streams"])
def test_ids_of_every_kind_are_found_again(client, name, key):
    first = ask(client, name, key)
    assert first.status == 200
    assert look(client, name, quote(key, safe="")).json["result"] == first.json


def test_twenty_at_once_run_one_command(daemon, client, name):
    client.create(name)

    def one(_):
        own = Client(daemon.port)
        reply = ask(own, name, "k", "echo ran >> log; sleep 0.3; echo $$")
        own.close()
        return reply

    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(one, range(20)))
    assert {(reply.status, reply.body) for reply in replies} == {(200, replies[0].body)}
    assert sum(not is_replayed(reply) for reply in replies) == 1
    assert client.output(name, "cat log") == "ran"


def test_another_request_under_the_same_id_is_a_conflict(client, name):
    ask(client, name, "k")
    for other in ({"cmd": "true"}, {"env": {"A": "1"}}, {"stdin": "x"}, {"timeout_sec": 29}, {"memory_mb": 64}):
        reply = ask(client, name, "k", **other)
        assert (reply.status, reply.code) == (409, "request_id_conflict"), reply
        assert "was used for another command" in reply.message
        streamed = ask(client, name, "k", tail="/exec/stream", **other)
        assert (streamed.status, streamed.code) == (409, "request_id_conflict"), streamed
    assert is_replayed(ask(client, name, "k", timeout_sec=30, memory_mb=512))  # the same, spelled out
    assert client.output(name, "cat log") == "ran"


def test_a_stream_is_told_again(client, name):
    first = ask(client, name, "k", tail="/exec/stream")
    assert not is_replayed(first)
    again = ask(client, name, "k", tail="/exec/stream")
    assert is_replayed(again)
    names = [event for event, _ in events(again)]
    assert names == ["stdout", "stderr", "result"]
    assert events(again)[:2] == [("stdout", {"text": "out"}), ("stderr", {"text": "err"})]
    assert events(again)[-1] == events(first)[-1]
    assert ask(client, name, "k").json == events(first)[-1][1]
    assert client.output(name, "cat log") == "ran"


def test_who_joins_a_stream_late_gets_all_of_it(daemon, client, name):
    client.create(name)
    cmd = "echo begun; until [ -e /tmp/go ]; do sleep 0.01; done; echo ran >> log"
    caller = Client(daemon.port)
    caller.send("POST", session_path(name) + "/exec/stream", {"cmd": cmd}, {KEY: "k"})
    wait_until(lambda: look(client, name, "k").json == {"state": "running"}, "the command at work")
    late = Client(daemon.port)
    late.send("POST", session_path(name) + "/exec/stream", {"cmd": cmd}, {KEY: "k"})
    client.put_file(name, "/tmp/go", b"")
    first, second = caller.receive(), late.receive()
    assert events(first)[-1] == events(second)[-1]
    assert events(second)[0] == ("stdout", {"text": "begun"})
    assert client.output(name, "cat log") == "ran"


def test_a_timeout_is_an_answer_like_others(client, name):
    first = ask(client, name, "k", "echo begun; sleep 60", timeout_sec=1)
    assert first.json["status"] == "timed_out"
    assert client.get(name).status == 404
    assert ask(client, name, "k", "echo begun; sleep 60", timeout_sec=1).body == first.body
    assert client.get(name).status == 404


@pytest.mark.parametrize("tail", ["/exec", "/exec/stream"])
def test_the_command_of_a_caller_who_goes_away_ends_with_an_answer(daemon, client, name, tail):
    client.create(name)
    cmd = "until [ -e /tmp/go ]; do sleep 0.01; done; yes | head -c 3000000; echo ran >> log"
    caller = Client(daemon.port)
    caller.send("POST", session_path(name) + tail, {"cmd": cmd}, {KEY: "k"})
    wait_until(lambda: look(client, name, "k").status == 200, "the command at work")
    caller.close()
    client.put_file(name, "/tmp/go", b"")
    wait_until(lambda: look(client, name, "k").json["state"] == "completed", "the end of the command")
    result = look(client, name, "k").json["result"]
    assert result["exit_code"] == 0 and result["stdout_discarded"] > 0
    assert ask(client, name, "k", cmd).json == result
    assert client.output(name, "cat log") == "ran"


@pytest.mark.parametrize("tail", ["/exec", "/exec/stream"])
def test_a_caller_may_have_its_command_ended_when_it_goes(daemon, client, name, tail):
    client.create(name)
    cmd = f"sleep 5000.{len(tail)}"
    caller = Client(daemon.port)
    caller.send("POST", session_path(name) + tail, {"cmd": cmd, "on_disconnect": "cancel"}, {KEY: "k"})
    wait_until(lambda: processes_with(cmd), "the command at work")
    caller.close()
    wait_until(lambda: not processes_with(cmd), "the end of the command")
    wait_until(lambda: look(client, name, "k").json["state"] == "completed", "the record of it")
    assert look(client, name, "k").json["error"]["code"] == "cancelled"
    again = ask(client, name, "k", cmd, on_disconnect="cancel")
    assert (again.status, again.code) == (409, "cancelled") and is_replayed(again)


def test_deleting_the_session_forgets_its_ids(client, name):
    ask(client, name, "k")
    assert client.delete(name).status == 200
    assert look(client, name, "k").code == "session_not_found"
    assert not is_replayed(ask(client, name, "k"))
    assert look(client, name, "other").code == "not_found"


def test_a_command_that_could_not_begin_may_be_tried_again(client, name):
    client.create(name, memory_mb=128)
    assert ask(client, name, "k").code == "session_conflict"
    assert look(client, name, "k").code == "not_found"
    client.delete(name)
    reply = ask(client, name, "k")
    assert reply.status == 200 and not is_replayed(reply)


def test_a_command_without_an_id_does_not_touch_the_disk(start_daemon):
    daemon = start_daemon()
    daemon.client.output("s", "true")
    ask(daemon.client, "s", "k")

    def stamps():
        return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in daemon.state.glob("caisson.db*")}

    before = stamps()
    for _ in range(10):
        daemon.client.output("s", "true")
    assert stamps() == before
    ask(daemon.client, "s", "l")
    assert stamps() != before


def test_a_killed_daemon_does_not_run_it_twice(start_daemon, shown):
    daemon = start_daemon()
    cmd, spec = "echo ran >> log; sleep 6001.5", {"host_path": str(shown), "timeout_sec": 9999}
    caller = Client(daemon.port)
    caller.send("POST", session_path("s") + "/exec", {"cmd": cmd, **spec}, {KEY: "k"})
    wait_until(lambda: processes_with("sleep 6001.5"), "the command at work")
    done = ask(daemon.client, "other", "done")
    daemon.kill()
    caller.close()
    daemon.start()
    for tail in ("/exec", "/exec/stream"):
        reply = ask(daemon.client, "s", "k", cmd, tail, **spec)
        assert (reply.status, reply.code) == (409, "interrupted"), reply
        assert "outcome is unknown" in reply.message and "not run again" in reply.message
    assert look(daemon.client, "s", "k").json == {"state": "interrupted"}
    assert runs(shown) == 1
    again = ask(daemon.client, "other", "done")
    assert again.body == done.body and is_replayed(again)
    assert ask(daemon.client, "s", "new", "echo ran >> log", **spec).status == 200
    assert runs(shown) == 2
    works(daemon)


@pytest.mark.parametrize("moment", range(0, 30, 3))
def test_a_daemon_killed_at_any_moment_runs_it_at_most_once(start_daemon, shown, moment):
    daemon = start_daemon("caisson: {pools: false, recovery: false}\n")
    body = {"cmd": "echo ran >> log", "host_path": str(shown)}
    caller = begin(daemon, "POST", session_path("s") + "/exec", {**body, "request_id": "k"})
    time.sleep(moment / 1000)  # not to wait for anything: to kill it at different moments
    daemon.kill()
    caller.close()
    wait_until(lambda: not orphans(), "the end of its boxes")
    before = runs(shown)
    daemon.start()
    reply = daemon.client("POST", session_path("s") + "/exec", {**body, "request_id": "k"})
    assert (reply.status == 200 and runs(shown) == 1) or (reply.code == "interrupted" and runs(shown) == before), reply


def test_a_polite_end_leaves_what_it_cut_short_interrupted(start_daemon):
    daemon = start_daemon()
    done = ask(daemon.client, "s", "done")
    caller = Client(daemon.port)
    caller.send("POST", session_path("s") + "/exec", {"cmd": "sleep 6002.5", "timeout_sec": 9999}, {KEY: "k"})
    wait_until(lambda: processes_with("sleep 6002.5"), "the command at work")
    caller.close()
    daemon.stop()
    daemon.start()
    assert look(daemon.client, "s", "k").json == {"state": "interrupted"}
    assert ask(daemon.client, "s", "done").body == done.body


def test_an_answer_is_kept_for_its_time(start_daemon):
    daemon = start_daemon("caisson: {request_id_ttl_sec: 1}\n")
    client = daemon.client
    ask(client, "s", "k")
    wait_until(lambda: look(client, "s", "k").status == 404, "the expiry")
    assert look(client, "s", "k").code == "not_found"
    assert not is_replayed(ask(client, "s", "k"))
    assert client.output("s", "cat log") == "ran\nran"
    ask(client, "s", "l")
    daemon.kill()
    daemon.start()
    wait_until(lambda: look(daemon.client, "s", "l").status == 404, "the expiry after a restart")


def test_the_oldest_answers_give_way(start_daemon):
    daemon = start_daemon("caisson: {max_request_ids: 3}\n")
    client = daemon.client
    for number in range(5):
        assert ask(client, "s", f"k{number}").status == 200
    assert [look(client, "s", f"k{number}").status for number in range(5)] == [404, 404, 200, 200, 200]
    daemon.kill()
    daemon.config.write_text("caisson: {max_request_ids: 1}\n")
    daemon.start()
    assert [look(daemon.client, "s", f"k{number}").status for number in range(5)] == [404, 404, 404, 404, 200]


def test_commands_at_work_do_not_give_way(start_daemon):
    daemon = start_daemon("caisson: {max_request_ids: 2}\n")
    cmd = "until [ -e /tmp/go ]; do sleep 0.01; done; echo ran"
    callers = []
    for name in ("a", "b"):
        caller = Client(daemon.port)
        caller.send("POST", session_path(name) + "/exec", {"cmd": cmd}, {KEY: "k"})
        wait_until(lambda: look(daemon.client, name, "k").status == 200, "the command at work")
        callers.append(caller)
    refused = ask(daemon.client, "c", "k")
    assert (refused.status, refused.code) == (429, "capacity_reached"), refused
    wait_until(lambda: daemon.client.put_file("a", "/tmp/go", b"").status < 300, "the box of a")
    assert callers[0].receive().json["stdout"] == "ran"
    assert ask(daemon.client, "c", "k").status == 200
    wait_until(lambda: daemon.client.put_file("b", "/tmp/go", b"").status < 300, "the box of b")
    assert callers[1].receive().json["stdout"] == "ran"


def test_all_answers_together_are_bounded(start_daemon):
    daemon = start_daemon("caisson: {max_request_id_bytes: 1000000}\n")
    client = daemon.client
    sizes = [len(ask(client, "s", f"k{number}", "head -c 400000 /dev/zero | tr '\\0' x").body) for number in range(4)]
    kept = [look(client, "s", f"k{number}").status == 200 for number in range(4)]
    assert kept == [False, False, True, True] and sum(sizes[2:]) <= 1_000_000
    first = ask(client, "s", "large", "head -c 1040000 /dev/zero | tr '\\0' x")
    assert first.status == 200 and len(first.json["stdout"]) == 1_040_000
    again = ask(client, "s", "large", "head -c 1040000 /dev/zero | tr '\\0' x")
    assert (again.status, again.code) == (413, "payload_too_large"), again


def test_a_full_disk_is_told_before_the_command_runs(start_daemon, tmp_path):
    with state_on(tmp_path, "size=2m") as place:
        daemon = start_daemon(state=place)
        client = daemon.client
        client.output("s", "true")
        kept = ask(client, "s", "kept")
        fill(place)
        outcomes = {}
        for number in range(300):
            reply = ask(client, "s", f"k{number}", f"echo {number} >> /workspace/ran")
            outcomes[number] = reply.status
            if reply.status != 200:
                assert (reply.status, reply.code) == (507, "storage_full"), reply
                assert look(client, "s", f"k{number}").code == "not_found"
                break
        assert outcomes[number] == 507, "there was room all the time"
        ran = set(client.run("s", "cat /workspace/ran")["stdout"].split())
        assert ran == {str(each) for each, status in outcomes.items() if status == 200}
        assert ask(client, "s", "kept").body == kept.body
        (place / "filler").unlink()
        again = ask(client, "s", f"k{number}", f"echo {number} >> /workspace/ran")
        assert again.status == 200 and not is_replayed(again)
        daemon.stop()


def test_the_command_line_runs_it_once(daemon, client, name):
    line = [PROGRAM, "exec", "--url", f"http://127.0.0.1:{daemon.port}", "--state", daemon.state, "-s", name,
            "--request-id", "k", "--", "sh", "-c", "echo ran >> /workspace/log; echo shown; exit 5"]  # fmt: skip
    for _ in range(3):
        done = subprocess.run(line, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (5, "shown", "")
    assert client.output(name, "cat log") == "ran"
