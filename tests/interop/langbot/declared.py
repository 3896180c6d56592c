"""Prints, as JSON, what the SDK of this interpreter declares, and what its own runtime answers to some requests.

python declared.py REQUESTS    a JSON list of conversations, each a list of [action, data]

actions     those that its runtime answers
models      the fields of those that hosts and runtimes exchange
choices     the values of their enumerations
profiles    the built-in ones
errors      the classes that failures come as
names       of headers and environment variables
answers     for each conversation, for each request: the names of all that is in the answer, or null for a refusal
"""

import asyncio
import contextlib
import datetime
import enum
import inspect
import json
import logging
import re
import sys
from pathlib import Path

from langbot_plugin.box import actions, errors, models, server
from langbot_plugin.box.backend import BaseSandboxBackend
from langbot_plugin.box.runtime import BoxRuntime
from langbot_plugin.entities.io.actions.enums import CommonAction
from langbot_plugin.entities.io.errors import ConnectionClosedError
from langbot_plugin.runtime.io.connection import Connection
from paths import names_in

MODELS = (
    "BoxSpec", "BoxMountSpec", "BoxProfile", "BoxSessionInfo", "BoxManagedProcessSpec", "BoxManagedProcessInfo",
    "BoxExecutionResult", "SandboxAdmissionGrant", "SandboxAdmissionRevocation", "SandboxAdmissionPolicy",
)  # fmt: skip
INSTANCE = "inst"


class Pretence(BaseSandboxBackend):
    """Makes no boxes, and lets the runtime around it answer all the same."""

    name = "docker"

    async def is_available(self):
        return True

    async def start_session(self, spec):
        now = datetime.datetime.now(datetime.timezone.utc)
        shared = {name: getattr(spec, name) for name in models.BoxSessionInfo.model_fields if hasattr(spec, name)}
        made = {"backend_name": self.name, "backend_session_id": "box", "created_at": now, "last_used_at": now}
        return models.BoxSessionInfo(**shared, **made)

    async def exec(self, session, spec):
        status = models.BoxExecutionStatus.COMPLETED
        return models.BoxExecutionResult(
            session_id=session.session_id, backend_name=self.name, status=status, exit_code=0, duration_ms=1
        )

    async def start_managed_process(self, session, spec):
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe, stderr=pipe)

    async def stop_session(self, session):
        pass


class Wire(Connection):
    def __init__(self):
        self.requests, self.answers = asyncio.Queue(), asyncio.Queue()

    async def receive(self):
        message = await self.requests.get()
        if message is None:
            raise ConnectionClosedError("the end")
        return message

    async def send(self, message):
        await self.answers.put(message)

    async def close(self):
        await self.requests.put(None)


def make_handler(wire):
    runtime = BoxRuntime(logging.getLogger("runtime"), backends=[Pretence(logging.getLogger("backend"))])
    wanted = {"host_control_authenticated": True, "trusted_instance_uuid": INSTANCE}
    taken = inspect.signature(server.BoxServerHandler.__init__).parameters
    return server.BoxServerHandler(wire, runtime, **{name: wanted[name] for name in wanted if name in taken})


async def converse(requests):
    wire = Wire()
    handler = make_handler(wire)
    running = asyncio.create_task(handler.run())
    context = {"instance_uuid": INSTANCE, "workspace_uuid": "declared", "placement_generation": 1}
    answers = []
    for number, (action, data) in enumerate(requests, 1):
        if action not in handler.actions:
            answers.append(None)
            continue
        await wire.requests.put(json.dumps({"seq_id": number, "action": action, "data": data, "context": context}))
        answer = json.loads(await wire.answers.get())
        logging.warning("%s: %s", action, answer)
        answers.append(sorted({*names_in(answer["data"])}) if answer["code"] == 0 else None)
    await wire.close()
    with contextlib.suppress(ConnectionClosedError):
        await running
    return answers


async def answered():
    declared = {one.value for kind in (actions.LangBotToBoxAction, CommonAction) for one in kind}
    return sorted(declared & set(make_handler(Wire()).actions))


def names():
    """Of what is agreed on outside of messages, as the sources of the runtime have it."""
    text = "".join(path.read_text() for path in Path(server.__file__).parent.glob("*.py"))
    return sorted(set(re.findall(r"""["'](LANGBOT_BOX_[A-Z_]+|X-LangBot-[A-Za-z-]+)["']""", text)))


def classes(module, base):
    return [value for _, value in inspect.getmembers(module, inspect.isclass) if issubclass(value, base)]


async def main(conversations):
    profiles = getattr(models, "BUILTIN_PROFILES", {})
    declared = {
        "actions": await answered(),
        "models": {name: [*getattr(models, name).model_fields] for name in MODELS if hasattr(models, name)},
        "choices": {
            kind.__name__: [one.value for one in kind] for kind in classes(models, enum.Enum) if kind is not enum.Enum
        },
        "profiles": {name: profile.model_dump(mode="json") for name, profile in profiles.items()},
        "errors": sorted(kind.__name__ for kind in classes(errors, errors.BoxError)),
        "names": names(),
        "answers": [await converse(requests) for requests in conversations],
    }
    print(json.dumps(declared))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(main(json.loads(sys.argv[1])))
