"""Tries a runtime with the SDK of this interpreter and prints, as JSON, what it was capable of.

python driver.py SETTINGS...    for each group of capabilities a JSON object:
    transport   "websocket" or "stdio"
    url         of the runtime's HTTP port
    command     what starts it, env with these variables more: for stdio
    directory   where it may leave files
    init        what LangBot would send as the configuration
    token       that the runtime asks for, or ""
    group       which capabilities
    patience    by how much longer it is waited for an answer than a quick machine needs

found is what it was capable of, untried what the SDK declares and no capability made use of.
"""

import asyncio
import importlib
import json
import logging
import os
import re
import sys

from capabilities import CAPABILITIES
from host import USED, Host, NotOffered, NotTried
from langbot_plugin.box import models
from langbot_plugin.box.actions import LangBotToBoxAction

for part in (
    "commands", "sessions", "mounts", "processes", "streams", "skills", "tenants", "endings", "defaults", "guarded",
    "admission", "managed", "seed",
):  # fmt: skip
    importlib.import_module(f"capabilities.{part}")
# What hosts send: with a field that no capability gives, nobody knows whether a runtime heeds it.
SENT = ("BoxSpec", "BoxMountSpec", "BoxManagedProcessSpec", "SandboxAdmissionGrant", "SandboxAdmissionRevocation")


def reason(error):
    """A sentence that is the same in every run."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return "no answer"
    lines = str(error).splitlines() or [""]
    text = re.sub(r"[0-9a-f]{8,}", "…", lines[0])
    if isinstance(error, AssertionError):
        return text
    return f"{type(error).__name__}: {text}"[:200]


async def attempt(host, function, seconds):
    try:
        if function.__name__ != "connect":
            await host.open()
        await asyncio.wait_for(function(host), seconds)
    except NotOffered:
        return {"result": "not offered"}
    except NotTried:
        return {"result": "not tried"}
    except Exception as error:
        logging.exception("failed")
        return {"result": "failed", "reason": reason(error)}
    return {"result": "ok"}


async def try_group(settings):
    os.chdir(settings["directory"])
    host = Host(settings)
    results = {}
    for group, name, seconds, function in CAPABILITIES:
        if group != settings["group"]:
            continue
        logging.warning("== %s", name)
        results[name] = await attempt(host, function, seconds * settings["patience"])
    await host.close()
    return results


def untried():
    names = [one.value for one in LangBotToBoxAction if one.value not in USED["actions"]]
    for model in SENT:
        fields = getattr(models, model).model_fields if hasattr(models, model) else ()
        names += [f"{model}.{field}" for field in fields if field not in USED.get(model, ())]
    return names


async def main(groups):
    found = {}
    for settings in groups:
        found |= await try_group(settings)
    print(json.dumps({"found": found, "untried": untried()}))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(main([json.loads(argument) for argument in sys.argv[1:]]))
