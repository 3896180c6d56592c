"""What a user of this host without rights gets from root's daemon as it is out of the box: nothing."""

import grp
import json
import os
import re
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from .daemon import PROGRAM, ROOT, Client, Daemon, session_path
from .host import wait_until

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
# What everybody may have: whether the daemon lives and could make boxes, and a document that is the same everywhere.
OPEN = {"/healthz": {"live"}, "/readyz": {"ready"}, "/v1/health": {"available"}, "/openapi.json": None}
SECRET = "what-only-root-may-know"
JSON = "Content-Type: application/json\r\n"
UPGRADE = ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")  # fmt: skip
# What a stranger may say of itself.
CLAIMS = {
    "nothing": "",
    "a wrong token": "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n",
    "an empty token": "Authorization: Bearer \r\n",
    "another scheme": "Authorization: Basic cm9vdDpyb290\r\n",
    "a token of hosts": "X-LangBot-Box-Control-Token: 0123456789abcdef0123456789abcdef\r\n",
    "an instance": "X-LangBot-Instance-Id: inst\r\n",
    "a tenant": "X-LangBot-Instance-Id: inst\r\nX-LangBot-Workspace-Id: w\r\nX-LangBot-Placement-Generation: 1\r\n",
    "a proxy": "Forwarded: for=127.0.0.1\r\nX-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Root's daemon with nothing configured, and a session in it with all that a session can have. The directories
    above its own are open, so that nothing but its own rights protects it."""
    directory = tmp_path_factory.mktemp("strangers")
    for place in (directory, *directory.parents):
        if place.stat().st_uid == os.geteuid() and str(place).startswith("/tmp/"):
            place.chmod(0o755)
    daemon = Daemon(directory, roots=None)
    daemon.config.unlink()  # there is none
    try:
        client = daemon.start().client
        client.create("there", env={"SECRET": SECRET}, persistent=True)
        client.put_file("there", "file", SECRET.encode())
        client.output("there", f"echo {SECRET}", request_id="key", persistent=True)
        started = client("POST", "/v1/sessions/there/managed-process", {"command": "cat", "process_id": "cat"})
        assert started.status == 201, started
        shutil.copy(Path(__file__).parent / "stranger.py", directory / "stranger.py")
        yield daemon
    finally:
        daemon.end()


def strange(daemon, attempts):
    """What comes of these when nobody tries them."""
    script = str(daemon.directory / "stranger.py")
    done = subprocess.run([*NOBODY, "/usr/bin/python3", "-I", script], input=json.dumps([daemon.port, attempts]),
                          capture_output=True, text=True, timeout=570, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def paths():
    """Of every route: those of the document, and whatever the sources look like routing."""
    known = set(json.loads((ROOT / "src/api/openapi.json").read_text())["paths"])
    for source in (ROOT / "src/api").rglob("*.cc"):
        if not source.name.endswith("_test.cc"):
            known |= set(re.findall(r'"(/(?:v\d|rpc|healthz|readyz|metrics|openapi)\b[^"\s]*)"', source.read_text()))
    assert {"/rpc/ws", "/metrics", "/v1/sessions/{id}/managed-process/{process}/ws"} <= known and len(known) > 20
    return sorted(known)


def actions():
    """Of LangBot's hosts: those that there are."""
    found = re.findall(r'\{"(\w+)", \{Scope::', (ROOT / "src/api/rpc/action.cc").read_text())
    assert {"box_init", "box_exec", "box_read_skill_file"} <= set(found) and len(found) > 20
    return found


def fill(path):
    target = path.replace("{id}", "there").replace("{key}", "key").replace("{process}", "cat")
    return target + ("?path=file" if "files" in path else "?path=." if "directory" in path else "")


def request(daemon, method, target, headers="", body=""):
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nConnection: close\r\n{headers}"
    if UPGRADE in headers:
        head = head.replace("Connection: close\r\n", "")
    if body:
        head += f"{JSON}Content-Length: {len(body)}\r\n"
    return f"{head}\r\n{body}"


def status_of(answer):
    return int(answer.split()[1]) if answer.startswith("HTTP/1.1 ") else answer


def body_of(answer):
    return answer.partition("\r\n\r\n")[2]


def state_of(client):
    """What a stranger could have changed."""
    sessions = {s["session_id"]: s["created_at"] for s in client("GET", "/v1/sessions").json}
    process = client("GET", "/v1/sessions/there/managed-process/cat").json
    return (sessions, client.get_file("there", "file").body, process["status"], process["process_id"],
            client.metric("execs_total"), client.metric("sessions_made_total"), client.metric("host_requests_total"))  # fmt: skip


def test_a_stranger_gets_nothing_from_any_route(root):
    before = state_of(root.client)
    body = json.dumps({"cmd": "id", "command": "cat", "signal": 9, "host_path": "/tmp"})
    tries = [(path, method, claim) for path in paths() for method in METHODS for claim in CLAIMS]
    attempts = [{"bytes": request(root, method, fill(path), CLAIMS[claim], body if method in ("POST", "PUT") else "")}
                for path, method, claim in tries]  # fmt: skip
    for (path, method, claim), answer in zip(tries, strange(root, attempts), strict=True):
        what, status = (method, path, claim, answer), status_of(answer)
        assert SECRET not in answer and '"there"' not in answer, what
        if path in OPEN and method in ("GET", "HEAD") and status == 200:
            shown = json.loads(body_of(answer) or "{}")
            assert OPEN[path] is None or set(shown) <= OPEN[path], what
        elif path in OPEN:
            assert status in (401, 405), what
        else:
            assert status in (401, 405, 426), what
            assert status == 401 or method not in ("GET", "POST", "PUT", "DELETE"), what
    assert state_of(root.client) == before


def test_a_stranger_gets_no_websocket(root):
    before = state_of(root.client)
    tries = [(path, claim, offer) for path in paths() for claim in CLAIMS for offer in ("", "mcp", "caisson.v1")]
    attempts = []
    for path, claim, offer in tries:
        headers = UPGRADE + CLAIMS[claim] + (f"Sec-WebSocket-Protocol: {offer}\r\n" if offer else "")
        attempts.append({"bytes": request(root, "GET", fill(path), headers)})
    for (path, claim, offer), answer in zip(tries, strange(root, attempts), strict=True):
        allowed = (200, 401) if path in OPEN else (401,)
        assert status_of(answer) in allowed, (path, claim, offer, answer)
    assert state_of(root.client) == before


def frame(text):
    """As a client sends it."""
    data, mask = text.encode(), b"abcd"
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    return (b"\x81" + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))).decode("latin-1")


