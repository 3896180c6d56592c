"""Runs what docs/api.md shows: every curl line, in its order, on one daemon."""

import json
import re
import subprocess
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "api.md"
DOCUMENTED = "127.0.0.1:5410"


def shown_commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_every_curl_line_of_the_document_works(daemon, tmp_path):
    commands = shown_commands()
    assert len(commands) > 12
    for command in commands:
        assert DOCUMENTED in command, command
        failing = command.replace(DOCUMENTED, f"127.0.0.1:{daemon.port}").replace("curl -s", "curl -fsS", 1)
        done = subprocess.run(["sh", "-c", failing], cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert done.stdout, command


def test_every_route_has_a_curl_line(daemon):
    text = "\n".join(shown_commands())
    document = json.loads(daemon.client("GET", "/openapi.json").body)
    for path, methods in document["paths"].items():
        pattern = re.escape(DOCUMENTED + path).replace(re.escape("{id}"), "demo").replace(re.escape("{key}"), "deploy-7")
        pattern = pattern.replace(re.escape("{process}"), "web")
        lines = [line for line in text.splitlines() if re.search(pattern + r"(['?\s]|$)", line)]
        for method in methods:
            wanted = {"get": lambda line: " -X " not in line}.get(
                method, lambda line, verb=method.upper(): f"-X {verb} " in line
            )
            assert any(map(wanted, lines)), f"{method.upper()} {path}"
