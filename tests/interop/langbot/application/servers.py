"""MCP servers as users enter them into LangBot's form."""

import contextlib
import uuid

from rest.host import processes_with

from .application import Answer, patiently

SHARED = "mcp-shared"  # the session in which LangBot has all of them
SERVER = '''
import sys
import time

from mcp.server.fastmcp import FastMCP

server = FastMCP("clock")
started_at = time.time_ns()


@server.tool()
def started() -> str:
    """Tells one process from the next."""
    return str(started_at)


server.run()
'''
FILES = {"requirements.txt": "mcp<2\n", "server.py": SERVER}


class Server:
    """Of a name and a command line that no other has."""

    def __init__(self, box, name, command, args, **settings):
        self.box, self.langbot = box, box.langbot
        self.mark = uuid.uuid4().hex
        self.name = f"{name}-{self.mark[:8]}"
        args = [word.replace("MARK", self.mark) for word in args]
        self.form = {
            "name": self.name,
            "mode": "stdio",
            "enable": True,
            "extra_args": {"command": command, "args": args, "env": {}, "box": settings},
        }

    def save(self):
        self.number = self.langbot.post("/mcp/servers", self.form)["uuid"]
        return self

    def delete(self):
        self.langbot.delete(f"/mcp/servers/{self.name}")

    def shown(self):
        return self.langbot.get(f"/mcp/servers/{self.name}")["server"]["runtime_info"] or {}

    def connected(self):
        """Once it is: what is shown of it."""

        def look():
            shown = self.shown()
            assert shown.get("status") != "error", (shown, self.langbot.read_log()[-6000:])
            return shown if shown.get("status") == "connected" and shown["tools"] else None

        return patiently(look, f"the connection to {self.name}")

    def tested(self):
        """What the form shows of a server that is not saved."""
        task = self.langbot.post("/mcp/servers/_/test", self.form)["task_id"]
        return self.langbot.ended_task(task)["task_context"]["metadata"]["runtime_info"]

    def processes(self):
        """On this host."""
        return processes_with(self.mark)

    def managed(self):
        """As the daemon has it; None when it has none."""
        return next((process for process in managed(self.box) if process["process_id"] == self.number), None)


def managed(box):
    """All processes of the session in which LangBot has its servers."""
    for session in box.client("GET", "/v1/sessions").json:
        if session["session_id"].endswith(f"-{SHARED}"):
            return box.client("GET", f"/v1/sessions/{session['session_id']}/managed-processes").json
    return []


def staged(box):
    """The directories into which LangBot has copied projects, wherever they are below its data."""
    return {path.name for path in box.langbot.directory.glob("data/box/**/.mcp/*")}


def from_project(box):
    """LangBot copies the project next to the workspace and installs what it requires."""
    project = box.langbot.directory / "data" / "box" / "project"
    project.mkdir(exist_ok=True)
    for name, content in FILES.items():
        (project / name).write_text(content)
    return Server(box, "project", "python", ["server.py", "MARK"], host_path=str(project))


def from_workspace(box, chat):
    """4.10 copies projects to where no box of its own sees them (its default workspace, not that of the tenant), with
    every runtime. There a server lives in the workspace, and its command installs what it requires."""
    for name, content in FILES.items():
        chat.run(["write", {"path": f"/workspace/project/{name}", "content": content}])
    script = "cd /workspace/project && pip install -r requirements.txt >&2 && exec python server.py MARK"
    return Server(box, "project", "sh", ["-c", script])


def by_npx(box):
    return Server(box, "npx", "npx", ["-y", "@modelcontextprotocol/server-everything@2026.8.31", "stdio", "MARK"])


def forget(servers):
    """However they are."""
    for server in servers:
        with contextlib.suppress(Answer):
            server.delete()
