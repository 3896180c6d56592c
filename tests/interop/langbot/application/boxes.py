"""The daemon of a LangBot: beside it, as docs/langbot.md sets it up, or started by LangBot itself."""

import contextlib
import json
import os
import re
import signal
import subprocess

from rest.daemon import PROGRAM, Client, Daemon, is_daemon
from rest.host import nft_tables, parents, wait_until

from ..environments import LIMIT, environment_upon
from ..runtimes import free_port
from .application import LangBot, patiently, shared_environment


def is_old(box):
    """Before 4.11."""
    return box.version.startswith("4.10.")


def sessions(box):
    return {session["session_id"] for session in box.client("GET", "/v1/sessions").json}


def crash(box, session):
    """Kills the daemon, and returns when another has taken its place and LangBot has found it: whether what was in the
    session is still there.

    4.10 takes an error of its own for a failed connection (it reloads the skills without saying whose) and connects
    again for ever, with every runtime. So it is killed and started as well. The runtime that it starts itself it ends
    at each of these connections, and with it what was taken back: of that only the log tells."""
    langbot = box.langbot
    before = langbot.connections()
    box.kill_and_return(session)
    if is_old(box):
        langbot.kill_and_return()
        box.find()
    patiently(lambda: langbot.connections() > before and langbot.has_box(), "LangBot's return to the daemon")
    return not (is_old(box) and isinstance(box, StartedByLangBot))


class Beside(Daemon):
    """A service, which is told where LangBot runs and nothing else."""

    def __init__(self, directory, version, place):
        environment = shared_environment(version)
        place.mkdir()
        config = json.dumps({"box": {"local": {"host_root": str(place)}}})
        # A port of its own, which is the same when it is started again.
        super().__init__(directory, config, arguments=["--port", str(free_port())], roots=None)
        self.start()
        endpoint = {"BOX__RUNTIME__ENDPOINT": f"ws://127.0.0.1:{self.port}/rpc/ws"}
        self.langbot = LangBot(environment, place, endpoint)

    def connect(self, seconds=60):
        super().connect(seconds)
        self.client = Client(path=self.state / "caisson.sock")
        return self

    def find(self):
        """It is where it was."""

    def kill_and_return(self, _):
        """As a crash that systemd sees."""
        self.kill()
        self.spawn()
        self.connect()

    def ended(self):
        self.stop()


class StartedByLangBot(Daemon):
    """A child of LangBot, whose environment knows the program."""

    def __init__(self, directory, version, place):
        place.mkdir()
        super().__init__(directory, roots=None)
        self.tables_before, self.pid = nft_tables(), None
        self.client = Client(path=self.state / "caisson.sock")
        environment = environment_upon(shared_environment(version), directory)
        subprocess.run([PROGRAM, "langbot", "install", environment], check=True, capture_output=True, timeout=LIMIT)
        self.langbot = LangBot(environment, place, {"CAISSON_STATE": str(self.state)})

    def find(self):
        """Among the children of LangBot."""
        self.pid = wait_until(self.child, "a daemon that LangBot has started", LIMIT)
        wait_until(self.answers, "an answer of /healthz", LIMIT)
        self.learn_names()

    def child(self):
        of_langbot = [pid for pid, parent in parents().items() if parent == self.langbot.process.pid]
        return next((pid for pid in of_langbot if pid != self.pid and is_daemon(pid)), None)

    def read_log(self):
        """LangBot's own has it."""
        return self.langbot.read_log()

    def kill_and_return(self, session):
        """LangBot sees the end of its child, and starts another."""
        before = len(self.read_log())
        os.kill(self.pid, signal.SIGKILL)
        self.client.close()
        taken = re.compile(rf"session taken over session=\S+-{re.escape(session)} ")
        wait_until(lambda: taken.search(self.read_log()[before:]), "what the next daemon says of the session", LIMIT)
        if not is_old(self):
            self.find()

    def ended(self):
        """It ends with LangBot, and its boxes with it."""
        with contextlib.suppress(ChildProcessError):
            wait_until(lambda: os.waitpid(self.pid, os.WNOHANG) != (0, 0), "the end of the daemon")
        self.check_nothing_left()

    def end(self):
        (self.state / "keeper.sock").unlink(missing_ok=True)
