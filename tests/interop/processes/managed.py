"""Managed processes over REST, and what this host shows of them."""

import os
from urllib.parse import quote

from rest.daemon import session_path
from rest.host import wait_until


def process_path(session, process="default"):
    return f"{session_path(session)}/managed-process/{quote(process, safe='')}"


def start(client, session, command, *args, **spec):
    """Starts it, in a session that is made if there is none. Gives its object."""
    if client.get(session).status == 404:
        assert client.create(session).status == 201
    reply = client("POST", f"{session_path(session)}/managed-process", {"command": command, "args": args, **spec})
    assert reply.status == 201, reply
    return reply.json


def start_shell(client, session, script, **spec):
    return start(client, session, "sh", "-c", script, **spec)


def start_python(client, session, script, **spec):
    return start(client, session, "python3", "-u", "-c", script, **spec)


def show(client, session, process="default"):
    reply = client("GET", process_path(session, process))
    assert reply.status == 200, reply
    return reply.json


def remove(client, session, process="default"):
    reply = client("DELETE", process_path(session, process))
    assert reply.status == 200, reply


def signal(client, session, number, process="default"):
    return client("POST", process_path(session, process) + "/signal", {"signal": number})


def output(client, session, process="default", **query):
    """The raw answer of the route, with its headers."""
    text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    return client("GET", process_path(session, process) + "/output" + (f"?{text}" if text else ""))


def wait_for_end(client, session, process="default", seconds=60):
    """The object of a process that has ended for good."""

    def ended():
        shown = show(client, session, process)
        return shown if shown["status"] == "exited" else None

    return wait_until(ended, f"the end of process {process}", seconds)


def wait_for_output(client, session, text, process="default", stream="stdout", seconds=60):
    wait_until(lambda: text in output(client, session, process, stream=stream).body, f"{text!r} in {stream}", seconds)


def process_groups(daemon):
    """The cgroups that belong to single processes: those below the cgroups of the boxes."""
    found = set()
    for box in daemon.cgroups():
        for path, names, _ in os.walk(box):
            found |= {os.path.join(path, name) for name in names}
    return found
