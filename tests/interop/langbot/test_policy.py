"""What an operator decides about boxes holds on every way to them: REST, RPC, and the command line with and without
a session of the daemon."""

import json
import subprocess
from dataclasses import dataclass

import pytest

from rest.daemon import PROGRAM

from .rpc import Rpc

READ_ONLY = {"profile": "offline_readonly"}
NOWHERE = {"image": "nowhere:1"}


@dataclass
class Answer:
    """What a command came to: its exit code, or the code and sentence of the error."""

    exit_code: int | None = None
    output: str = ""
    error: str = ""
    message: str = ""


class Ways:
    """The same request by each of them."""

    def __init__(self, start_daemon, box):
        local = box.get("local", {})
        self.daemon = start_daemon(json.dumps({"box": box}))
        # The command line has no daemon's file: it reads the operator's or, as here, what the environment says.
        self.env = {"BOX__ENABLED": json.dumps(box.get("enabled", True))}
        self.env |= {f"BOX__LOCAL__{name.upper()}": str(value) for name, value in local.items()}

    def rest(self, session, request):
        reply = self.daemon.client.exec(session, **request)
        if reply.status != 200:
            return Answer(error=reply.code, message=reply.message)
        return Answer(reply.json["exit_code"], reply.json["stdout"])

    def rpc(self, session, request):
        with Rpc(self.daemon.port) as connection:
            context = connection.tenant("policy").context
            answer = connection.call("box_exec", {"session_id": session, **request}, context)
        if answer["code"] != 0:
            kind, message = answer["message"].split(": ", 1)
            codes = {"BoxBackendUnavailableError": "backend_unavailable", "BoxValidationError": "image_not_found"}
            return Answer(error=codes[kind], message=message)
        return Answer(answer["data"]["exit_code"], answer["data"]["stdout"])

    def run(self, arguments, request, env):
        options = {"network": "--network", "host_path": "--workspace", "timeout_sec": "--timeout"}
        for field, value in request.items():
            if field in options:
                arguments += [options[field], str(value)]
        if request.get("read_only_rootfs") is False:
            arguments.append("--writable")
        command = [str(PROGRAM), "exec", "--json", *arguments, "--", "sh", "-c", request["cmd"]]
        done = subprocess.run(command, env={**self.daemon.env, **env}, capture_output=True, text=True, timeout=120)
        told = json.loads(done.stdout or done.stderr)
        if "error" in told:
            return Answer(error=told["error"]["code"], message=told["error"]["message"])
        return Answer(told["exit_code"], told["stdout"])

    def alone(self, session, request):
        return self.run([], request, self.env)

    def in_session(self, session, request):
        return self.run(["--url", f"http://127.0.0.1:{self.daemon.port}", "-s", f"cli-{session}"], request, {})

    def all(self, request):
        ways = {"REST": self.rest, "RPC": self.rpc, "exec": self.alone, "exec -s": self.in_session}
        return {name: way(f"s-{name.replace(' ', '')}", request) for name, way in ways.items()}


@pytest.fixture
def ways(start_daemon):
    return lambda **box: Ways(start_daemon, box)


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        ({"network": "on", "cmd": "ls /sys/class/net | grep -qv '^lo$'"}, True),
        ({"cmd": "touch /workspace/new"}, True),
        ({"read_only_rootfs": False, "cmd": "touch /usr/new"}, True),
        ({"cmd": "test -r /workspace && touch /tmp/new"}, False),
    ],
    ids=["network", "workspace", "root", "the rest"],
)
def test_what_a_profile_locks_nobody_opens(ways, tmp_path, request_, refused):
    answers = ways(local={**READ_ONLY, "allowed_mount_roots": str(tmp_path)}).all({"host_path": str(tmp_path), **request_})
    for way, answer in answers.items():
        assert answer.error == "" and (answer.exit_code != 0) == refused, (way, answer)


def test_where_there_are_to_be_no_boxes_there_are_none(ways):
    answers = ways(enabled=False).all({"cmd": "true"})
    for way, answer in answers.items():
        assert answer.error == "backend_unavailable" and "box.enabled" in answer.message, (way, answer)
    assert len({answer.message for answer in answers.values()}) == 1, answers


def test_the_operators_image_is_for_who_names_none(ways):
    answers = ways(local=NOWHERE).all({"cmd": "true"})
    for way, answer in answers.items():
        assert answer.error == "image_not_found" and "nowhere:1" in answer.message, (way, answer)


def test_the_operators_quota_is_for_who_names_none(ways):
    daemon = ways(local={"workspace_quota_mb": 7}).daemon
    assert daemon.client.create("rest").json["workspace_quota_mb"] == 7
    assert daemon.client.create("own", workspace_quota_mb=0).json["workspace_quota_mb"] == 0
    with Rpc(daemon.port) as connection:
        tenant = connection.tenant("policy")
        assert tenant.ok("box_create_session", session_id="rpc")["workspace_quota_mb"] == 7
    url = f"http://127.0.0.1:{daemon.port}"
    subprocess.run([str(PROGRAM), "exec", "--url", url, "-s", "cli", "--", "true"], check=True, timeout=120)
    assert daemon.client.get("cli").json["workspace_quota_mb"] == 7


def test_a_caller_is_told_which_of_its_fields_the_operator_decided(ways):
    daemon = ways(local=READ_ONLY).daemon
    reply = daemon.client.exec("s", "true", network="on", timeout_sec=600, cpus=1)
    assert reply.headers["caisson-overridden"] == "network, timeout_sec"
    assert (reply.json["exit_code"], daemon.client.get("s").json["network"]) == (0, "off")
    assert "caisson-overridden" not in daemon.client.exec("s", "true", timeout_sec=60, cpus=1).headers
