"""The daemon as a process of its own, a client for it, and what it leaves behind."""

import fcntl
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from .host import command_line, descendants, nft_tables, orphans, parents, processes_with, status_field, wait_until

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("CAISSON", ROOT / "build" / "caisson"))
CGROUPS = Path("/sys/fs/cgroup")


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]

    @property
    def message(self):
        return self.json["error"]["message"]

    def __repr__(self):
        return f"{self.status} {self.body[:500]!r}"


class UnixConnection(http.client.HTTPConnection):
    """To the socket of one daemon: its port may be another one's as soon as it is gone."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Client:
    """Requests one after the other, on one connection for each thread, which is not used again when it was idle for so
    long that the daemon may have closed it."""

    LONGEST_IDLE = 30

    def __init__(self, port=None, host="127.0.0.1", timeout=60, headers=None, path=None):
        self.port, self.host, self.timeout, self.path = port, host, timeout, path
        self.headers = headers or {}
        self.local = threading.local()

    def connection(self):
        if not hasattr(self.local, "connection"):
            self.local.connection = (
                UnixConnection(self.path, self.timeout)
                if self.path
                else http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
            )
        return self.local.connection

    def close(self):
        if hasattr(self.local, "connection"):
            self.local.connection.close()
            del self.local.connection

    def send(self, method, path, body=None, headers=None):
        """Sends a request whose answer is fetched later, by receive()."""
        if time.monotonic() - getattr(self.local, "used", 0) > self.LONGEST_IDLE:
            self.close()
        headers = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        self.connection().request(method, path, body=body, headers=headers)

    def receive(self):
        response = self.connection().getresponse()
        self.local.used = time.monotonic()
        return Reply(response.status, response.getheaders(), response.read())

    def __call__(self, method, path, body=None, headers=None):
        try:
            self.send(method, path, body, headers)
            return self.receive()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def create(self, name, **spec):
        return self("POST", session_path(name), spec)

    def exec(self, name, cmd, **spec):
        return self("POST", session_path(name) + "/exec", {"cmd": cmd, **spec})

    def get(self, name):
        return self("GET", session_path(name))

    def delete(self, name):
        return self("DELETE", session_path(name))

    def put_file(self, name, path, content):
        return self("PUT", f"{session_path(name)}/files?path={quote(path, safe='')}", content)

    def get_file(self, name, path):
        return self("GET", f"{session_path(name)}/files?path={quote(path, safe='')}")

    def run(self, name, cmd, **spec):
        """The result of an exec that must not be refused."""
        reply = self.exec(name, cmd, **spec)
        assert reply.status == 200, reply
        return reply.json

    def output(self, name, cmd, **spec):
        result = self.run(name, cmd, **spec)
        assert result["exit_code"] == 0, result
        return result["stdout"]

    def metric(self, name):
        page = self("GET", "/metrics").body.decode()
        return int(re.search(rf"^caisson_{name} (\d+)$", page, re.M)[1])


def session_path(name):
    return "/v1/sessions/" + quote(name, safe="")


class Daemon:
    """A daemon on a port and with a state directory of its own. The log is kept in `log`. Unless the configuration says
    something else, boxes may be shown what is in the directory beside it, where tests have theirs; `roots` is None for
    what the daemon itself has by default."""

    def __init__(self, directory, config="", state=None, prefix=(), arguments=(), env=None, roots=".."):
        self.directory = Path(directory)
        self.state = Path(state or self.directory / "state")
        self.log = self.directory / "log"
        self.shown = self.directory / "shown"  # a directory that boxes may show
        self.prefix, self.arguments = list(prefix), list(arguments)
        self.config = self.directory / "caisson.yaml"
        self.config.write_text(config)
        self.env = {**os.environ, **(env or {})}
        if roots and "allowed_mount_roots" not in config:
            self.env.setdefault("BOX__LOCAL__ALLOWED_MOUNT_ROOTS", str((self.directory / roots).resolve()))
        self.process = None

    def launch(self):
        """Starts it without waiting for anything."""
        self.tables_before = nft_tables()
        self.spawn()

    def spawn(self):
        command = [*self.prefix, str(PROGRAM), "serve", "--state", str(self.state)]
        command += ["--port", "0", *self.arguments]
        if self.config.exists():
            command += ["--config", str(self.config)]
        with open(self.log, "ab") as log:
            self.log_start = log.tell()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env
            )

    def start(self, seconds=60):
        self.launch()
        return self.connect(seconds)

    def connect(self, seconds=60):
        """Once it listens."""
        self.port = int(wait_until(self.announced_port, "the port in the log", seconds))
        self.client = Client(self.port)
        wait_until(self.answers, "an answer of /healthz", seconds)
        self.pid = self.find_pid()
        self.learn_names()
        return self

    def find_pid(self):
        """The daemon itself, below what it was started with."""
        if not self.prefix:
            return self.process.pid
        below = sorted({self.process.pid} | descendants(self.process.pid))
        return next(pid for pid in below if is_daemon(pid))

    def learn_names(self):
        """Its number, which is in the names of all that it makes on this host, and the control groups of its boxes, one a
        hierarchy. Groups of the same name may be elsewhere: of a daemon that was killed in a group that no later one sees."""
        held = self.open_files()
        locks = (re.fullmatch(r"/run/caisson/owner-(\d+)\.lock", target) for target in held)
        self.owner = next((lock[1] for lock in locks if lock), None)
        assert self.owner, "the daemon holds no owner's lock"
        self.groups = {target for target in held if re.fullmatch(rf"{CGROUPS}/.*/caisson-{self.owner}", target)}

    def announced_port(self):
        assert self.process.poll() is None, f"the daemon ended: {self.read_log()}"
        return self.announces()

    def announces(self):
        found = re.search(r"\blistening\b.* port=(\d+)", self.read_log())
        return found and found[1]

    def answers(self):
        try:
            return self.client("GET", "/healthz").status == 200
        except OSError:
            return False

    def read_log(self):
        """Of this run."""
        return self.log.read_bytes()[self.log_start :].decode(errors="replace")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        """At the end it stops and leaves nothing."""
        try:
            self.stop()
        finally:
            self.end()

    def signal(self, number):
        os.kill(self.pid, number)

    def stop(self, seconds=60):
        """Politely; then nothing of it may be left."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        assert self.process.wait(seconds) == 0, self.read_log()
        self.check_nothing_left()

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(60)

    def end(self):
        """However it is: for the end of a test that has stopped or broken it."""
        # A keeper that nobody can find lets its boxes go.
        (self.state / "keeper.sock").unlink(missing_ok=True)
        if self.process is None or self.process.poll() is not None:
            return
        daemons = [p for p in descendants(self.process.pid) | {self.process.pid} if is_daemon(p)]
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            for pid in daemons:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            try:
                self.process.wait(0 if number == signal.SIGCONT else 15)
                return
            except subprocess.TimeoutExpired:
                continue

    def cgroups(self):
        """Of its boxes, in every hierarchy."""
        found = []
        for group in self.groups:
            with suppress(FileNotFoundError):
                found += [entry.path for entry in os.scandir(group) if entry.is_dir()]
        return found

    def boxes(self):
        """The names of the cgroups of its boxes."""
        return {os.path.basename(path) for path in self.cgroups()}

    def process_one(self, name, **spec):
        """The guest of a session's box: who inherits what a command leaves behind."""
        marker = f"sleep {time.monotonic_ns()}.25"
        self.client.output(name, f"{marker} & echo", **spec)
        left = wait_until(lambda: [p for p in processes_with(marker)
                                   if parents().get(p) in self.guests()], "a process without parent")
        guest = parents()[left[0]]
        os.kill(left[0], signal.SIGKILL)
        return guest

    def guests(self):
        """Every process 1 of a box, those that wait for one included."""
        found = set()
        for pid in descendants(self.pid) | orphans():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            if re.search(r"^NSpid:.*\s1$", status, re.M):
                found.add(pid)
        return found

    def interfaces(self):
        return {name for name in os.listdir("/sys/class/net") if name.startswith(f"cs{self.owner}x")}

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def open_files(self):
        found = []
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except OSError:
                continue
        return sorted(found)

    def rss_kb(self):
        return status_field(self.pid, "VmRSS")

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def network_namespaces(self):
        found = set()
        for pid in descendants(self.pid) | orphans():
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/net"))
            except OSError:
                continue
        return found

    def warm_up(self, boxes=4):
        """What is kept for as many boxes at one time is made, and their first use is over."""
        names = [f"warm-up-{number}" for number in range(boxes)]
        self.shown.mkdir(exist_ok=True)
        for spec in ({}, {"network": "on"}, {"host_path": str(self.shown)}):
            for name in names:
                self.client.output(name, "true", **spec)
            for name in names:
                self.client.delete(name)
        last = None
        while last != (last := self.footprint()):
            time.sleep(0.2)

    def footprint(self):
        """What it holds on this host, to be compared before and after."""
        return {
            "boxes": len(self.boxes()),
            "interfaces": len(self.interfaces()),
            "processes": len(descendants(self.pid)),
            "network namespaces": len(self.network_namespaces()),
            "fds": self.fds(),
            "threads": self.threads(),
        }

    @contextmanager
    def nothing_left(self, seconds=60, slack=0):
        """What is done inside leaves the daemon with what it held before."""
        self.warm_up()
        before, files = self.footprint(), self.open_files()

        def same():
            now = self.footprint()
            return all(now[name] <= before[name] + slack for name in before)

        yield before
        try:
            wait_until(same, "the footprint of before", seconds)
        except AssertionError:
            new = set(self.open_files()) - set(files)
            raise AssertionError(f"before {before}, now {self.footprint()}, new {new}") from None

    def names_taken(self):
        """Whether a daemon, this one or a later one of the same number, has these names."""
        try:
            with open(f"/run/caisson/owner-{self.owner}.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def leftovers(self):
        found = {f"process {pid} {command_line(pid)}" for pid in orphans()}
        found |= {line for line in Path("/proc/mounts").read_text().splitlines()
                  if str(self.directory) in line and f" {self.state} " not in line}
        if self.names_taken():
            return found
        found |= set(self.cgroups()) | self.interfaces()
        return found | ({f"caisson_{self.owner}"} & nft_tables()) - self.tables_before

    def check_nothing_left(self, seconds=60):
        try:
            wait_until(lambda: not self.leftovers(), "nothing left", seconds)
        except AssertionError:
            raise AssertionError(f"left behind: {self.leftovers()}") from None


def is_daemon(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == PROGRAM.name
    except OSError:
        return False


def begin(daemon, method, path, body=None):
    """A request at work, on a connection of its own."""
    client = Client(daemon.port, headers={"Connection": "close"})
    client.send(method, path, body)
    return client


def works(daemon):
    """The next request is answered as if nothing had happened."""
    assert daemon.client.output("next", "echo works") == "works"
    assert daemon.client.delete("next").status == 200


def raw(port, data, host="127.0.0.1", timeout=20, half_close=False):
    """Everything the daemon answers to these bytes until it closes, or until nothing more comes."""
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer
