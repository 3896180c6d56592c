"""Runs of an agent in a pipeline of LangBot, in which the tools are called that a test names.

Up to 4.10 the agent is LangBot's own, and a model is needed that asks for the tools. From 4.11 on every agent is a
plugin, and those of LangBot come from its marketplace: the one in runner/ calls the tools that LangBot offers it."""

import io
import json
import uuid
import zipfile

from ..rpc import open_socket
from .application import HERE, LIMIT

RUNNER = "plugin:caisson/Scripted/scripted"


def packed_runner():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted((HERE / "runner").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(HERE / "runner"))
    return packed.getvalue()


def new_pipeline(langbot):
    """Its number, and the configuration that LangBot gives it."""
    number = langbot.post("/pipelines", {"name": "tests", "description": "of the tests"})["uuid"]
    return number, langbot.get(f"/pipelines/{number}")["pipeline"]["config"]


def long_sleep():
    """A command that ends with its box, and that no other test has."""
    return f"sleep 7{uuid.uuid4().int % 10**9}.25"


class PluggedAgent:
    """From 4.11 on."""

    def __init__(self, langbot):
        self.langbot = langbot
        task = langbot.upload("/plugins/install/local", "scripted.lbpkg", packed_runner())["task_id"]
        langbot.ended_task(task)
        self.pipeline, config = new_pipeline(langbot)
        config["ai"] = {"runner": {"id": RUNNER, "expire-time": 0}, "runner_config": {RUNNER: {}}}
        langbot.put(f"/pipelines/{self.pipeline}", {"config": config})


class LocalAgent:
    """Up to 4.10."""

    def __init__(self, langbot, model):
        self.langbot = langbot
        provider = {"requester": "openai-chat-completions", "base_url": model.url, "api_keys": ["none"]}
        abilities = {"abilities": ["func_call"], "extra_args": {}}
        number = langbot.post("/provider/models/llm", {"name": "scripted", "provider": provider, **abilities})["uuid"]
        self.pipeline, config = new_pipeline(langbot)
        config["ai"]["local-agent"]["model"] = {"primary": number, "fallbacks": []}
        langbot.put(f"/pipelines/{self.pipeline}", {"config": config})


def understood(answer):
    """4.10 hands the answers of tools to the model as text: JSON, unless the tool itself says something."""
    try:
        return json.loads(answer)
    except (TypeError, ValueError):
        return answer


class Chat:
    """As the page on which a pipeline is tried out. All that is said here is of one conversation, and so is its box."""

    def __init__(self, agent, box):
        langbot = agent.langbot
        self.box = box
        page = {"Origin": f"http://127.0.0.1:{langbot.port}"}
        path = f"/api/v1/pipelines/{agent.pipeline}/ws/connect?session_type=person"
        self.socket = open_socket(langbot.port, path, page)
        workspace = langbot.get("/workspaces/current")["workspace"]["uuid"]
        self.send(type="authenticate", token=langbot.token, workspace_uuid=workspace)
        self.receive("connected")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, **message):
        self.socket.send(json.dumps(message))

    def receive(self, kind):
        while True:
            message = json.loads(self.socket.recv(LIMIT))
            assert message["type"] != "error", message
            if message["type"] == kind:
                return message

    def run(self, *calls):
        """What these tools, called one after the other in one run, have answered."""
        script = json.dumps({"box": self.box, "calls": calls})
        self.send(type="message", message=[{"type": "Plain", "text": script}], stream=False)
        while True:
            said = self.receive("response")["data"]
            if said["is_final"]:
                break
        try:
            answers = json.loads(said["content"])
        except json.JSONDecodeError:
            raise AssertionError(f"the run failed: {said['content']}") from None
        return [understood(answer) for answer in answers]
