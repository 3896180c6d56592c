"""Connection, configuration, commands."""

import asyncio
import json

from langbot_plugin.box import errors
from langbot_plugin.runtime.io import connection

from capabilities import capability, check, needs, needs_states, refusal


@capability("connect, ping")
async def connect(host):
    await host.connect()


@capability("init, again with live sessions")
async def init(host):
    await host.client.init(host.settings["init"])
    await host.create("init")
    await host.client.init(host.settings["init"])
    check((await host.call("get_session", "init"))["session_id"] == "init", "the session is gone after the second init")
    await host.call("delete_session", "init")


@capability("health, backend info, status")
async def status(host):
    await host.client.initialize()
    backend = await host.call("get_backend_info")
    check(backend["available"] is True and isinstance(backend["name"], str), "the backend is not available")
    shown = await host.call("get_status")
    check(shown["backend"] == backend, "the status names another backend")
    check((shown["active_sessions"], shown["session_ttl_sec"]) == (0, 300), "the status counts wrong")


@capability("status counts running processes")
async def count(host):
    await host.create("count")
    await host.start("count", "exec sleep 60")
    shown = await host.call("get_status")
    await host.call("delete_session", "count")
    check(shown["active_sessions"] == 1, "the session is not counted")
    check(shown["managed_processes"] == 1, "a running process is not counted")


@capability("status tells what room is left for sessions")
async def capacity(host):
    needs_states()
    before = (await host.call("get_status"))["capacity"]
    await host.create("capacity")
    after = (await host.call("get_status"))["capacity"]
    await host.call("delete_session", "capacity")
    check(before["limit"] == host.settings["init"]["limits"]["max_sessions"], "another limit")
    wanted = {"limit": before["limit"], "used": before["used"] + 1, "remaining": before["remaining"] - 1}
    check(after == wanted, "a session more is counted wrong")


@capability("exec: exit code, output, error output")
async def exit_code(host):
    result = await host.exec("exec", "echo hi; echo err >&2; exit 3")
    check((result.exit_code, result.stdout, result.stderr) == (3, "hi", "err"), "the result is wrong")
    check(result.status.value == "completed" and result.session_id == "exec", "the result is wrong")


@capability("exec: environment, a new working directory")
async def environment(host):
    shown = await host.output("exec", 'echo "$GREETING"; pwd', env={"GREETING": "a  b"}, workdir="/tmp/new/place")
    check(shown == "a  b\n/tmp/new/place", "the environment or the directory is wrong")


@capability("exec: text that is not ASCII, bytes that are not text")
async def text(host):
    shown = await host.output("exec", "printf 'é€😀 \\377\\342\\202 z'")
    check(shown == "é€😀 \ufffd\ufffd z", "the text is changed")


@capability("exec: time limit")
async def time_limit(host):
    result = await host.exec("limit", "echo partial; sleep 20", timeout_sec=3)
    check((result.status.value, result.exit_code, result.stdout) == ("timed_out", None, "partial"), "not timed out")
    check(result.stderr == "Command timed out after 3 seconds.", "the sentence is another")
    async with refusal(errors.BoxSessionNotFoundError, "the session is left after the time limit"):
        await host.call("get_session", "limit")


@capability("exec: several at once in a session take turns")
async def turns(host):
    command = "test ! -e busy || exit 9; touch busy; cat /dev/null; rm busy; echo done"
    results = await asyncio.gather(*(host.exec("turns", command) for _ in range(8)))
    check([result.stdout for result in results] == ["done"] * 8, "two ran at the same time")
    await host.call("delete_session", "turns")


@capability("requests above 64 KiB", seconds=12)
async def large_request(host):
    shown = await host.output("exec", f": {'x' * 100_000}; echo done")
    check(shown == "done", "the command is changed")


@capability("commands above 128 KiB", seconds=12)
async def large_command(host):
    shown = await host.output("exec", f": {'x' * 1_000_000}; echo done")
    check(shown == "done", "the command is changed")


@capability("commands of 9.3 MB, as large attachments need", seconds=30)
async def attachment(host):
    needs(hasattr(connection, "MAX_MESSAGE_BYTES"))
    shown = await host.output("exec", f": {'x' * 9_300_000}; echo done", timeout_sec=60)
    check(shown == "done", "the command is changed")


@capability("requests that are nested too deeply are answered")
async def nested(host):
    number, depth = 900_000_001, 500
    data = {"session_id": "exec", "cmd": "true", "env": "nested"}
    request = {"seq_id": number, "action": "box_exec", "data": data}
    if host.context is not None:
        request["context"] = host.context.model_dump(mode="json")
    text = json.dumps(request).replace('"nested"', '{"a":' * depth + "1" + "}" * depth)
    answer = await asyncio.wait_for(host.ask_in_words(number, text), 10)
    check(answer.code != 0, "it is taken")
    check(await host.output("exec", "echo on") == "on", "the connection does not go on")


@capability("answers above 64 KiB")
async def large_answer(host):
    shown = await host.output("exec", "yes é | tr -d '\\n' | head -c 300000")
    check(shown == "é" * 150_000, "the output is changed")


@capability("exec: output above 1 MiB is clipped", seconds=12)
async def clipped(host):
    shown = await host.output("exec", "head -c 1500000 /dev/zero | tr '\\0' x")
    kept, _, note = shown.partition("\n")
    check(note.startswith("... [") and "clipped" in note, "not clipped")
    check(kept == "x" * len(kept) and len(kept) >= 100_000, "the output is changed")
