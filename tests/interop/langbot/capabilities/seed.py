"""LangBot's own integration scenario of MCP servers in boxes, step by step as its tests have it."""

import websockets
from host import until
from langbot_plugin.box import errors
from langbot_plugin.box.models import BoxManagedProcessStatus

from capabilities import attach, capability, check, refusal

IMAGE = "alpine:latest"


async def make(host, session):
    await host.create(session, image=IMAGE)


def names(sessions):
    return [session["session_id"] for session in sessions]


@capability("managed process: start and query", group="seed")
async def start_and_query(host):
    await make(host, "mcp-int-lifecycle")
    started = await host.start("mcp-int-lifecycle", "while true; do sleep 1; done")
    check(started.status == BoxManagedProcessStatus.RUNNING, "not running")
    shown = await host.call("get_managed_process", "mcp-int-lifecycle")
    check(shown.status == BoxManagedProcessStatus.RUNNING and shown.command == "sh", "another process")
    await host.call("delete_session", "mcp-int-lifecycle")


@capability("attach by WebSocket: echo", group="seed")
async def echo(host):
    await make(host, "mcp-int-ws")
    await host.start("mcp-int-ws", "", command="cat", args=[])
    async with attach(host, "mcp-int-ws") as socket:
        await socket.send("hello from test")
        message = await socket.recv()
        check(isinstance(message, str) and "hello from test" in message, "another echo")
    await host.call("delete_session", "mcp-int-ws")
    async with refusal(websockets.InvalidStatus, "the relay of a deleted session is still there"):
        async with attach(host, "mcp-int-ws"):
            pass


@capability("delete cleans up", group="seed")
async def cleanup(host):
    await make(host, "mcp-int-cleanup")
    await host.start("mcp-int-cleanup", "", command="sleep", args=["3600"])
    await host.call("delete_session", "mcp-int-cleanup")
    async with refusal(errors.BoxSessionNotFoundError, "the session is still there"):
        await host.call("get_session", "mcp-int-cleanup")


@capability("one session in detail", group="seed")
async def detail(host):
    await make(host, "mcp-int-get")
    shown = await host.call("get_session", "mcp-int-get")
    check((shown["session_id"], shown["image"]) == ("mcp-int-get", IMAGE), "another session")
    check("managed_process" not in shown, "a process that nobody started")
    await host.start("mcp-int-get", "", command="sleep", args=["3600"])
    shown = await host.call("get_session", "mcp-int-get")
    check(shown["managed_process"]["status"] == BoxManagedProcessStatus.RUNNING.value, "no running process")
    await host.call("delete_session", "mcp-int-get")


@capability("the end of a process is seen", group="seed")
async def exit_seen(host):
    await make(host, "mcp-int-exit")
    await host.start("mcp-int-exit", "echo done && exit 0")
    shown = await host.ended("mcp-int-exit")
    check((shown.status, shown.exit_code) == (BoxManagedProcessStatus.EXITED, 0), "another end")
    await host.call("delete_session", "mcp-int-exit")


@capability("cleaning up of orphans leaves what is alive", group="seed")
async def orphans(host):
    await make(host, "mcp-int-orphan")
    check("mcp-int-orphan" in names(await host.call("get_sessions")), "not in the list")
    check((await host.call("get_status"))["active_sessions"] >= 1, "not counted")

    async def still():
        return "mcp-int-orphan" in names(await host.call("get_sessions"))

    await until(still, "the session")
    await host.call("delete_session", "mcp-int-orphan")
