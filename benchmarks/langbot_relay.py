"""LangBot's own runtime with `cat` behind its relay, for the benchmark to measure beside ours.

Runs in an environment that has langbot-plugin. Without arguments the process is on the host, without a box;
with "docker" and the name of an image it is in a container of that. Prints one line of JSON, where the relay
is and the headers it wants, and serves until its standard input ends.
"""
import asyncio
import json
import logging
import os
import sys

from aiohttp import web
from langbot_plugin.box import server, tenancy
from langbot_plugin.box.backend import DockerBackend
from langbot_plugin.box.host_backend import HostProcessBackend
from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec
from langbot_plugin.box.runtime import BoxRuntime

INSTANCE = "11111111-1111-4111-8111-111111111111"


async def main(backend="host", image=None):
    os.environ["LANGBOT_BOX_CONFIG"] = json.dumps({"backend": backend})
    logger = logging.getLogger("benchmark")
    backends = {"host": HostProcessBackend, "docker": DockerBackend}
    runtime = BoxRuntime(logger, [backends[backend](logger)])
    await runtime.initialize()
    context = server.ActionContext(instance_uuid=INSTANCE, workspace_uuid="w", placement_generation=1)
    fence = server.BoxGenerationFence()
    fence.observe(context)
    session = tenancy.namespace_session_id(context, "relay")
    await runtime.create_session(BoxSpec(session_id=session, cmd="", **({"image": image} if image else {})))
    await runtime.start_managed_process(session, BoxManagedProcessSpec(command="cat"))
    app = server.create_app(runtime, trusted_instance_uuid=INSTANCE, generation_fence=fence)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    headers = {
        server.BOX_INSTANCE_HEADER: INSTANCE,
        server.BOX_WORKSPACE_HEADER: "w",
        server.BOX_PLACEMENT_GENERATION_HEADER: "1",
    }
    port = runner.addresses[0][1]
    target = f"/v1/sessions/{session}/managed-process/ws"
    print(json.dumps({"port": port, "target": target, "headers": headers}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runtime.shutdown()


asyncio.run(main(*sys.argv[1:]))
