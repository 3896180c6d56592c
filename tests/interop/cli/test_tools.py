"""What servers find in a box of the default image: python, pip, uv, uvx, node, npm and npx, whatever the host has."""

import http.server
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
import zipfile
from pathlib import Path

import pytest

from conftest import Caisson, Daemon

LIMIT = 600  # of a download
COMMANDS = ("python", "pip", "uv", "uvx", "node", "npm", "npx")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")


def fetch(caisson, *options, **others):
    return subprocess.run(
        [caisson.path, "image", "tools", *options],
        env={**caisson.env, **others.pop("env", {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        **others,
    )


@pytest.fixture(scope="module")
def tooled(caisson, tmp_path_factory):
    """The program with a state directory that has the tools, from the package index."""
    program = Caisson(tmp_path_factory.mktemp("tooled"))
    done = fetch(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fetched uv-") and done.stderr == ""
    return program


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A workspace with a package that has a command."""
    place = tmp_path_factory.mktemp("wheels")
    info = "tiny_server-1.0.dist-info"
    files = {
        "tiny_server.py": "def main():\n    print('tiny at work')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny-server\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny-server = tiny_server:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(place / "tiny_server-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    place.chmod(0o755)
    return place


def bare(program, tmp_path, *arguments, hidden=COMMANDS):
    """Runs it where the host's own programs of these names cannot be executed, and its python3 can."""
    empty = tmp_path / "empty"
    empty.touch(mode=0o644)
    script = "mount --make-rprivate /\n"
    for name in [*hidden, "pip3"]:
        for directory in ("/usr/local/bin", "/usr/bin"):
            path = Path(directory, name)
            if path.is_file() and path.resolve() != Path("/usr/bin/python3").resolve():
                script += f"mount --bind {shlex.quote(str(empty))} {path}\n"
    script += 'exec "$@"\n'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script, "sh", program.path, *map(str, arguments)],
        env=program.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


VERSIONS = {
    "python": ("python -V", "Python 3."),
    "pip": ("pip --version", "pip "),
    "uv": ("uv --version", "uv "),
    "uvx": ("uvx --version", "uv"),
    "node": ("node -e 'console.log(6 * 7)'", "42"),
    "npm": ("npm --version", ""),
    "npx": ("npx --version", ""),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_servers_expect_is_there(tooled, name):
    command, begin = VERSIONS[name]
    done = tooled.sh(command, "--memory", "1024")
    assert done.returncode == 0 and done.stdout.startswith(begin), done.stderr


@needs_root
@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_there_when_the_host_has_none_of_it(tooled, tmp_path, name):
    command, begin = VERSIONS[name]
    words = f"command -v {name}; {command}"
    done = bare(tooled, tmp_path, "exec", "--memory", "1024", "--", "sh", "-c", words)
    assert done.returncode == 0, done.stderr
    place, shown = done.stdout.split("\n", 1)
    assert place == f"/opt/caisson/bin/{name}" and shown.startswith(begin)


@needs_root
def test_without_the_tools_everything_else_goes_on(caisson, tmp_path):
    program = Caisson(tmp_path / "empty-state")
    for name in ("uv", "uvx", "node", "npm", "npx"):
        done = bare(program, tmp_path, "exec", "--", name, "--version")
        assert done.returncode == 127 and "caisson image tools" in done.stderr, (name, done)
    done = bare(program, tmp_path, "exec", "--", "python", "-c", "print(6 * 7)")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_tools_are_fetched_once(tooled, tmp_path):
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = fetch(tooled, env=offline)
    assert done.returncode == 0 and done.stdout.startswith("here already: uv-"), done.stderr
    shown = json.loads(fetch(tooled, "--json", env=offline).stdout)
    assert shown["fetched"] is False and (Path(shown["directory"]) / "bin" / "uv").is_file()


def test_what_cannot_be_fetched_says_why_and_what_to_run(caisson, tmp_path):
    program = Caisson(tmp_path / "state")
    done = fetch(program, env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)})
    assert done.returncode != 0 and "uv==" in done.stderr and "caisson image tools" in done.stderr
    assert sorted(os.listdir(tmp_path / "state" / "tools")) == [".lock", "shown"]
    assert os.listdir(tmp_path / "state" / "tools" / "shown") == []


class Stuck:
    """A package index that takes requests and never answers."""

    def __enter__(self):
        self.asked, self.over = threading.Event(), threading.Event()
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                index.asked.set()
                index.over.wait()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return {
            "PIP_INDEX_URL": f"http://127.0.0.1:{self.server.server_port}/",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": "",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_NO_CACHE_DIR": "1",
        }

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_what_is_half_fetched_is_never_shown(tooled, tmp_path, ending):
    program = Caisson(tmp_path / "state")
    place = tmp_path / "state" / "tools"
    stuck = Stuck()
    with stuck as index:
        fetching = subprocess.Popen([program.path, "image", "tools"], env={**program.env, **index})
        assert stuck.asked.wait(60)
        drafts = [name for name in os.listdir(place) if name.startswith(".new-")]
        assert len(drafts) == 1
        done = program.sh("ls -A /opt/caisson/tools; ls -A /opt/caisson")
        assert (done.returncode, done.stdout.split()) == (0, ["bin", "tools"]), done.stderr
        children = Path(f"/proc/{fetching.pid}/task/{fetching.pid}/children").read_text().split()
        fetching.send_signal(ending)
        status = fetching.wait(60)
        for child in children if ending == signal.SIGKILL else []:
            os.kill(int(child), signal.SIGKILL)  # nobody is left to do it
    assert status == (-ending if ending == signal.SIGKILL else 128 + ending)
    if ending == signal.SIGKILL:
        fetch(program, env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)})  # cleans up, whatever comes of it
    assert sorted(os.listdir(place)) == [".lock", "shown"] and os.listdir(place / "shown") == []


