"""Action RPC without an SDK: what the SDK hides can be sent and seen."""

import base64
import contextlib
import hashlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from rest.daemon import PROGRAM
from rest.host import wait_until

from .runtimes import accepts, free_port

INSTANCE = "inst"
LIMIT = 60  # seconds that no answer takes
OMITTED = object()
CHUNK = 16384


class Refused(Exception):
    """The handshake was answered with something else than an upgrade."""

    def __init__(self, response):
        self.status = response.status_code
        self.type = response.headers.get("Content-Type", "")
        self.text = (response.body or b"").decode()
        super().__init__(self.status, self.text)

    @property
    def error(self):
        return json.loads(self.text)["error"]


def open_socket(port, path, headers=None, **options):
    options = {"compression": None, "legacy": True, **options}
    try:
        return connect(
            f"ws://127.0.0.1:{port}{path}", additional_headers=headers or {}, max_size=None, proxy=None, **options
        )
    except InvalidStatus as refusal:
        raise Refused(refusal.response) from None


def namespace(workspace, instance=INSTANCE):
    return "ws-" + hashlib.sha256(f"{instance}\0{workspace}".encode()).hexdigest()[:24]


def physical(workspace, session, generation=1, instance=INSTANCE):
    """The id that relays and errors carry."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", session.strip()).strip("-")
    return f"{namespace(workspace, instance)}-g{generation}-{safe}"


class Calls:
    """Requests and answers over something that has send_text() and read_text(seconds)."""

    def __init__(self):
        self.last_seq = 0
        self.answers = {}

    def send(self, action, data=OMITTED, context=OMITTED, seq=None):
        if seq is None:
            self.last_seq += 1
            seq = self.last_seq
        request = {"seq_id": seq, "action": action, "data": {} if data is OMITTED else data}
        if context is not OMITTED:
            request["context"] = context
        self.send_text(json.dumps(request))
        return seq

    def receive(self, seq, seconds=LIMIT):
        """The answer to this request; others that come are kept."""
        deadline = time.monotonic() + seconds
        while seq not in self.answers:
            answer = json.loads(self.read_text(max(deadline - time.monotonic(), 0)))
            assert answer["seq_id"] not in self.answers, f"answered twice: {answer}"
            self.answers[answer["seq_id"]] = answer
        return self.answers.pop(seq)

    def call(self, action, data=OMITTED, context=OMITTED, seconds=LIMIT):
        return self.receive(self.send(action, data, context), seconds)

    def ok(self, action, data=OMITTED, context=OMITTED, seconds=LIMIT):
        """The data of an answer that is no error."""
        answer = self.call(action, data, context, seconds)
        assert (answer["code"], answer["message"]) == (0, "success"), answer
        return answer["data"]

    def error(self, action, data=OMITTED, context=OMITTED, seconds=LIMIT):
        """The message of an answer that is one."""
        answer = self.call(action, data, context, seconds)
        assert (answer["code"], answer["data"], answer["chunk_status"]) == (1, {}, "continue"), answer
        return answer["message"]

    def raw(self, text):
        """The next message after this one."""
        self.send_text(text)
        return self.read_text(LIMIT)

    def ping(self):
        assert self.ok("__ping") == {}

    def tenant(self, workspace, generation=1, instance=INSTANCE):
        return Tenant(self, workspace, generation, instance)


class Rpc(Calls):
    """A connection to /rpc/ws. Without an instance: that of a legacy host."""

    def __init__(self, port, instance=INSTANCE, token=None, **options):
        super().__init__()
        headers = {} if instance is None else {"X-LangBot-Instance-Id": instance}
        if token is not None:
            headers["X-LangBot-Box-Control-Token"] = token
        self.port, self.headers = port, headers
        self.socket = open_socket(port, "/rpc/ws", headers, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def cut(self):
        """As a crash of the host."""
        self.socket.socket.close()

    def send_text(self, text):
        self.socket.send(text)

    def read_text(self, seconds):
        return self.socket.recv(seconds)

    def close_code(self, seconds=LIMIT):
        """With which the other side closes; answers that come before are left out."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.socket.recv(seconds)
        return self.socket.protocol.close_code

    @property
    def domain(self):
        """For a legacy host, what a tenant is for others."""
        return Tenant(self, None, None, None)


