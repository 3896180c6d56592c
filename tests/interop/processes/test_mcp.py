"""MCP through the relay: the official SDK as the client, an official server in the box."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .managed import show, start
from .relay import Relay, relay_url

SCRIPT = Path(__file__).with_name("mcp_client.cjs")
CALL = 8 << 10
CYCLES = 6
TRIES = 3


def run_sdk(node_modules, daemon, session, action, sizes):
    node = shutil.which("node")
    if node is None:
        pytest.fail("node is not installed: ./test installs it")
    command = [node, SCRIPT, action, relay_url(daemon, session), json.dumps(sizes)]
    env = {**os.environ, "NODE_PATH": str(node_modules)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def may_show(directory):
    """The configuration of a daemon whose boxes may see it."""
    return json.dumps({"box": {"local": {"allowed_mount_roots": [str(directory)]}}})


def start_everything(client, session, node_modules):
    """The reference server of the protocol, in a box that sees the packages and cannot change them."""
    mounts = [{"host_path": str(node_modules), "mount_path": "/npm/node_modules", "mode": "ro"}]
    assert client.create(session, extra_mounts=mounts, memory_mb=1024).status == 201
    server = "/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return start(client, session, "node", server, "stdio")


@pytest.mark.parametrize(
    "sizes",
    [[number % 200 for number in range(1000)], [1, 30_000, 350_000, 5, 2_700_000, 0]],
    ids=["1000 pipelined", "large"],
)
def test_messages_of_the_sdk_come_back(daemon, client, name, node_modules, sizes):
    start(client, name, "cat")
    run_sdk(node_modules, daemon, name, "echo", sizes)
    client.delete(name)


def test_the_sdk_talks_to_a_server(start_daemon, name, node_modules):
    daemon = start_daemon(may_show(node_modules))
    start_everything(daemon.client, name, node_modules)
    run_sdk(node_modules, daemon, name, "call", [1, 100, CALL, 100_000, 7])
    daemon.stop()


class McpClient:
    """As hosts do it: one connection, and when that breaks a new one and the call again."""

    def __init__(self, daemon, session):
        self.daemon, self.session = daemon, session
        self.relay = None
        self.last_id = 0
        self.answered = set()
        self.unsure = set()  # answers of which a killed daemon did not know that they were delivered

    def attach(self):
        if self.relay is None:
            self.relay = Relay(self.daemon, self.session, timeout=30)

    def cut(self):
        if self.relay:
            self.relay.cut()
        self.relay = None

    def send(self, method, **params):
        self.attach()
        self.last_id += 1
        self.relay.write(json.dumps({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}))
        return self.last_id

    def notify(self, method):
        self.relay.write(json.dumps({"jsonrpc": "2.0", "method": method}))

    def receive(self, wanted):
        while (line := self.relay.read()) is not None:
            message = json.loads(line)
            if "id" not in message or "method" in message:
                continue
            assert message["id"] not in self.answered or message["id"] in self.unsure, "answered twice"
            self.answered.add(message["id"])
            if message["id"] == wanted:
                return message["result"]
        raise ConnectionError("closed")

    def call(self, method, **params):
        for attempt in range(1, TRIES + 1):
            try:
                return self.receive(self.send(method, **params))
            except OSError:
                self.cut()
                if attempt == TRIES:
                    raise
        return None

    def echo(self, text):
        result = self.call("tools/call", name="echo", arguments={"message": text})
        assert result["content"][0]["text"] == f"Echo: {text}"


def test_a_server_survives_cut_connections_and_killed_daemons(start_daemon, node_modules):
    daemon = start_daemon(may_show(node_modules))
    started = start_everything(daemon.client, "s", node_modules)
    mcp = McpClient(daemon, "s")
    capabilities = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    assert mcp.call("initialize", **capabilities)["serverInfo"]["name"]
    mcp.notify("notifications/initialized")
    for cycle in range(CYCLES):
        mcp.echo(f"{cycle} ".ljust(CALL, "x"))
        # Cut off with nothing under way, then with a call that nobody waits for any more.
        mcp.cut()
        mcp.send("tools/call", name="echo", arguments={"message": "late".ljust(CALL, "y")})
        if cycle % 2 == 0:
            mcp.cut()
        if cycle % 3 != 2:
            daemon.kill()
            mcp.unsure.add(mcp.last_id)
            daemon.start()
        mcp.echo(f"{cycle} again ".ljust(CALL, "z"))
    after = show(daemon.client, "s")
    assert (after["pid"], after["restarts"], after["status"]) == (started["pid"], 0, "running")
    mcp.cut()
    daemon.stop()
