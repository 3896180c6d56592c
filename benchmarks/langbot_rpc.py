"""A LangBot host as far as the benchmark needs one: the client of langbot-plugin, for ours and for theirs.

Given the address of a server it connects to that; given the name of a backend, and for docker an image, it
starts `lbp box` with it first. Prints one line of JSON when it has its sessions, and for every line of input,
the name of a call, one with the milliseconds that it took. Ends, and ends what it started, with its input.
"""
import asyncio
import contextlib
import importlib.metadata
import json
import logging
import os
import pathlib
import signal
import socket
import sys
import tempfile
import time

from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxSpec
from langbot_plugin.box.security import BOX_CONTROL_TOKEN_ENV, BOX_CONTROL_TOKEN_HEADER, BOX_INSTANCE_HEADER
from langbot_plugin.entities.io.actions.enums import CommonAction
from langbot_plugin.entities.io.context import ActionContext
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

INSTANCE = "11111111-1111-4111-8111-111111111111"
CONTEXT = ActionContext(instance_uuid=INSTANCE, workspace_uuid="w", placement_generation=1)
TOKEN = "the-benchmark-and-nobody-else-speaks-to-this-server"
SESSIONS = 16
AT_A_TIME = 128  # as many as a connection may have under way
# The most that `lbp box` can be given; with less its nsjail backend refuses so many at a time.
ROOM = {"LANGBOT_BLOCKING_EXECUTOR_MAX_WORKERS": "64", "LANGBOT_BLOCKING_EXECUTOR_MAX_INFLIGHT_PER_SCOPE": "32"}
CALL_SECONDS = 30
START_SECONDS = 40


class Caller:
    """One connection, and what is measured over it."""

    def __init__(self, handler, image):
        self.handler = handler
        self.client = ActionRPCBoxClient(logging.getLogger("benchmark"))
        self.client.set_handler(handler)
        self.image = {"image": image} if image else {}
        self.created = 0

    def spec(self, session, cmd=""):
        return BoxSpec(session_id=session, cmd=cmd, **self.image)

    async def run_true(self, session):
        result = await self.client.execute(self.spec(session, "true"), CONTEXT)
        if result.exit_code != 0:
            raise RuntimeError(f"true in {session}: {result}")

    async def ping(self):
        await self.handler.call_action(CommonAction.PING, {})

    async def pings(self):
        await asyncio.gather(*(self.ping() for _ in range(AT_A_TIME)))

    async def exec(self):
        await self.run_true("rate-0")

    async def create(self):
        await self.client.create_session(self.spec(f"new-{self.created}"), CONTEXT)

    async def execs(self):
        await asyncio.gather(*(self.run_true(f"rate-{i % SESSIONS}") for i in range(AT_A_TIME)))

    async def prepare(self):
        for i in range(SESSIONS):
            await self.run_true(f"rate-{i}")

    async def measure(self, call):
        calls = {"ping": self.ping, "pings": self.pings, "exec": self.exec, "execs": self.execs, "create": self.create}
        begin = time.perf_counter()
        await calls[call]()
        took = (time.perf_counter() - begin) * 1000
        if call == "create":
            await self.client.delete_session(f"new-{self.created}", CONTEXT)
            self.created += 1
        return took

    async def remove_sessions(self):
        for i in range(SESSIONS):
            await self.client.delete_session(f"rate-{i}", CONTEXT)


def say(**what):
    print(json.dumps(what), flush=True)


async def serve_calls(caller):
    await asyncio.wait_for(caller.prepare(), START_SECONDS)
    say(version=importlib.metadata.version("langbot-plugin"))
    loop = asyncio.get_running_loop()
    while call := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        say(ms=await asyncio.wait_for(caller.measure(call), CALL_SECONDS))
    await asyncio.wait_for(caller.remove_sessions(), CALL_SECONDS)


async def connect_and_serve(address, image):
    """LangBot's own way to a connection: its controller, with a handler that runs beside the caller."""

    async def connected(connection):
        handler = Handler(connection)
        running = asyncio.create_task(handler.run())
        try:
            await serve_calls(Caller(handler, image))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def failed(_controller, error):
        raise error

    headers = {BOX_INSTANCE_HEADER: INSTANCE, BOX_CONTROL_TOKEN_HEADER: TOKEN}
    await WebSocketClientController(address, failed, headers).run(connected)


async def wait_until_it_listens(server, port, log):
    for _ in range(START_SECONDS * 20):
        if server.returncode is not None:
            raise RuntimeError(f"lbp box does not start: {log.read_text()[-300:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("lbp box does not listen")


@contextlib.asynccontextmanager
async def lbp_box(backend):
    """The address of a server of their own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["-m", "langbot_plugin.cli.__init__", "box", "--host", "127.0.0.1", "--ws-control-port", str(port)]
    settings = {"LANGBOT_BOX_CONFIG": json.dumps({"backend": backend}), BOX_CONTROL_TOKEN_ENV: TOKEN, **ROOM}
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory, "log")
        with log.open("wb") as out:
            server = await asyncio.create_subprocess_exec(
                sys.executable, *command, cwd=directory, env=os.environ | settings,
                stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            await wait_until_it_listens(server, port, log)
            yield f"ws://127.0.0.1:{port}/rpc/ws"
        finally:
            with contextlib.suppress(ProcessLookupError):
                server.send_signal(signal.SIGINT)
            try:
                await asyncio.wait_for(server.wait(), CALL_SECONDS)
            except asyncio.TimeoutError:
                server.kill()
                await server.wait()


async def main(server, image=None):
    try:
        if server.startswith("ws://"):
            await connect_and_serve(server, image)
        else:
            async with lbp_box(server) as address:
                await connect_and_serve(address, image)
    except Exception as error:  # whatever it is, the benchmark is to show it
        say(error=f"{type(error).__name__}: {error}")


logging.disable(logging.CRITICAL)
asyncio.run(main(*sys.argv[1:]))
