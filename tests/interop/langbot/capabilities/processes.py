"""Processes and the relay to them."""

import asyncio
from pathlib import Path

import websockets
from host import until
from langbot_plugin.box import errors
from langbot_plugin.box.models import BoxManagedProcessSpec
from mcp import ClientSession
from mcp.client import websocket

from capabilities import attach, capability, check, refusal

SERVER = Path(__file__).with_name("mcp_server.sh").read_text()


@capability("processes: start, show, stop")
async def processes(host):
    await host.create("processes")
    more = {"memory_mb": 64} if "memory_mb" in BoxManagedProcessSpec.model_fields else {}
    started = await host.start("processes", "exec sleep 60", env={"B": "1", "A": "2"}, **more)
    check(started.status.value == "running" and started.env_keys == ["A", "B"], "the process shows other values")
    await host.start("processes", "exec sleep 60", "second")
    shown = await host.call("get_session", "processes")
    check(sorted(shown["managed_processes"]) == ["default", "second"], "not both are in the session")
    check(shown["managed_process"]["status"] == "running", "the default process is not in the session")
    await host.call("stop_managed_process", "processes")
    async with refusal(errors.BoxManagedProcessNotFoundError, "a stopped process is still shown"):
        await host.call("get_managed_process", "processes")
    await host.call("stop_managed_process", "processes", "second")


@capability("processes: a stopped one really ends")
async def stopped(host):
    await host.create("processes")
    await host.start("processes", "echo started >&2; exec sleep 987")

    async def started():
        return (await host.call("get_managed_process", "processes")).stderr_preview.strip() == "started"

    await until(started, "the process")
    await host.call("stop_managed_process", "processes")
    found = await host.output("processes", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    check("sleep 987" not in found, "it runs on in the box")


@capability("processes: a second start replaces the first")
async def replaced(host):
    await host.create("processes")
    first = await host.start("processes", "exec sleep 60")
    second = await host.start("processes", "exec sleep 61")
    check(second.status.value == "running" and second.started_at > first.started_at, "not replaced")
    check((await host.call("get_managed_process", "processes")).args == ["-c", "exec sleep 61"], "not replaced")
    await host.call("stop_managed_process", "processes")


@capability("processes: exit code and error output are kept")
async def exited(host):
    await host.create("processes")
    await host.start("processes", "echo first >&2; echo second >&2; exit 7", "ends")

    async def told():
        shown = await host.call("get_managed_process", "processes", "ends")
        return (shown.exit_code, shown.stderr_preview) == (7, "first\nsecond") and shown.exited_at is not None

    await until(told, "the end and the error output", 5)
    await host.call("stop_managed_process", "processes", "ends")


@capability("relay: both ways")
async def relay(host):
    await host.create("processes")
    await host.start("processes", "exec cat", "cat")
    async with attach(host, "processes", "cat") as socket:
        await socket.send("hello from the host")
        check((await socket.recv()).strip() == "hello from the host", "another text came back")
    await host.call("stop_managed_process", "processes", "cat")


@capability("relay: leave and come back")
async def back(host):
    await host.create("processes")
    await host.start("processes", "exec cat", "cat")
    for number in range(3):
        async with attach(host, "processes", "cat") as socket:
            await socket.send(f"turn {number}")
            check((await socket.recv()).strip() == f"turn {number}", "another text came back")
    await host.call("stop_managed_process", "processes", "cat")


@capability("relay: what passes counts as use of the session")
async def use(host):
    await host.create("processes")
    await host.start("processes", "exec cat", "used")

    async def last_use():
        return (await host.call("get_session", "processes"))["last_used_at"]

    async with attach(host, "processes", "used") as socket:
        before = await last_use()
        await socket.send("used")
        await socket.recv()

        async def later():
            return await last_use() > before

        await until(later, "a later last use", 5)
    await host.call("stop_managed_process", "processes", "used")


@capability("relay: one line, one message")
async def one_line(host):
    await host.create("processes")
    await host.start("processes", 'read -r line; printf \'{"a":1}\\n{"b":2}\\n\'; read -r line', "lines")
    async with attach(host, "processes", "lines") as socket:
        await socket.send("go")
        first = await socket.recv()
        check(first.strip() == '{"a":1}', "two lines come as one message")
        check((await socket.recv()).strip() == '{"b":2}', "the second line is another")
    await host.call("stop_managed_process", "processes", "lines")


@capability("relay: a line of 300 kB")
async def long_line(host):
    await host.create("processes")
    await host.start("processes", "exec cat", "long")
    line = "é" * 150_000
    async with attach(host, "processes", "long") as socket:
        await socket.send(line)
        try:
            first = await socket.recv()
        except websockets.ConnectionClosed:
            raise AssertionError("the relay closes") from None
        check(first.strip() == line, "the line comes in pieces")
    await host.call("stop_managed_process", "processes", "long")


@capability("relay: a session of the MCP SDK")
async def mcp_session(host):
    await host.create("processes")
    await host.start("processes", SERVER, "mcp")
    connect = websocket.ws_connect
    websocket.ws_connect = lambda url, **options: connect(url, additional_headers=host.headers(), proxy=None, **options)
    try:
        async with websocket.websocket_client(host.relay_url("processes", "mcp")) as streams:
            async with ClientSession(*streams) as session:
                check((await session.initialize()).serverInfo.name == "interop", "another server answers")
                check([tool.name for tool in (await session.list_tools()).tools] == ["echo"], "another list of tools")
                answers = await asyncio.gather(*(session.call_tool("echo", {"text": str(n)}) for n in range(8)))
                check([one.content[0].text for one in answers] == ["echo"] * 8, "the calls fail")
    finally:
        websocket.ws_connect = connect
    await host.call("stop_managed_process", "processes", "mcp")