def test_a_stranger_performs_no_action_of_a_host(root, tmp_path):
    """Not even when it does not wait for the handshake to be answered."""
    before = state_of(root.client)
    context = {"instance_uuid": "inst", "workspace_uuid": "w", "placement_generation": 1}
    data = {"session_id": "there", "process_id": "cat", "cmd": "id", "name": "x", "path": "x", "config": {},
            "local": {"skills_root": "/tmp", "host_root": "/tmp"}, "command": "cat", "content": "x"}  # fmt: skip
    tries = [(action, claim) for action in actions() for claim in CLAIMS]
    attempts = []
    for action, claim in tries:
        message = json.dumps({"seq_id": 1, "action": action, "data": data, "context": context})
        attempts.append({"bytes": request(root, "GET", "/rpc/ws", UPGRADE + CLAIMS[claim]) + frame(message)})
    for (action, claim), answer in zip(tries, strange(root, attempts), strict=True):
        assert status_of(answer) == 401, (action, claim, answer)
        assert body_of(answer).startswith("Unauthorized") or '"unauthorized"' in body_of(answer), (action, answer)
    assert state_of(root.client) == before


def test_a_stranger_that_is_gone_at_once_gets_nothing_done(root):
    """Sockets that nobody holds any more are root's in the kernel's table."""
    before = state_of(root.client)
    accepted = root.client.metric("connections_total")
    asked = request(root, "POST", "/v1/sessions/there/exec", "", json.dumps({"cmd": "touch /workspace/stranger"}))
    attempts = [{"bytes": asked, "end": end} for end in ("reset", "leave") * 50]
    strange(root, attempts)
    wait_until(lambda: root.client.metric("connections_total") >= accepted + len(attempts), "all of them accepted")
    wait_until(lambda: root.client.metric("connections") <= 1, "all of them gone")
    assert state_of(root.client) == before