def test_a_box_changes_nothing_of_the_tools(tooled):
    before = fetch(tooled, "--json").stdout
    directory = Path(json.loads(before)["directory"])
    uv = directory / "bin" / "uv"
    content = uv.stat()
    script = f"""
        for path in /opt/caisson/tools/new /opt/caisson/bin/new /opt/caisson/tools/{directory.name}/new; do
          if (echo x >"$path") 2>/dev/null; then echo "made $path"; fi
        done
        for path in /opt/caisson/tools/{directory.name}/bin/uv /opt/caisson/tools/{directory.name}; do
          rm -rf "$path" 2>/dev/null; mv "$path" /tmp/x 2>/dev/null; chmod 0777 "$path" 2>/dev/null
          if (echo x >>"$path") 2>/dev/null; then echo "changed $path"; fi
        done
        exec /opt/caisson/tools/{directory.name}/bin/uv --version"""
    for options in ([], ["--writable"], ["--mount", f"{Path(__file__).parent}:/data:ro"]):
        done = tooled.sh(script, *options)
        assert done.returncode == 0 and done.stdout.startswith("uv "), (options, done)
    after = uv.stat()
    assert (after.st_mtime_ns, after.st_size, after.st_mode, after.st_nlink) == (
        content.st_mtime_ns,
        content.st_size,
        content.st_mode,
        content.st_nlink,
    )
    assert os.listdir(directory.parent) == [directory.name]


def test_no_box_meets_another_in_the_tools(tooled):
    """A lock that one holds there is none to another."""
    directory = json.loads(fetch(tooled, "--json").stdout)["directory"]
    file = f"/opt/caisson/tools/{Path(directory).name}/bin/uv"
    first = tooled.start("exec", "-i", "--", "sh", "-c", f"exec 9<{file}; flock 9; echo held; read _", stdin=subprocess.PIPE)
    assert first.stdout.readline() == b"held\n"
    done = tooled.sh(f"exec 9<{file}; flock -n 9 && echo free")
    first.communicate()
    assert done.stdout == "free\n", done.stderr


OFFLINE = "--no-index --find-links /workspace"


@pytest.mark.parametrize("options", [[], ["--writable"]])
@pytest.mark.parametrize("pip", ["pip", "pip3", "python -m pip", "python3 -m pip"])
def test_pip_installs_for_who_runs_it(tooled, wheels, pip, options):
    if pip == "pip3" and not shutil.which("pip3", path="/usr/local/bin:/usr/bin"):
        pytest.skip("the host has no pip3, and nobody expects it")
    script = f"{pip} install {OFFLINE} tiny-server && tiny-server && python -c 'import tiny_server'"
    done = tooled.sh(script, "--workspace", wheels, *options)
    assert done.returncode == 0 and done.stdout.endswith("tiny at work\n"), done
    assert "externally-managed" not in done.stderr


@needs_root
def test_pip_of_ours_installs_where_the_host_has_none(tooled, wheels, tmp_path):
    script = f"pip install {OFFLINE} tiny-server && tiny-server && python -c 'import tiny_server'"
    done = bare(tooled, tmp_path, "exec", "--workspace", wheels, "--", "sh", "-c", script)
    assert done.returncode == 0 and done.stdout.endswith("tiny at work\n"), done


