"""LangBot as a process of its own, and its HTTP interface as its web pages use it."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

from rest.daemon import ROOT
from rest.host import command_line, descendants, wait_until

from ..environments import python_of
from ..runtimes import free_port

HERE = Path(__file__).parent
VERSIONS = ("4.11.2", "4.10.11")
LIMIT = 600  # seconds that nothing here takes, downloads included
USER = {"user": "tests@example.org", "password": "of-these-tests-only"}


def shared_environment(version):
    """With this release of LangBot. ./test makes it."""
    places = Path(os.environ.get("CAISSON_LANGBOT_ENVIRONMENTS", ROOT / "build" / "langbot-application"))
    if not python_of(places / version).exists():
        pytest.fail(f"{places / version} does not exist: ./test installs langbot {version} from PyPI there")
    return places / version


def patiently(condition, what):
    """As wait_until, without asking LangBot all the time: it shares the processors with what it is asked about."""

    def look():
        value = condition()
        if not value:
            time.sleep(0.25)
        return value

    return wait_until(look, what, LIMIT)


class Answer(Exception):
    """Of LangBot, when it is none that was asked for."""


class LangBot:
    """In a directory of its own, with the configuration that it writes there by itself."""

    def __init__(self, place, directory, settings):
        self.place, self.directory, self.log = place, Path(directory), Path(directory) / "langbot.log"
        self.port, self.box_port = free_port(), free_port()
        self.settings = settings
        self.token = None
        self.process = None

    def environment(self):
        """What LangBot has settings for it takes from variables, and writes it to its configuration."""
        return {
            **os.environ,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            # What it would tell and ask the servers of its makers about use, models and plugins stays on this machine.
            "SPACE__DISABLE_TELEMETRY": "true",
            "SPACE__DISABLE_MODELS_SERVICE": "true",
            "SPACE__URL": f"http://127.0.0.1:{free_port()}",
            "TEST_BOX_PORT": str(self.box_port),
            "TEST_PLUGIN_PORT": str(free_port()),
            **self.settings,
        }

    def start(self):
        self.launch()
        self.post("/user/init", USER)
        return self.enter()

    def launch(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [python_of(self.place), str(HERE / "launch.py")],
                cwd=self.directory,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        patiently(self.answers, "an answer of LangBot")

    def enter(self):
        self.token = self.post("/user/auth", USER)["token"]
        return self

    def kill_and_return(self):
        """As a crash. Its files are those of before, and so are its users."""
        self.end(signal.SIGKILL)
        self.token = None
        self.launch()
        self.enter()

    def read_log(self):
        return self.log.read_text(errors="replace")

    def answers(self):
        assert self.process.poll() is None, f"LangBot ended: {self.read_log()[-4000:]}"
        try:
            return self.get("/user/init") is not None
        except OSError:
            return False

    def stop(self):
        if self.process is not None:
            self.end(signal.SIGTERM)

    def end(self, number):
        """With its plugin runtime and the plugins in it. Of the daemon its own tests see that it ends."""
        started = [pid for pid in descendants(self.process.pid) if "langbot_plugin" in command_line(pid)]
        self.process.send_signal(number)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                self.bury(pid)

    def bury(self, pid):
        """Of a child's child, which is this process's own since its parent has ended."""
        deadline = time.monotonic() + 30
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def call(self, method, path, body=None, headers=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1{path}", method=method)
        if isinstance(body, bytes):
            request.data = body
        elif body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=LIMIT) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            raise Answer(error.code, error.read().decode(errors="replace")) from None
        if answer["code"] != 0:
            raise Answer(answer)
        return answer["data"]

    def connections(self):
        """How often it has connected to its Box runtime."""
        return self.read_log().count("Connected to Box runtime via")

    def has_box(self):
        return self.get("/box/status")["available"]

    def get(self, path):
        return self.call("GET", path)

    def post(self, path, body):
        return self.call("POST", path, body)

    def put(self, path, body):
        return self.call("PUT", path, body)

    def delete(self, path):
        return self.call("DELETE", path)

    def upload(self, path, name, content):
        """A file, as a form sends it."""
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        head += "Content-Type: application/octet-stream\r\n\r\n"
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return self.call("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def ended_task(self, number):
        """What a task has left. One that fails is an error."""

        def look():
            task = self.get(f"/system/tasks/{number}")
            return task if task["runtime"]["done"] else None

        task = patiently(look, f"the end of task {number}")
        assert not task["runtime"].get("exception"), (task, self.read_log()[-4000:])
        return task
