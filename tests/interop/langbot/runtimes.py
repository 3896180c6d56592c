"""Runtimes to try with the SDKs: the daemon, and the one that each SDK brings along, with Docker."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from rest.daemon import PROGRAM, ROOT
from rest.host import wait_until

HERE = Path(__file__).parent
VERSIONS = ("0.4.0b1", "0.4.17", "0.5.8", "0.7.18")
TRANSPORTS = ("websocket", "stdio")
IMAGE = "rockchin/langbot-sandbox:latest"  # what every version asks for unless told otherwise
PROGRAMS = ("cat", "dd", "env", "head", "ls", "mkdir", "rm", "sed", "sh", "sleep", "tail", "touch", "tr", "wc", "yes")


def interpreter(version):
    """Of the environment that ./test makes for this version of the SDK."""
    place = ROOT / "build" / "langbot-sdk" / version / "bin" / "python"
    assert place.exists(), f"{place} does not exist: ./test makes it from {HERE / 'sdk' / version}.txt"
    return str(place)


PORTS = itertools.count(20000 + os.getpid() % 5000)
TAKING_A_PORT = threading.Lock()


def free_port():
    """One that nobody else is given: it is below those that systems give away, and each is taken once."""
    with TAKING_A_PORT:
        for port in PORTS:
            with socket.socket() as listener, contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                return port


def accepts(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def drive(version, settings, seconds=480):
    """What the runtime was capable of, and what the driver said on the way."""
    command = [interpreter(version), str(HERE / "driver.py"), json.dumps(settings)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def settings(transport, directory, port, command, env, backend, group, patience):
    init = {
        "enabled": True,
        "backend": backend,
        "limits": {"max_sessions": 64},
        "local": {"host_root": str(directory / "box"), "allowed_mount_roots": [str(directory / "box")]},
    }
    if group == "admission":
        init["admission"] = {"required": True}
    return {
        "transport": transport,
        "url": f"http://127.0.0.1:{port}",
        "command": [*command, "box", "--stdio-control", "--ws-control-port", str(port)],
        "env": env,
        "directory": str(directory),
        "init": init,
        "group": group,
        "patience": patience,
    }


def try_caisson(start_daemon, version, transport, directory, group="ordinary", images=None):
    """With these images, of trees of files, besides the one that is always there."""
    port, state, env = free_port(), directory / "state", {}
    if transport == "websocket":
        daemon = start_daemon("caisson: {langbot: {accept_mount_roots: true}}")
        port, state = daemon.port, daemon.state
    else:
        env = {"CAISSON_STATE": str(state)}
    for name, tree in (images or {}).items():
        command = [PROGRAM, "image", "import", name, tree]
        subprocess.run(command, env={**os.environ, "CAISSON_STATE": str(state)}, check=True, capture_output=True)
    # The daemon answers in the end, also on a machine that stands still at times; of the others some never do.
    return drive(version, settings(transport, directory, port, [str(PROGRAM)], env, "", group, patience=5))


def try_own(engine, version, transport, directory, group="ordinary"):
    """The runtime in the same package as the client."""
    command = [interpreter(version), "-m", "langbot_plugin.cli.__init__"]
    port = free_port()
    given = settings(transport, directory, port, command, engine.env, "docker", group, patience=1)
    if transport == "stdio":
        return drive(version, given)
    command += ["box", "--host", "127.0.0.1", "--ws-control-port", str(port)]
    with open(directory / "runtime.log", "wb") as log:
        runtime = subprocess.Popen(
            command, cwd=directory, env={**os.environ, **engine.env}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: serves(runtime, port, directory / "runtime.log"), "the port of the runtime", 120)
        return drive(version, given)
    finally:
        runtime.send_signal(signal.SIGINT)
        try:
            runtime.wait(20)
        except subprocess.TimeoutExpired:
            runtime.kill()
            runtime.wait()


class RuntimeEnded(Exception):
    """Instead of serving."""


def serves(runtime, port, log):
    if runtime.poll() is not None:
        raise RuntimeEnded(log.read_text()[-2000:])
    return accepts(port)


class Engine:
    """Docker, with all that it keeps in a directory of its own, and an image made of this host's programs.

    It is the first process of a namespace, which it takes along when it is killed: it may have come to a
    standstill, as removing containers beside each other can bring it to, and is not asked whether it wants to end.
    """

    programs = ROOT / "build" / "docker"  # where ./test puts it

    @classmethod
    def installed(cls):
        return (cls.programs / "installed").exists()

    def __init__(self):
        self.place = Path(tempfile.mkdtemp(prefix="engine-"))  # its socket's name must be short
        self.process = None
        self.env = {
            "DOCKER_HOST": f"unix://{self.place}/socket",
            "DOCKER_CONFIG": str(self.place),
            "PATH": f"{self.programs}/usr/bin:{self.programs}/usr/sbin:{os.environ['PATH']}",
        }

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    def docker(self, *arguments, **options):
        command = [self.programs / "usr/bin/docker", *arguments]
        env = {**os.environ, **self.env}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, **options)

    def start(self):
        command = ["unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child"]
        command += [self.programs / "usr/sbin/dockerd"]
        command += ["--data-root", self.place / "data", "--exec-root", self.place / "exec"]
        command += ["--pidfile", self.place / "pid", "--host", f"unix://{self.place}/socket"]
        command += ["--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs"]
        with open(self.place / "log", "wb") as log:
            env = {**os.environ, **self.env}
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, "the engine", 60)
        tree = self.place / "tree"
        make_tree(tree)
        packed = self.place / "image.tar"
        subprocess.run(["tar", "-C", tree, "-cf", packed, "."], check=True)
        self.docker("import", str(packed), IMAGE, check=True)
        return self

    def answers(self):
        assert self.process.poll() is None, (self.place / "log").read_text()[-2000:]
        return self.docker("info").returncode == 0

    def stop(self):
        try:
            if left := self.docker("ps", "--all", "--quiet").stdout.split():
                self.docker("rm", "--force", *left)
        finally:
            if self.process:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.place, ignore_errors=True)


def make_tree(tree):
    """The least that commands of the tests need, with the libraries that they are linked with."""
    for name in ("bin", "tmp", "workspace"):
        (tree / name).mkdir(parents=True)
    (tree / "tmp").chmod(0o1777)
    for name in PROGRAMS:
        program = Path(shutil.which(name)).resolve()
        shutil.copy(program, tree / "bin" / name)
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in (word for word in linked.split() if word.startswith("/")):
            place = tree / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
