"""The document against the daemon, and a generator of requests against both."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .daemon import ROOT
from .host import wait_until

SECONDS = int(os.environ.get("CAISSON_SCHEMATHESIS_SECONDS", "45"))
METHODS = ("get", "put", "post", "delete", "patch")


@pytest.fixture
def document(client):
    reply = client("GET", "/openapi.json")
    assert reply.status == 200
    return reply.json


def fill(path, session, key, process):
    return path.replace("{id}", session).replace("{key}", key).replace("{process}", process)


def operations(document):
    return [(method, path) for path, item in document["paths"].items() for method in METHODS if method in item]


def test_the_document_is_the_one_of_the_source(document):
    source = json.loads((ROOT / "src/api/openapi.json").read_text())
    for written in (document, source):
        del written["info"]["version"]
    # Fields of boxes and commands come from the table of the model.
    for name, least in (("BoxSpec", 15), ("ExecRequest", 20), ("Session", 19)):
        served, known = (each["components"]["schemas"].pop(name) for each in (document, source))
        assert known["properties"].items() <= served["properties"].items(), name
        assert len(served["properties"]) >= least, name
        assert set(known.get("required", [])) <= set(served.get("required", [])), name
    assert document == source


def test_every_operation_of_the_document_is_there(client, document, tmp_path):
    mount = {"host_path": str(tmp_path), "mount_path": "/workspace/shown"}
    found = operations(document)
    assert len(found) >= 15
    for method, path in found:
        client.create("there")
        client.put_file("there", "file", b"x")
        client.output("there", "true", request_id="key")
        for name in ("default", "cat"):
            client("POST", "/v1/sessions/there/managed-process", {"command": "cat", "process_id": name})
        target = fill(path, "there", "key", "cat")
        if path.endswith("/mounts") and method == "delete":
            client("POST", target, mount)
            target += "?path=/workspace/shown"
        if re.search("files|directory", path):
            target += "?path=file" if "files" in path else "?path=."
        bodies = {"exec": {"cmd": "true"}, "stream": {"cmd": "true"}, "managed-process": {"command": "cat"},
                  "signal": {"signal": 1}, "mounts": mount}  # fmt: skip
        body = bodies.get(path.rsplit("/", 1)[1]) if method == "post" else b"x" if method == "put" else None
        reply = client(method.upper(), target, body)
        assert reply.status in (200, 201), (method, path, reply)
        declared = document["paths"][path][method]["responses"]
        assert str(reply.status) in declared, (method, path)
        assert reply.headers["content-type"].partition(";")[0] in declared[str(reply.status)]["content"]
    client.delete("there")


def test_other_methods_are_refused_with_what_is_allowed(client, document):
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                continue
            reply = client(method.upper(), fill(path, "x", "y", "z"))
            assert (reply.status, reply.code) == (405, "method_not_allowed"), (method, path, reply)
            allowed = set(reply.headers["allow"].split(", ")) - {"HEAD"}
            assert allowed == {name.upper() for name in METHODS if name in item}, path


def test_every_reference_of_the_document_leads_somewhere(document):
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document))):
        node = document
        for step in reference.split("/"):
            node = node[step]


def test_every_error_of_the_document_has_its_shape(client, document):
    for method, path in operations(document):
        if "{id}" in path and method != "put" and not path.endswith("exec") and not path.endswith("stream"):
            if method == "post":
                continue
            reply = client(method.upper(), fill(path, "nobody", "x", "x") + "?path=x")
            assert (reply.status, reply.code) == (404, "session_not_found"), (method, path, reply)


def test_no_generated_request_is_a_fault_of_the_daemon(start_daemon, tmp_path):
    """Schemathesis makes requests from the document, right and wrong ones, for a bounded time."""
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    if program is None:
        pytest.skip("schemathesis is not installed: see tests/interop/requirements.txt")
    roots = tmp_path / "roots"
    roots.mkdir()
    config = {
        "box": {"limits": {"max_sessions": 200}, "local": {"allowed_mount_roots": [str(roots)]}},
        "caisson": {"session_ttl_sec": 1},
    }
    daemon = start_daemon(json.dumps(config))
    daemon.shown = roots
    with daemon.nothing_left(slack=60):  # user namespaces are kept for as many boxes at one time
        command = [
            program, "run", f"http://127.0.0.1:{daemon.port}/openapi.json", "--checks", "not_a_server_error",
            "--phases", "examples,coverage,fuzzing", "--max-time", str(SECONDS), "--max-examples", "300",
            "--request-timeout", "40", "--seed", "1", "--no-color", "--suppress-health-check", "all",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS * 4 + 60)
        print("\n".join(done.stdout.splitlines()[-40:]))
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert daemon.process.poll() is None
        wait_until(lambda: daemon.client("GET", "/v1/sessions").status == 200, "an answer")
        for session in daemon.client("GET", "/v1/sessions").json:
            daemon.client.delete(session["session_id"])
    assert daemon.client.output("after", "echo works") == "works"