def test_a_stranger_reaches_neither_sockets_nor_files(root):
    sockets = re.search(r' sockets="?([^"\n]*?)"? state=', root.read_log())[1].split()
    assert str(root.state / "caisson.sock") in sockets
    places = [root.state, "/run/caisson", *root.state.rglob("*"), *Path("/run/caisson").iterdir()]
    asked = request(root, "GET", "/v1/sessions")
    attempts = [{"socket": path, "bytes": asked} for path in sockets]
    attempts += [{"file": str(place)} for place in places]
    for attempt, answer in zip(attempts, strange(root, attempts), strict=True):
        assert answer in ("PermissionError", "FileNotFoundError"), (attempt, answer)
    for path in sockets:
        group = "caisson" in [entry.gr_name for entry in grp.getgrall()] and path.startswith("/run/")
        assert stat.S_IMODE(os.stat(path).st_mode) == (0o660 if group else 0o600)


def test_the_program_gives_a_stranger_nothing_either(root, tmp_path_factory):
    program = shutil.copy(PROGRAM, root.directory / "caisson")
    home = tmp_path_factory.mktemp("home")
    os.chown(home, 65534, 65534)
    for address in (f"http://127.0.0.1:{root.port}", f"unix:{root.state}/caisson.sock"):
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "CAISSON_URL": address}
        for words in (["ls"], ["exec", "-s", "there", "--", "id"], ["rm", "there"], ["cp", "there:file", "-"]):
            done = subprocess.run([*NOBODY, program, *words], env=env, cwd="/", capture_output=True, text=True,
                                  timeout=120, check=False)  # fmt: skip
            assert done.returncode != 0 and done.stdout == "", done
            assert SECRET not in done.stderr
            if address.startswith("http"):
                assert "allowed_users: [65534]" in done.stderr, done.stderr


def test_whoever_is_known_needs_no_token(root, start_daemon):
    assert root.client("GET", "/v1/sessions").status == 200
    allowing = start_daemon("caisson: {allowed_users: [nobody]}\n")
    shutil.copy(root.directory / "stranger.py", allowing.directory)
    for place in (allowing.directory, *allowing.directory.parents):
        if place.stat().st_uid == os.geteuid() and str(place).startswith("/tmp/"):
            place.chmod(0o755)
    (answer,) = strange(allowing, [{"bytes": request(allowing, "GET", "/v1/sessions")}])
    assert status_of(answer) == 200, answer


def test_everybody_on_this_host_is_let_in_only_when_told(root, start_daemon):
    daemon = start_daemon("caisson: {token_required: false}\n")
    shutil.copy(root.directory / "stranger.py", daemon.directory)
    daemon.directory.chmod(0o755)
    (answer,) = strange(daemon, [{"bytes": request(daemon, "GET", "/v1/sessions")}])
    assert status_of(answer) == 200, answer
    assert "every user of this host may speak to the port" in daemon.read_log()


def test_nothing_below_tmp_is_shown_to_boxes_by_itself(root, tmp_path):
    reply = root.client.create("mount", host_path=str(tmp_path))
    assert reply.status in (400, 403) and "allowed_mount_roots" in reply.message, reply


# Refusals are seen.


