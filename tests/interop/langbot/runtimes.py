"""Runtimes to try with the SDKs: the daemon, and the one that each SDK brings along, with Docker."""

import contextlib
import hashlib
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
VERSIONS = ("0.4.0b1", "0.4.17", "0.5.8", "0.7.16", "0.7.18")
TRANSPORTS = ("websocket", "stdio")
# Capabilities that need a runtime of their own, because it is set up in another way; "seed" is apart.
GROUPS = ("ordinary", "defaults", "guarded", "admission", "managed")
TOKEN = "a-control-token-for-tests-of-interoperation"
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


def drive(version, groups, seconds=900):
    """What the runtimes of these groups were capable of, and what the driver said on the way."""
    command = [interpreter(version), str(HERE / "driver.py"), *(json.dumps(group) for group in groups)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def configuration(group, directory, backend):
    """What LangBot sends when it connects. Of the group "defaults" that is what its own template says."""
    box = str(directory / "box")
    local = {"host_root": box, "allowed_mount_roots": [box]}
    if group == "defaults":
        local = {"host_root": "./data/box", "default_workspace": "", "allowed_mount_roots": ["./data/box", "/tmp"]}
    init = {"enabled": True, "backend": backend, "limits": {"max_sessions": 64}, "local": local}
    if group in ("admission", "managed"):
        init["admission"] = {"required": True}
    return init


def environment(group):
    """Of a runtime."""
    return {
        "guarded": {"LANGBOT_BOX_CONTROL_TOKEN": TOKEN},
        "managed": {"LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS": "1", "BOX__NATIVE__ANSWER_AS": "nsjail"},
    }.get(group, {})


def settings(transport, directory, port, command, env, backend, group, patience):
    return {
        "transport": transport,
        "url": f"http://127.0.0.1:{port}",
        "command": [*command, "box", "--stdio-control", "--ws-control-port", str(port)],
        "env": env,
        "directory": str(directory),
        "init": configuration(group, directory, backend),
        "token": TOKEN if group == "guarded" else "",
        "group": group,
        "patience": patience,
    }


def place_of(directory, group):
    place = directory / group
    (place / "box").mkdir(parents=True)
    (place / "data" / "box").mkdir(parents=True)  # that LangBot makes for itself
    return place


def start_caisson(start_daemon, group, place):
    """As a service. By default it takes directories from every host; otherwise it is told its own, and no more."""
    if group != "defaults":
        return start_daemon("caisson: {langbot: {accept_mount_roots: true}}", env=environment(group))
    config = {"box": {"local": {"host_root": str(place / "data" / "box")}}}
    return start_daemon(json.dumps(config), roots=None)


def try_caisson(start_daemon, version, transport, directory, groups=GROUPS, images=None):
    """With these images, of trees of files, besides the one that is always there."""
    tried = []
    for group in groups:
        place = place_of(directory, group)
        port, state = free_port(), place / "state"
        env = {**environment(group), "CAISSON_STATE": str(state)}
        if transport == "websocket":
            daemon = start_caisson(start_daemon, group, place)
            port, state = daemon.port, daemon.state
        for name, tree in (images or {}).items():
            command = [PROGRAM, "image", "import", name, tree]
            subprocess.run(command, env={**os.environ, "CAISSON_STATE": str(state)}, check=True, capture_output=True)
        backend = "nsjail" if group == "managed" else "local"
        # The daemon answers in the end, also on a machine that stands still at times; of the others some never do.
        tried.append(settings(transport, place, port, [str(PROGRAM)], env, backend, group, patience=5))
    return drive(version, tried)


def try_own(engine, version, transport, directory, groups=GROUPS):
    """The runtime in the same package as the client."""
    command = [interpreter(version), "-m", "langbot_plugin.cli.__init__"]
    tried, started = [], []
    try:
        for group in groups:
            place, port = place_of(directory, group), free_port()
            env = {**engine.env, **environment(group)}
            tried.append(settings(transport, place, port, command, env, "docker", group, patience=2))
            if transport == "websocket":
                started.append(Service([*command, "box", "--host", "127.0.0.1"], place, env, port))
        for service in started:
            service.wait()
        return drive(version, tried)
    finally:
        for service in started:
            service.end()


class Service:
    """A runtime of an SDK that hosts connect to."""

    def __init__(self, command, directory, env, port):
        self.port, self.log = port, directory / "runtime.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, "--ws-control-port", str(port)],
                cwd=directory,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self):
        wait_until(self.serves, "the port of the runtime", 120)

    def serves(self):
        if self.process.poll() is not None:
            raise RuntimeEnded(self.log.read_text()[-2000:])
        return accepts(self.port)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class RuntimeEnded(Exception):
    """Instead of serving."""


class Engine:
    """Docker, with all that it keeps in a directory of its own, and an image made of this host's programs.

    It is the first process of a namespace, which it takes along when it is killed: it may have come to a
    standstill, as removing containers beside each other can bring it to, and is not asked whether it wants to end.
    """

    programs = ROOT / "build" / "docker"  # where ./test puts it

    @classmethod
    def installed(cls):
        return (cls.programs / "installed").exists()

    @classmethod
    def digest(cls):
        """Of the engine, and of what its image is made of."""
        digest = hashlib.sha256((cls.programs / "usr/sbin/dockerd").read_bytes())
        for name in PROGRAMS:
            digest.update(Path(shutil.which(name)).read_bytes())
        return digest.hexdigest()

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
