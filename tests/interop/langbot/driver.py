"""Tries a runtime with the SDK of this interpreter and prints, as JSON, what it was capable of.

python driver.py SETTINGS    a JSON object:
    transport   "websocket" or "stdio"
    url         of the runtime's HTTP port
    command     what starts it, env with these variables more: for stdio
    directory   where it may leave files
    init        what LangBot would send as the configuration
    group       which capabilities
"""

import asyncio
import importlib
import json
import logging
import os
import re
import sys

from capabilities import CAPABILITIES
from host import Host, NotOffered

for part in ("commands", "sessions", "processes", "skills", "tenants", "endings", "admission", "seed"):
    importlib.import_module(f"capabilities.{part}")


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
    except Exception as error:
        logging.exception("failed")
        return {"result": "failed", "reason": reason(error)}
    return {"result": "ok"}


async def main(settings):
    host = Host(settings)
    results = {}
    for group, name, seconds, function in CAPABILITIES:
        if group != settings["group"]:
            continue
        logging.warning("== %s", name)
        results[name] = await attempt(host, function, seconds * settings["patience"])
    await host.close()
    print(json.dumps(results))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    given = json.loads(sys.argv[1])
    os.chdir(given["directory"])
    asyncio.run(main(given))