def test_refusals_are_logged_and_counted(root):
    def counted(status):
        page = root.client("GET", "/metrics").body.decode()
        return int(re.search(rf'^caisson_requests_refused_total{{status="{status}"}} (\d+)$', page, re.M)[1])

    assert counted(421) == counted(429) == 0
    unauthorized, forbidden = counted(401), counted(403)
    odd = "/v1/sessions/%1b[31m?token-like=secret-in-a-query"
    strange(root, [{"bytes": request(root, "GET", odd, CLAIMS["a wrong token"])}])
    reply = root.client("GET", "/v1/sessions", headers={"Host": "evil.example"})
    assert reply.status == 403 and "caisson.allowed_hosts" in reply.message
    assert (counted(401), counted(403)) == (unauthorized + 1, forbidden + 1)


def test_a_refusal_is_one_line_without_secrets(start_daemon, root):
    daemon = start_daemon()
    daemon.directory.chmod(0o755)
    shutil.copy(root.directory / "stranger.py", daemon.directory)
    odd = "/v1/sessions/%1b[31m?key=secret-in-a-query"
    strange(daemon, [{"bytes": request(daemon, "GET", odd, CLAIMS["a wrong token"])}] * 100)
    lines = [line for line in daemon.read_log().splitlines() if "request refused" in line]
    assert 1 <= len(lines) <= 60, "told, and not as often as it happened"
    assert "status=401" in lines[0] and "user=65534" in lines[0] and "peer=127.0.0.1" in lines[0]
    assert "secret-in-a-query" not in daemon.read_log() and "0123456789abcdef" not in daemon.read_log()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", daemon.read_log())
    metrics = daemon.client("GET", "/metrics").body.decode()
    assert 'caisson_requests_refused_total{status="401"} 100\n' in metrics


# Where peers come from.


def test_a_peer_in_another_network_namespace_is_not_taken_for_root(start_daemon):
    """It comes to loopback through NAT and has a uid of 0 over there. All in network namespaces of this test alone."""
    script = r"""
set -e
ip link set lo up
ip link add outer type veth peer name inner
ip addr add 198.51.100.1/24 dev outer
ip link set outer up
sysctl -qw net.ipv4.conf.outer.route_localnet=1
unshare --net sleep 600 &
other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link set inner netns $other
nsenter -t $other --net sh -ec 'ip link set lo up; ip addr add 198.51.100.2/24 dev inner; ip link set inner up'
nft add table ip t
nft 'add chain ip t pre { type nat hook prerouting priority -100; }'
nft 'add chain ip t post { type nat hook input priority 100; }'
nft "add rule ip t pre iifname outer tcp dport 1 dnat to 127.0.0.1:$1"
nft "add rule ip t post iifname outer snat to 127.0.0.1"
trap 'kill $other' EXIT
printf 'GET /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n' > "$2/asked"
nsenter -t $other --net python3 -c '
import socket, sys
with socket.create_connection(("198.51.100.1", 1), timeout=60) as peer:
    peer.sendall(open(sys.argv[1], "rb").read())
    print(peer.recv(65536).decode())
' "$2/asked"
"""
    daemon = start_daemon(prefix=["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"], launch=False)
    daemon.launch()
    daemon.port = int(wait_until(daemon.announced_port, "the port in the log"))
    enter = ["nsenter", "-t", str(daemon.find_pid()), "--net"]
    local = f"import http.client; c = http.client.HTTPConnection('127.0.0.1', {daemon.port}); " \
            "c.request('GET', '/v1/sessions'); print(c.getresponse().status)"  # fmt: skip
    done = subprocess.run([*enter, "python3", "-c", local], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "200\n", "root in the daemon's own"
    done = subprocess.run([*enter, "sh", "-c", script, "sh", str(daemon.port), str(daemon.directory)],
                          capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    assert done.stdout.startswith("HTTP/1.1 401 "), (done.stdout, done.stderr)
    daemon.pid = daemon.find_pid()
    daemon.learn_names()