class Stdio(Calls):
    """A runtime started as LangBot does it. Frames longer than a line may be come in chunks, as the SDK reads them."""

    def __init__(self, directory, arguments=("box", "-s", "--ws-control-port"), instance=INSTANCE, port=None):
        super().__init__()
        self.port = port or free_port()
        environment = {**os.environ, "CAISSON_STATE": str(directory / "state")}
        if instance is not None:
            environment["LANGBOT_BOX_TRUSTED_INSTANCE_UUID"] = instance
        command = [str(PROGRAM), *arguments, str(self.port)]
        self.log = open(directory / "log", "ab")
        self.process = subprocess.Popen(
            command, env=environment, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read_lines, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def read_lines(self):
        for line in self.process.stdout:
            self.lines.put(line.decode())
        self.lines.put(None)

    def end(self):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.log.close()

    def wait(self, seconds=15):
        """The exit code."""
        return self.process.wait(seconds)

    def send_line(self, line):
        self.process.stdin.write(line.encode() if isinstance(line, str) else line)
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def send_text(self, text):
        data = text.encode()
        if len(data) <= CHUNK:
            self.send_line(text)
            return
        self.send_line(json.dumps({"type": "chunk_start", "total_size": len(data)}))
        for offset in range(0, len(data), CHUNK):
            piece = data[offset : offset + CHUNK].decode()
            self.send_line(json.dumps({"type": "chunk_data", "data": piece, "offset": offset}))
        self.send_line('{"type": "chunk_end"}')

    def read_line(self, seconds=LIMIT):
        """None at the end."""
        return self.lines.get(timeout=seconds)

    def read_text(self, seconds):
        line = self.read_line(seconds)
        assert line is not None, "the runtime has closed its output"
        message = json.loads(line)
        if message.get("type") != "chunk_start":
            return line
        whole = b""
        while True:
            piece = json.loads(self.read_line(seconds))
            if piece["type"] == "chunk_end":
                break
            assert (piece["type"], piece["offset"]) == ("chunk_data", len(whole)), piece["type"]
            data = piece["data"].encode()
            assert 0 < len(data) <= CHUNK
            whole += data
        assert len(whole) == message["total_size"]
        return whole.decode()

    def wait_for_port(self):
        wait_until(lambda: accepts(self.port), "the port of the runtime")


class Tenant:
    """Actions with a context of their own, and what is done with them most."""

    def __init__(self, rpc, workspace, generation, instance):
        self.rpc, self.workspace, self.generation, self.instance = rpc, workspace, generation, instance

    @property
    def context(self):
        if self.workspace is None:
            return OMITTED
        return {
            "instance_uuid": self.instance,
            "workspace_uuid": self.workspace,
            "placement_generation": self.generation,
        }

    def of(self, generation):
        return Tenant(self.rpc, self.workspace, generation, self.instance)

    def physical(self, session):
        if self.workspace is None:
            return session.strip()
        return physical(self.workspace, session, self.generation, self.instance)

    def send(self, action, **data):
        return self.rpc.send(action, data, self.context)

    def receive(self, seq, seconds=LIMIT):
        return self.rpc.receive(seq, seconds)

    def ok(self, action, **data):
        return self.rpc.ok(action, data, self.context)

    def error(self, action, **data):
        return self.rpc.error(action, data, self.context)

    def exec(self, session, cmd, **spec):
        return self.ok("box_exec", session_id=session, cmd=cmd, **spec)

    def output(self, session, cmd, **spec):
        """Of a command that must succeed."""
        result = self.exec(session, cmd, **spec)
        assert result["exit_code"] == 0, result
        return result["stdout"]

    def create(self, session, **spec):
        return self.ok("box_create_session", session_id=session, **spec)

    def get(self, session):
        return self.ok("box_get_session", session_id=session)

    def delete(self, session):
        return self.ok("box_delete_session", session_id=session)

    def sessions(self):
        return {session["session_id"] for session in self.ok("box_get_sessions")["sessions"]}

    def clear(self):
        for session in self.sessions():
            self.delete(session)

    def start(self, session, command, *args, **spec):
        """A process, in a session that is made if there is none."""
        if session not in self.sessions():
            self.create(session)
        return self.ok("box_start_managed_process", session_id=session, spec={"command": command, "args": args, **spec})

    def shell(self, session, script, **spec):
        return self.start(session, "sh", "-c", script, **spec)

    def process(self, session, process="default"):
        return self.ok("box_get_managed_process", session_id=session, process_id=process)

    def stop(self, session, process="default"):
        return self.ok("box_stop_managed_process", session_id=session, process_id=process)

    def ended(self, session, process="default"):
        def look():
            shown = self.process(session, process)
            return shown if shown["status"] == "exited" else None

        return wait_until(look, f"the end of process {process}", LIMIT)

    def begin(self, session, cmd, marker, **spec):
        """A command that is at work when this returns, because it has made the file. Gives its number."""
        seq = self.send("box_exec", session_id=session, cmd=f"touch started; {cmd}", **spec)
        wait_until(marker.exists, "the command", LIMIT)
        return seq

    def relay_headers(self):
        if self.workspace is None:
            return {}
        return {
            "X-LangBot-Instance-Id": self.instance,
            "X-LangBot-Workspace-Id": self.workspace,
            "X-LangBot-Placement-Generation": str(self.generation),
        }

    def relay(self, session, process="default", **options):
        path = f"/v1/sessions/{self.physical(session)}/managed-process/{process}/ws"
        return open_socket(self.rpc.port, path, self.relay_headers(), **{"subprotocols": ["mcp"], **options})

    def upload(self, content, key="upload.zip"):
        """In chunks, as clients do. Gives the key."""
        amount = max(1, -(-len(content) // CHUNK))
        for index in range(amount):
            piece = content[index * CHUNK : (index + 1) * CHUNK]
            chunk = {"file_key": key, "file_length": len(content), "chunk_base64": base64.b64encode(piece).decode()}
            position = {"chunk_index": index, "chunk_amount": amount, "chunk_size": len(piece)}
            assert self.rpc.ok("__file_chunk", {**chunk, **position}) == {}
        return key
