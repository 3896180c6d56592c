"""Drives the real program: $CAISSON, or build/caisson of this tree."""

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 60
PROGRAM = Path(os.environ.get("CAISSON", ROOT / "build" / "caisson"))


class Caisson:
    """The program with a state directory of its own."""

    def __init__(self, state):
        self.path = str(PROGRAM)
        self.env = dict(os.environ, CAISSON_STATE=str(state))
        self.env.pop("CAISSON_ALLOW_MISSING", None)
        self.env.pop("NO_COLOR", None)

    def __call__(self, *arguments, text=True, env=None, **options):
        """Runs it to its end, with standard input empty unless told otherwise."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(
            [self.path, *map(str, arguments)],
            env={**self.env, **(env or {})},
            text=text,
            timeout=120,
            check=False,
            **options,
        )

    def exec(self, *command, options=(), **others):
        return self("exec", *options, "--", *command, **others)

    def sh(self, script, *options, **others):
        return self.exec("sh", "-c", script, options=options, **others)

    def start(self, *arguments, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([self.path, *map(str, arguments)], env=self.env, **options)


@pytest.fixture(scope="session")
def caisson(tmp_path_factory):
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} does not exist: build it, or name another with CAISSON")
    program = Caisson(tmp_path_factory.mktemp("state"))
    doctor = program("doctor")
    if doctor.returncode == 1:
        pytest.skip(f"this host cannot make boxes: {doctor.stdout.splitlines()[-1]}")
    assert doctor.returncode == 0, doctor.stderr
    return program


class Daemon:
    """A daemon of its own, and the program as its client."""

    def __init__(self, caisson, state):
        self.caisson = caisson
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.state = state
        self.env = {
            "CAISSON_URL": f"http://127.0.0.1:{self.port}",
            "CAISSON_STATE": str(state),
            "CAISSON_TOKEN": "",
        }
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.caisson.path, "serve", "--state", str(self.state), "--port", str(self.port)],
            env=dict(
                self.caisson.env,
                CAISSON__LOG_FORMAT="json",
                BOX__LOCAL__ALLOWED_MOUNT_ROOTS=str(Path(self.state).parent),  # where tests have theirs
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for line in self.process.stderr:
            if b"listening" in line:
                break
        # It may go on to write, and nobody cares.
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(LIMIT) == 0
        self.reader.join(LIMIT)
        self.process.stderr.close()

    def kill(self):
        """What keeps the boxes lives on, and holds the log open."""
        self.process.kill()
        self.process.wait(LIMIT)

    def __call__(self, *arguments, env=None, **options):
        return self.caisson(*arguments, env={**self.env, **(env or {})}, **options)

    def begin(self, *arguments, **options):
        """The program, while it runs."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(
            [self.caisson.path, *map(str, arguments)],
            env={**self.caisson.env, **self.env},
            **options,
        )

    def exec(self, session, *command, options=(), **others):
        return self("exec", "-s", session, *options, "--", *command, **others)

    def sh(self, session, script, *options, **others):
        return self.exec(session, "sh", "-c", script, options=options, **others)

    def names(self):
        return self("ls", "-q").stdout.splitlines()


@pytest.fixture
def daemons(caisson, tmp_path_factory):
    """Two that run side by side."""
    running = [Daemon(caisson, tmp_path_factory.mktemp("daemon")) for _ in range(2)]
    yield running
    for daemon in running:
        daemon.stop()


@pytest.fixture(scope="module")
def daemon(caisson, tmp_path_factory):
    running = Daemon(caisson, tmp_path_factory.mktemp("daemon"))
    yield running
    running.stop()