def test_venvs_are_made_in_the_workspace(tooled, wheels, tmp_path):
    tmp_path.chmod(0o755)
    shutil.copy(next(wheels.iterdir()), tmp_path)
    script = f"python -m venv .venv && . .venv/bin/activate && python -m pip install {OFFLINE} tiny-server && tiny-server"
    done = tooled.sh(script, "--workspace", tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("tiny at work\n"), done
    # The next box finds it as it was.
    done = tooled.sh(".venv/bin/tiny-server; .venv/bin/python -c 'import tiny_server'", "--workspace", tmp_path)
    assert (done.returncode, done.stdout) == (0, "tiny at work\n"), done.stderr


def test_uv_works_without_a_network(tooled, wheels):
    done = tooled.sh(f"uvx --offline {OFFLINE} tiny-server", "--workspace", wheels, "--memory", "1024")
    assert (done.returncode, done.stdout) == (0, "tiny at work\n"), done.stderr
    script = f"uv venv /tmp/v && VIRTUAL_ENV=/tmp/v uv pip install --offline {OFFLINE} tiny-server && /tmp/v/bin/tiny-server"
    done = tooled.sh(script, "--workspace", wheels, "--memory", "1024")
    assert done.returncode == 0 and done.stdout.endswith("tiny at work\n"), done.stderr


def test_npm_installs_for_who_runs_it(tooled, tmp_path):
    tmp_path.chmod(0o755)
    package = tmp_path / "tiny"
    package.mkdir()
    (package / "package.json").write_text('{"name": "tiny", "version": "1.0.0", "bin": {"tiny-node": "tiny.js"}}')
    (package / "tiny.js").write_text("#!/usr/bin/env node\nconsole.log('tiny at work')\n")
    script = "cp -r tiny /tmp/ && cd /tmp && npm install --offline --global ./tiny >&2 && tiny-node"
    done = tooled.sh(script, "--workspace", tmp_path, "--memory", "1024")
    assert (done.returncode, done.stdout) == (0, "tiny at work\n"), done.stderr


def test_npm_reads_the_settings_of_the_system(tooled):
    """A host that has certificates of its own names them there; without, nothing comes from the registry."""
    done = tooled.sh("npm config get globalconfig")
    assert (done.returncode, done.stdout) == (0, "/usr/etc/npmrc\n"), done.stderr


@needs_root
def test_boxes_that_run_already_see_what_is_fetched(tooled, tmp_path):
    """A set that appears beside them, as a fetch makes it appear, is in them; and `uv` of a new one runs."""
    program = Caisson(tmp_path / "state")
    source = Path(json.loads(fetch(tooled, "--json").stdout)["directory"])
    (tmp_path / "state").mkdir()
    running = program.start("exec", "-i", "--", "sh", "-c", "echo ready; read _; uv --version", stdin=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    place = tmp_path / "state" / "tools"
    shutil.copytree(source, place / ".new-copied")
    os.rename(place / ".new-copied", place / "shown" / source.name)
    out, err = running.communicate(b"\n", timeout=60)
    assert out.startswith(b"uv "), err


@pytest.fixture
def served(caisson, tmp_path_factory):
    running = Daemon(caisson, tmp_path_factory.mktemp("daemon"))
    yield running
    running.stop()


def test_a_process_whose_command_is_missing_is_refused(served):
    done = served("start", "-s", "refused", "--", "no-such-server", "--flag")
    assert done.returncode == 127 and done.stdout == "", done
    for words in ("no-such-server: not found in the box", "PATH is /home/box/.local/bin:"):
        assert words in done.stderr
    assert served("ps", "refused", "--json").stdout.strip() == "[]"


needs_uv = pytest.mark.skipif(
    shutil.which("uvx", path="/usr/local/bin:/usr/bin") is not None, reason="the host has uv, and nothing is fetched"
)


@needs_uv
def test_a_process_that_asks_for_a_tool_has_it_fetched(caisson, tmp_path_factory):
    state = tmp_path_factory.mktemp("daemon")
    daemon = Daemon(caisson, state)
    assert daemon.sh("first", "true").returncode == 0  # its box is there before the tools are
    deadline = time.monotonic() + LIMIT
    while (done := daemon("start", "-s", "first", "--", "uvx", "--version")).returncode != 0:
        assert "are being fetched: try again" in done.stderr and time.monotonic() < deadline, done
    shown = json.loads(fetch(caisson, "--json", "--state", str(state)).stdout)
    assert shown["fetched"] is False
    done = daemon("attach", "--no-stdin", "--from", "0", "first")
    assert done.returncode == 0 and done.stdout.startswith("uv"), done
    daemon.stop()


@needs_uv
def test_a_process_is_told_why_a_tool_could_not_be_fetched(caisson, tmp_path):
    (tmp_path / "state").mkdir()
    offline = Caisson(tmp_path / "unused")
    offline.env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    daemon = Daemon(offline, tmp_path / "state")
    for _ in range(2):  # the second time it is not tried again
        done = daemon("start", "-s", "s", "--", "uvx", "some-server")
        assert done.returncode == 127 and done.stderr.startswith("caisson: uvx: not found in the box (PATH is "), done
        assert "uv==" in done.stderr and "run `caisson image tools`" in done.stderr
    assert daemon.exec("s", "python", "-V").returncode == 0
    daemon.stop()


@needs_uv
def test_a_daemon_that_fetches_can_be_stopped(caisson, tmp_path):
    (tmp_path / "state").mkdir()
    stuck = Stuck()
    with stuck as index:
        program = Caisson(tmp_path / "unused")
        program.env.update(index)
        daemon = Daemon(program, tmp_path / "state")
        starting = daemon.begin("start", "-s", "s", "--", "uvx", "some-server")
        assert stuck.asked.wait(60)
        daemon.stop()
        starting.communicate(timeout=60)
    assert sorted(os.listdir(tmp_path / "state" / "tools")) == [".lock", "shown"]
