"""Drives the real program: $CAISSON, or build/caisson of this tree."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
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
