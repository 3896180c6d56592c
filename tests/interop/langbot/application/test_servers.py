"""MCP servers of LangBot in boxes: from a project with a list of requirements, and by npx."""

import pytest

from rest.host import wait_until

from .agent import Chat
from .application import patiently
from .boxes import crash, is_old
from .servers import SHARED, by_npx, forget, from_project, from_workspace, managed, staged

TOOLS = {"project": "started", "npx": "echo"}
KINDS = tuple(TOOLS)


@pytest.fixture(scope="module")
def make(box, agent):
    """Makes servers as a user fills in the form; those that are saved end with the tests of this file."""
    made = []

    def make(kind):
        if kind == "npx":
            server = by_npx(box)
        elif is_old(box):
            with Chat(agent, None) as chat:
                server = from_workspace(box, chat)
        else:
            server = from_project(box)
        made.append(server)
        return server

    yield make
    forget(made)


@pytest.fixture(scope="module")
def servers(make):
    """One of each kind, connected."""
    servers = {kind: make(kind).save() for kind in KINDS}
    for server in servers.values():
        server.connected()
    return servers


def said(result):
    """By a tool of a server: text, in one piece or as a list of parts."""
    return result[0]["text"] if isinstance(result, list) else str(result)


def call(chat):
    """Calls a tool of each server. Gives what only one process answers so: when it has started."""
    started, echoed = chat.run(["started", {}], ["echo", {"message": "hello"}])
    assert "hello" in said(echoed)
    assert said(started).isdigit(), started
    return said(started)


@pytest.mark.parametrize("kind", KINDS)
def test_its_tools_are_listed(servers, kind):
    shown = servers[kind].connected()
    assert TOOLS[kind] in {tool["name"] for tool in shown["tools"]}
    assert shown["box_session_id"] == "mcp-shared"
    assert servers[kind].managed()["status"] == "running"


def test_tools_are_called(servers, agent):
    with Chat(agent, None) as chat:
        assert call(chat) == call(chat)


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_not_saved_can_be_tried_and_leaves_nothing(box, servers, make, kind):
    processes, directories = {process["process_id"] for process in managed(box)}, staged(box)
    tried = make(kind)
    shown = tried.tested()
    assert shown["status"] == "connected" and TOOLS[kind] in {tool["name"] for tool in shown["tools"]}, shown
    wait_until(lambda: not tried.processes(), "the end of the processes of the trial")
    assert {process["process_id"] for process in managed(box)} == processes
    assert staged(box) == directories
    for server in servers.values():  # which share its session
        assert server.connected() and server.managed()["attached"]


def test_they_survive_the_daemon(box, agent, servers):
    """LangBot finds the processes running, and only attaches to them again. 4.11 removes the copy of the project when
    the connection is lost and installs it anew, which the process that runs does not notice."""
    before = {kind: server.processes() for kind, server in servers.items()}
    with Chat(agent, None) as chat:
        answer = call(chat)
    kept = crash(box, SHARED)
    for server in servers.values():
        # Nobody is attached to a process of the new daemon until LangBot has come back to it.
        patiently(lambda server=server: (server.managed() or {}).get("attached"), f"LangBot's return to {server.name}")
        server.connected()
    if not kept:
        return
    with Chat(agent, None) as chat:
        assert call(chat) == answer
    assert {kind: server.processes() for kind, server in servers.items()} == before


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_deleted_leaves_nothing(box, langbot, servers, make, kind):
    directories = staged(box)
    deleted = make(kind).save()
    deleted.connected()
    assert deleted.processes() and deleted.managed()
    deleted.delete()
    wait_until(lambda: not deleted.processes(), "the end of the processes of the server")
    assert deleted.managed() is None
    assert staged(box) == directories
    assert deleted.name not in {server["name"] for server in langbot.get("/mcp/servers")["servers"]}
    for server in servers.values():
        assert server.connected() and server.managed()["attached"]
