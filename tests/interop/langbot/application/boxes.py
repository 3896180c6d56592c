"""The daemon of a LangBot: beside it, as docs/langbot.md sets it up, or started by LangBot itself."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

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


def crash(box):
    """Kills the daemon, and returns when another has taken its place and LangBot has found it.

    4.10 takes an error of its own for a failed connection (it reloads the skills without saying whose), and connects
    again for ever, with every runtime. So it is killed and started as well. A daemon that it has started ends at each
    of these connections, and nothing can survive."""
    if is_old(box) and isinstance(box, StartedByLangBot):
        pytest.skip("LangBot 4.10 ends the runtime that it has started in the place of one that was killed")
    before = box.langbot.connections()
    box.kill_and_return()
    if is_old(box):
        box.langbot.kill_and_return()
    patiently(lambda: box.langbot.connections() > before and box.langbot.has_box(), "LangBot's return to the daemon")


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

    def kill_and_return(self):
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
        self.tables_before = nft_tables()
        self.client = Client(path=self.state / "caisson.sock")
        environment = environment_upon(shared_environment(version), directory)
        subprocess.run([PROGRAM, "langbot", "install", environment], check=True, capture_output=True, timeout=LIMIT)
        self.langbot = LangBot(environment, place, {"CAISSON_STATE": str(self.state)})

    def connect(self, seconds=60, but=None):
        self.pid = wait_until(lambda: self.child(but), "a daemon that LangBot has started", seconds)
        wait_until(self.answers, "an answer of /healthz", seconds)
        self.learn_names()
        return self

    def child(self, but=None):
        of_langbot = [pid for pid, parent in parents().items() if parent == self.langbot.process.pid]
        return next((pid for pid in of_langbot if pid != but and is_daemon(pid)), None)

    def read_log(self):
        """LangBot's own has it."""
        return self.langbot.read_log()

    def kill_and_return(self):
        """LangBot sees the end of its child, and starts another."""
        killed = self.pid
        os.kill(killed, signal.SIGKILL)
        self.client.close()
        self.connect(LIMIT, but=killed)

    def ended(self):
        """It ends with LangBot, and its boxes with it."""
        with contextlib.suppress(ChildProcessError):
            wait_until(lambda: os.waitpid(self.pid, os.WNOHANG) != (0, 0), "the end of the daemon")
        self.check_nothing_left()

    def end(self):
        (self.state / "keeper.sock").unlink(missing_ok=True)
