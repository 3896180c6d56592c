"""Does what a message says, as an agent does what a model says: tools are called one after the other, in one box."""

import json

from langbot_plugin.api.definition.components.runner.runner import Runner
from langbot_plugin.api.entities.builtin.provider.message import Message
from langbot_plugin.api.entities.builtin.runner import RunnerResult


class ScriptedRunner(Runner):
    async def run(self, ctx):
        api = self.get_run_api(ctx)  # that of the context writes a trace, which takes no results of MCP servers
        script = json.loads(ctx.input.to_text())
        if script["box"]:
            box = await api.acquire_box(script["box"])
            await api.bind_box(box.id)
        results = []
        for tool, arguments in script["calls"]:
            results.append(await api.call_tool(tool, arguments))
        yield RunnerResult.run_completed(
            run_id=ctx.run_id, message=Message(role="assistant", content=json.dumps(results)), finish_reason="stop"
        )
