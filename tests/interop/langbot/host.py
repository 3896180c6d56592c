"""What LangBot is to a runtime, made of the client classes of the SDK that this interpreter has."""

import asyncio
import contextlib
import inspect
import logging
import os

import pydantic
from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec
from langbot_plugin.entities.io.actions.enums import CommonAction
from langbot_plugin.runtime.io.controllers.stdio.client import StdioClientController
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

try:
    from langbot_plugin.entities.io.context import ActionContext
except ImportError:  # before 0.5: no tenants
    ActionContext = None

INSTANCE = "interop-instance"
WORKSPACE = "interop-workspace"
TOKEN_HEADER = "X-LangBot-Box-Control-Token"
USED = {"actions": set()}  # what was asked for, and which fields of which models were given


class NotOffered(Exception):
    """This version of the SDK has no such thing."""


class NotTried(Exception):
    """It cannot be seen with this transport, or with this runtime as it is set up here."""


def note(model):
    """Remembers which of its fields were given, and gives it back."""
    USED.setdefault(type(model).__name__, set()).update(model.model_fields_set)
    for name in model.model_fields_set:
        value = getattr(model, name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, pydantic.BaseModel):
                note(one)
    return model


class NotingHandler(Handler):
    """Remembers which actions were asked for."""

    async def call_action(self, action, *arguments, **options):
        USED["actions"].add(action.value)
        return await super().call_action(action, *arguments, **options)


async def until(condition, what, seconds=10):
    """What the condition gave, once that is true."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := await condition()):
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)
    return value


class Host:
    """One connection to a runtime and a client on it. Over stdio, connecting starts the runtime."""

    def __init__(self, settings):
        self.settings = settings
        self.stdio = settings["transport"] == "stdio"
        self.generation = 1
        self.workspace = WORKSPACE
        self.client = ActionRPCBoxClient(logging.getLogger("client"))
        self.running = self.process = None

    @property
    def alive(self):
        return self.running is not None and not self.running.done()

    @property
    def context(self):
        if ActionContext is None:
            return None
        return ActionContext(
            instance_uuid=INSTANCE, workspace_uuid=self.workspace, placement_generation=self.generation
        )

    def token(self):
        """As a header, where the runtime wants one."""
        return {TOKEN_HEADER: self.settings["token"]} if self.settings["token"] else {}

    def headers(self):
        """Of relays: the trusted instance, and whose process it is."""
        if ActionContext is None:
            return {}
        return {
            **self.token(),
            "X-LangBot-Instance-Id": INSTANCE,
            "X-LangBot-Workspace-Id": self.workspace,
            "X-LangBot-Placement-Generation": str(self.generation),
        }

    def controller(self):
        if self.stdio:
            command, *arguments = self.settings["command"]
            environment = {**os.environ, **self.settings["env"]}
            if ActionContext is not None:
                environment["LANGBOT_BOX_TRUSTED_INSTANCE_UUID"] = INSTANCE
            return StdioClientController(command, arguments, environment, self.settings["directory"])
        headers = {**self.token(), "X-LangBot-Instance-Id": INSTANCE}
        options = {} if ActionContext is None else {"additional_headers": headers}
        address = self.settings["url"].replace("http://", "ws://") + "/rpc/ws"
        return WebSocketClientController(address, self.failed, **options)

    async def failed(self, _controller, error):
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionError("not connected"))

    async def connect(self):
        self.ready = asyncio.get_running_loop().create_future()
        controller = self.controller()

        async def connected(connection):
            handler = NotingHandler(connection)
            self.process = getattr(connection, "process", None)
            self.ready.set_result(handler)
            await handler.run()

        self.running = asyncio.create_task(controller.run(connected))
        self.handler = await asyncio.wait_for(self.ready, 15)
        self.client.set_handler(self.handler)
        await self.handler.call_action(CommonAction.PING, {})

    async def close(self):
        if not self.alive:
            return
        with contextlib.suppress(Exception):
            await self.handler.conn.close()
        await asyncio.wait([self.running], timeout=20)
        if not self.running.done():
            self.running.cancel()
            await asyncio.wait([self.running])

    async def open(self):
        """Connected and initialized, as after every connect of LangBot."""
        if not self.alive:
            if self.settings["token"] and ActionContext is None:
                raise NotOffered("a way to show the token")
            await self.connect()
            await self.client.init(self.settings["init"])

    def offers(self, method):
        return hasattr(self.client, method)

    async def call(self, method, *arguments, **options):
        """A method of the client, with the context of this host where it takes one."""
        if not self.offers(method):
            raise NotOffered(method)
        function = getattr(self.client, method)
        if "action_context" in inspect.signature(function).parameters:
            options["action_context"] = self.context
        return await function(*arguments, **options)

    async def ask(self, action, data):
        """An action with data that no method of the client would send."""
        options = {}
        if "action_context" in inspect.signature(self.client._call).parameters:
            options["action_context"] = self.context
        return await self.client._call(action, data, **options)

    async def ask_in_words(self, number, text):
        """The answer to a request that no encoder of the SDK would write; it says that it has this number."""
        answer = self.handler.resp_waiters[number] = asyncio.get_running_loop().create_future()
        await self.handler.conn.send(text)
        return await answer

    async def exec(self, session, command, **spec):
        return await self.call("execute", self.spec(session, command, **spec))

    async def output(self, session, command, **spec):
        """Of a command that must succeed."""
        result = await self.exec(session, command, **spec)
        assert result.exit_code == 0, f"exit code {result.exit_code}: {result.stderr[:200]}"
        return result.stdout

    async def create(self, session, **spec):
        return await self.call("create_session", self.spec(session, **spec))

    def spec(self, session, command="", **spec):
        return note(BoxSpec(cmd=command, session_id=session, **{"workdir": "/tmp", **spec}))

    async def start(self, session, script, process="default", **spec):
        fields = {"command": "sh", "args": ["-c", script], "cwd": "/tmp", "process_id": process, **spec}
        return await self.call("start_managed_process", session, note(BoxManagedProcessSpec(**fields)))

    async def ended(self, session, process="default"):
        """What is kept of a process after its end."""

        async def look():
            shown = await self.call("get_managed_process", session, process)
            return shown if shown.status.value == "exited" else None

        return await until(look, "the end of a process")

    def relay_url(self, session, process="default"):
        options = {} if ActionContext is None else {"action_context": self.context}
        return self.client.get_managed_process_websocket_url(session, self.settings["url"], process, **options)
