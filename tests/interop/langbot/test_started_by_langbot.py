"""`caisson langbot`: LangBot's interpreter starts the program where it would start the SDK's Box runtime."""

import os
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from rest.daemon import PROGRAM, ROOT

from .environments import LIMIT, environment_upon, packages_of, python_of
from .runtimes import VERSIONS, interpreter

SOURCE = ROOT / "src" / "cli" / "caisson_langbot.py"
FILES = ("caisson_langbot.pth", "caisson_langbot.py")
MODULE = "langbot_plugin.cli.__init__"


def run(*command):
    return subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False
    )


class Environment:
    """Of LangBot, with this release of the SDK."""

    def __init__(self, version, directory):
        self.place = environment_upon(Path(interpreter(version)).parents[1], directory)
        self.python = python_of(self.place)
        self.packages = packages_of(self.place)

    def manage(self, action, program=PROGRAM):
        return run(program, "langbot", action, self.place)

    def lbp(self, *words):
        return run(self.python, "-m", MODULE, *words)

    def files(self):
        return [name for name in FILES if (self.packages / name).exists()]


@pytest.fixture(params=VERSIONS)
def langbot(request, tmp_path):
    return Environment(request.param, tmp_path)


@pytest.fixture
def newest(tmp_path):
    return Environment(VERSIONS[-1], tmp_path)


@pytest.fixture(scope="module")
def own_help():
    return run(PROGRAM, "box", "--help").stdout


def test_the_runtime_is_the_program_and_all_else_is_the_sdks(langbot, own_help):
    others = (["ver"], ["rt", "--help"], ["box-of-somebody"])
    before = [(done.returncode, done.stdout) for done in map(lambda words: langbot.lbp(*words), others)]
    assert langbot.lbp("box", "--help").stdout != own_help
    installed = langbot.manage("install")
    assert installed.returncode == 0, installed.stderr
    assert str(PROGRAM.resolve()) in installed.stdout
    assert langbot.lbp("box", "--help").stdout == own_help
    assert [(done.returncode, done.stdout) for done in map(lambda words: langbot.lbp(*words), others)] == before
    assert langbot.manage("check").returncode == 0


def test_removed_nothing_is_left_of_it(langbot, own_help):
    langbot.manage("install")
    assert langbot.files() == sorted(FILES)
    assert langbot.manage("remove").returncode == 0
    assert not list(langbot.packages.rglob("*caisson*"))
    assert langbot.lbp("box", "--help").stdout != own_help
    check = langbot.manage("check")
    assert check.returncode == 1 and "caisson langbot install" in check.stderr
    assert langbot.manage("remove").returncode == 0  # again


def test_it_can_be_installed_again_and_for_another_program(newest, tmp_path):
    other = shutil.copy(PROGRAM, tmp_path / "other")
    assert newest.manage("install").returncode == 0
    assert newest.manage("install", other).returncode == 0
    assert newest.manage("check", other).returncode == 0
    assert newest.files() == sorted(FILES)


def test_a_program_that_is_gone_is_named_and_the_sdks_own_does_not_start(newest, tmp_path):
    program = Path(shutil.copy(PROGRAM, tmp_path / "program"))
    assert newest.manage("install", program).returncode == 0
    program.unlink()
    done = newest.lbp("box", "-s")
    assert done.returncode == 127
    assert str(program) in done.stderr and "-m caisson_langbot remove" in done.stderr
    assert newest.lbp("ver").returncode == 0
    assert run(newest.python, "-m", "caisson_langbot", "remove").returncode == 0
    assert not newest.files()


def test_an_environment_without_the_sdk_is_refused_and_stays_as_it_is(tmp_path):
    place = tmp_path / "venv"
    run("python3", "-m", "venv", "--without-pip", place)
    done = run(PROGRAM, "langbot", "install", place)
    assert done.returncode == 1 and "langbot-plugin" in done.stderr and str(place) in done.stderr
    assert not list(place.rglob("*caisson*"))


def test_root_does_not_run_what_another_user_owns(tmp_path):
    place = tmp_path / "venv"
    run("python3", "-m", "venv", "--without-pip", place)
    os.lchown(place / "bin" / "python", 65534, 65534)
    done = run(PROGRAM, "langbot", "install", place)
    assert done.returncode == 125 and "sudo -u '#65534'" in done.stderr and str(place) in done.stderr
    assert not list(place.rglob("*caisson*"))


def test_what_is_no_environment_is_named(tmp_path):
    done = run(PROGRAM, "langbot", "install", tmp_path)
    assert done.returncode == 125 and str(tmp_path / "bin" / "python") in done.stderr


@pytest.fixture(scope="module")
def module():
    return runpy.run_path(SOURCE)  # leaves no bytecode among the sources


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        (f"python -m {MODULE} box -s --ws-control-port 5410", ["-s", "--ws-control-port", "5410"]),
        ("python -u -X utf8 -W error -m langbot_plugin box", []),
        ("python -m langbot_plugin.cli box --host 127.0.0.1", ["--host", "127.0.0.1"]),
        ("python -m langbot_plugin.box.server --port 5410 --mode stdio", ["--port", "5410", "--mode", "stdio"]),
        ("python /opt/langbot/.venv/bin/lbp box -s", ["-s"]),
        (f"python -m {MODULE} rt -s", None),
        (f"python -m {MODULE} run box", None),
        (f"python -m {MODULE}", None),
        ("python -m langbot box", None),
        ("python -m langbot_plugin_of_another box", None),
        ("python -m langbot_plugin.boxes box_", None),
        ("python tool.py -m langbot_plugin box", None),
        ("python -c pass -m langbot_plugin box", None),
        ("python -", None),
        ("python", None),
    ],
)
def test_it_knows_the_box_runtime_by_its_command_line(module, line, arguments):
    assert module["runtime_arguments"](line.split()) == arguments
