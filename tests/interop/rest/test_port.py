"""The port, by raw sockets: who may speak, what is understood, and what is refused how."""

import json
import os
import re
import socket
import stat
import subprocess
import time

import pytest

from .daemon import Client, Daemon, raw, session_path
from .host import wait_until

JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A daemon that everybody can reach, and that therefore wants the token."""
    config = "caisson: {listen: {host: 0.0.0.0}, allowed_hosts: [box.example]}\n"
    daemon = Daemon(tmp_path_factory.mktemp("daemon"), config).start()
    daemon.token = (daemon.state / "token").read_text().strip()
    yield daemon
    daemon.stop()


def request(daemon, head="GET /v1/sessions HTTP/1.1", host=None, headers="", body=b"", close=True, **options):
    """The answer to a request with a head of one's own; host=None is the right one, False is none."""
    text = head + "\r\n"
    if host is not False:
        text += f"Host: {host or f'127.0.0.1:{daemon.port}'}\r\n"
    text += headers + ("Connection: close\r\n" if close else "") + "\r\n"
    return Answer(raw(daemon.port, text.encode("latin-1") + body, **options))


class Answer:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0] else 0
        self.headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        self.data = data

    @property
    def code(self):
        return json.loads(self.body)["error"]["code"]

    def __repr__(self):
        return repr(self.data[:400])


# W1: where it listens.


def listening(daemon):
    """The local addresses of a daemon's listening sockets."""
    inodes = {link[len("socket:[") : -1] for link in daemon.open_files() if link.startswith("socket:")}
    found = []
    for family in ("tcp", "tcp6"):
        with open(f"/proc/{daemon.pid}/net/{family}") as table:
            for line in table.readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.append(fields[1].partition(":")[0])
    return found


def test_the_default_is_loopback_alone(daemon):
    assert listening(daemon) == ["0100007F"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.77"])
def test_a_wider_address_without_a_token_is_refused(start_daemon, host):
    for daemon in (
        start_daemon(f"caisson: {{listen: {{host: '{host}'}}, token_required: false}}\n", launch=False),
        start_daemon("caisson: {token_required: false}\n", launch=False, arguments=["--host", host]),
    ):
        daemon.launch()
        assert daemon.process.wait(60) != 0
        assert "token_required" in daemon.read_log() and host in daemon.read_log()


def test_a_wider_address_wants_the_token(guarded):
    assert listening(guarded) == ["00000000"]
    assert request(guarded).status == 401
    assert request(guarded, headers=f"Authorization: Bearer {guarded.token}\r\n").status == 200


# W2: names of the host.

GOOD_HOSTS = ["127.0.0.1:{p}", "localhost:{p}", "LOCALHOST:{p}", "localhost.:{p}", "[::1]:{p}", "[0:0::1]:{p}"]
# An address means one host whatever a name server says, and the port may be one that is forwarded.
ADDRESSES = ["127.0.0.1", "127.0.0.1:1", "127.0.0.2:{p}", "[::2]:{p}", "0.0.0.0:{p}", "192.0.2.1", "[2001:db8::1]:443"]
BAD_HOSTS = [
    "evil.example", "evil.example:{p}", "localhost.evil.example:{p}", "127.0.0.1.evil.example:{p}",
    "localhost", "localhost:1", "127.0.0.1:{p}.evil.example", "evil.example@127.0.0.1:1",
    "[::1", "::1:{p}", "2130706433:{p}", "0x7f.1:{p}", "127.1:{p}", "localhost:{p}x",
    "localhost:{p}, evil.example", "localhost:0{p}0", "*", "localhost..:{p}", ".localhost:{p}", "", "localhost:",
    "127.0.0.1:{p}/", "127.0.0.1:{p}#", "127.0.0.1\\:{p}", "localhost:-{p}", "xn--localhost:{p}",
]  # fmt: skip
PATHS = ["/v1/sessions", "/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/status", "/nowhere", "/"]


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_names_of_loopback_are_welcome(daemon, host):
    assert request(daemon, host=host.format(p=daemon.port)).status == 200


@pytest.mark.parametrize("host", ADDRESSES)
def test_addresses_need_no_leave(daemon, host):
    assert request(daemon, host=host.format(p=daemon.port)).status == 200


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_foreign_names_are_refused(daemon, host):
    text = f"GET /v1/sessions HTTP/1.1\r\nHost: {host.format(p=daemon.port)}\r\n\r\n"
    answer = Answer(raw(daemon.port, text.encode()))
    assert answer.status in (400, 403, 421), answer


@pytest.mark.parametrize("path", PATHS)
def test_foreign_names_are_refused_on_every_route(daemon, path):
    assert request(daemon, f"GET {path} HTTP/1.1", host="evil.example").status == 403
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    assert request(daemon, f"GET {path} HTTP/1.1", host="evil.example", headers=upgrade, close=False).status == 403


def test_a_request_must_have_one_host(daemon):
    assert request(daemon, host=False).status == 400
    assert request(daemon, headers=f"Host: 127.0.0.1:{daemon.port}\r\n").status == 400
    assert request(daemon, "GET /healthz HTTP/1.0", host=False).status in (400, 403)


def test_a_target_with_an_authority_is_judged_by_it(daemon):
    good, evil = f"http://127.0.0.1:{daemon.port}", "http://evil.example"
    assert request(daemon, f"GET {good}/healthz HTTP/1.1").status == 200
    assert request(daemon, f"GET {evil}/healthz HTTP/1.1").status == 403
    assert request(daemon, f"GET {good}/healthz HTTP/1.1", host="evil.example").status == 403
    assert request(daemon, f"GET {evil}:{daemon.port}/healthz HTTP/1.1").status == 403
    assert request(daemon, f"GET http://evil.example@127.0.0.1:{daemon.port}/healthz HTTP/1.1").status in (200, 400, 403)
    assert request(daemon, f"GET https://127.0.0.1:{daemon.port}/healthz HTTP/1.1").status == 400


def test_names_the_operator_allows_are_welcome(guarded):
    authorization = f"Authorization: Bearer {guarded.token}\r\n"
    assert request(guarded, host=f"box.example:{guarded.port}", headers=authorization).status == 200
    refused = request(guarded, host=f"other.example:{guarded.port}", headers=authorization)
    assert refused.status == 403 and b"caisson.allowed_hosts" in refused.body


# W3, W5, W6: browsers.

BAD_ORIGINS = ["http://evil.example", "null", "https://127.0.0.1:{p}", "http://127.0.0.1", "http://127.0.0.1:1", "file://",
               "http://localhost:{p}.evil.example", "http://localhost:{p}/", "", "http://127.0.0.1:{p} ,http://evil.example",
               "http://evil@127.0.0.1:{p}", "chrome-extension://abc"]  # fmt: skip


@pytest.mark.parametrize("origin", BAD_ORIGINS)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "GET"])
def test_foreign_origins_are_refused(daemon, origin, method):
    headers = f"Origin: {origin.format(p=daemon.port)}\r\n{JSON}Content-Length: 2\r\n"
    answer = request(daemon, f"{method} /v1/sessions/origin HTTP/1.1", headers=headers, body=b"{}")
    assert answer.status == 403, answer
    assert not [header for header in answer.headers if header.startswith("access-control")]
    assert daemon.client.get("origin").status == 404


def test_the_daemons_own_origin_is_welcome(daemon):
    headers = f"Origin: http://127.0.0.1:{daemon.port}\r\n"
    assert request(daemon, headers=headers).status == 200


def test_a_form_of_another_site_has_no_effect(daemon):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        headers = (f"Content-Type: {kind}\r\n" if kind else "") + "Content-Length: 2\r\n"
        answer = request(daemon, "POST /v1/sessions/form HTTP/1.1", headers=headers, body=b"{}")
        assert answer.status == 415, (kind, answer)
    headers = f"{JSON}Sec-Fetch-Site: cross-site\r\nContent-Length: 2\r\n"
    assert request(daemon, "POST /v1/sessions/form HTTP/1.1", headers=headers, body=b"{}").status == 403
    assert daemon.client.get("form").status == 404


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:{p}"])
def test_a_preflight_gets_no_allowance(daemon, origin):
    headers = f"Origin: {origin.format(p=daemon.port)}\r\nAccess-Control-Request-Method: POST\r\n"
    answer = request(daemon, "OPTIONS /v1/sessions/x HTTP/1.1", headers=headers)
    assert answer.status in (403, 405)
    assert not [header for header in answer.headers if header.startswith("access-control")]


# W4: the token.


def test_every_wrong_token_gets_the_same_answer(guarded):
    wrong = ["", "Bearer", "Bearer ", "Bearer x", f"Bearer {guarded.token[:-1]}", f"Bearer {guarded.token}x",
             f"Bearer {guarded.token.upper()}", f"Basic {guarded.token}", guarded.token, f"Bearer {'0' * 64}",
             f"Bearer {guarded.token} {guarded.token}"]  # fmt: skip
    answers = {request(guarded).body}
    for value in wrong:
        answer = request(guarded, headers=f"Authorization: {value}\r\n")
        assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer", value
        answers.add(answer.body)
    assert len(answers) == 1
    twice = f"Authorization: Bearer {guarded.token}\r\n" * 2
    assert request(guarded, headers=twice).status == 401


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/status", "/metrics", "/nowhere", "/v1/sessions/x/exec"])
def test_the_token_guards_every_private_route(guarded, path):
    assert request(guarded, f"GET {path} HTTP/1.1").status == 401
    assert request(guarded, f"POST {path} HTTP/1.1", headers="Content-Length: 0\r\n").status == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/health", "/openapi.json"])
def test_probes_need_no_token(guarded, path):
    assert request(guarded, f"GET {path} HTTP/1.1").status == 200


@pytest.mark.parametrize("name", ["token", "access_token", "Token"])
def test_a_token_in_the_query_is_refused(guarded, name):
    assert request(guarded, f"GET /v1/sessions?{name}={guarded.token} HTTP/1.1").status == 400


def test_the_token_is_a_secret_in_a_file_of_its_own(guarded):
    file = guarded.state / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(set(guarded.token)) > 8 and len(guarded.token) >= 32
    assert guarded.token not in guarded.read_log()
    assert guarded.token not in " ".join(open(f"/proc/{guarded.pid}/environ", errors="replace"))


def test_a_wrong_token_takes_as_long_as_any_other(guarded):
    """Printed rather than judged: what can be judged is the code, and noise is larger."""
    client = Client(guarded.port)
    for label, token in (("first differs", "0" * 64), ("last differs", guarded.token[:-1] + "_")):
        times = []
        for _ in range(200):
            start = time.perf_counter()
            assert client("GET", "/v1/sessions", headers={"Authorization": f"Bearer {token}"}).status == 401
            client.close()
            times.append(time.perf_counter() - start)
        print(f"{label}: median {sorted(times)[100] * 1e6:.0f} us")


# W7, W8: methods, paths, headers.


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "OPTIONS", "PATCH", "PROPFIND", "FOO"])
def test_methods_without_a_use_are_refused(daemon, method):
    answer = request(daemon, f"{method} /v1/sessions HTTP/1.1")
    assert answer.status in (400, 405), answer
    assert b"TRACE" not in answer.body or method == "TRACE"


BAD_PATHS = ["/v1/../etc/passwd", "/v1/sessions/..", "/v1/sessions/%2e%2e", "/v1/sessions/%2E%2e/exec", "/v1/sessions/.",
             "/v1/sessions/a%00b", "/v1\\sessions", "//v1/sessions", "/v1//sessions", "/v1/sessions/%zz", "/v1/sessions/%",
             "/v1/sessions/%2", "/v1/sessions#x", "v1/sessions", "/v1/sessions/ä", "/v1/sessions/a b", "", "*",
             "/V1/sessions", "/v1/sessions/", "/v1%2fsessions", "/%2e%2e/v1/sessions", "/v1/sessions/x/nowhere"]  # fmt: skip


@pytest.mark.parametrize("path", BAD_PATHS)
def test_odd_paths_lead_nowhere(daemon, path):
    assert request(daemon, f"GET {path} HTTP/1.1").status in (400, 404), path


@pytest.mark.parametrize("path", ["/v1/sessions", "/healthz", "/metrics", "/openapi.json", "/nowhere", "/v1/sessions/no"])
def test_every_answer_is_safe_in_a_browser(daemon, path):
    headers = request(daemon, f"GET {path} HTTP/1.1").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_no_answer_can_be_framed_or_tells_where_it_was_read(daemon):
    for path in PATHS:
        headers = request(daemon, f"GET {path} HTTP/1.1").headers
        assert headers.get("referrer-policy") == "no-referrer", path
        assert "frame-ancestors 'none'" in headers.get("content-security-policy", ""), path
        assert "unsafe-inline" not in headers["content-security-policy"], path


# W9: framing.

SMUGGLING = {
    "length and chunked": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "two lengths": "Content-Length: 4\r\nContent-Length: 5\r\n",
    "two equal lengths": "Content-Length: 4\r\nContent-Length: 4\r\n",
    "list of lengths": "Content-Length: 4, 4\r\n",
    "negative length": "Content-Length: -4\r\n",
    "signed length": "Content-Length: +4\r\n",
    "hexadecimal length": "Content-Length: 0x4\r\n",
    "length with text": "Content-Length: 4 x\r\n",
    "empty length": "Content-Length:\r\n",
    "huge length": "Content-Length: 99999999999999999999999\r\n",
    "chunked twice": "Transfer-Encoding: chunked, chunked\r\n",
    "identity": "Transfer-Encoding: identity\r\n",
    "gzip": "Transfer-Encoding: gzip, chunked\r\n",
    "odd chunked": "Transfer-Encoding: xchunked\r\n",
    "two codings": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "fold": "X-Folded: a\r\n b\r\n",
    "bare line feed": "X-Bare: a\nY: b\r\n",
    "bare carriage return": "X-Bare: a\rb\r\n",
    "space before colon": "Content-Length : 4\r\n",
    "space before name": " Content-Length: 4\r\n",
    "no colon": "Content-Length 4\r\n",
    "NUL": "X-Nul: a\0b\r\n",
    "control": "X-Control: a\x01b\r\n",
    "name with a control": "X-\x02: a\r\n",
}


@pytest.mark.parametrize("headers", SMUGGLING.values(), ids=SMUGGLING)
def test_doubtful_framing_is_refused_and_closed(daemon, headers):
    smuggled = f"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n".encode()
    answer = request(daemon, "POST /v1/sessions/framed HTTP/1.1", headers=JSON + headers, body=smuggled, close=False)
    assert answer.status in (400, 413), answer
    assert answer.data.count(b"HTTP/1.1 ") == 1
    assert daemon.client.get("framed").status == 404


@pytest.mark.parametrize(
    "body", [b"x\r\n\r\n", b"-1\r\n", b"1\r\nab\r\n0\r\n\r\n", b"2\nab\n0\n\n", b"ffffffffffffffffff\r\n", b"1;a=\"\n\"\r\nx\r\n0\r\n\r\n",
             b"0x2\r\n{}\r\n0\r\n\r\n", b" 2\r\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n"]
)  # fmt: skip
def test_doubtful_chunks_are_refused_and_closed(daemon, body):
    headers = JSON + "Transfer-Encoding: chunked\r\n"
    follow = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n".encode()
    answer = request(daemon, "POST /v1/sessions/framed HTTP/1.1", headers=headers, body=body + follow, close=False)
    assert answer.status == 400, answer
    assert answer.data.count(b"HTTP/1.1 ") == 1
    assert daemon.client.get("framed").status == 404


BAD_LINES = ["GET /healthz", "GET  /healthz HTTP/1.1", "GET /healthz HTTP/1.2", "GET /healthz HTTP/2.0", "GET /healthz HTTP/0.9",
             "/healthz", "GET /healthz http/1.1", " GET /healthz HTTP/1.1", "G\x01T /healthz HTTP/1.1", "\x16\x03\x01\x02",
             "GET /healthz HTTP/1.1 x", "PRI * HTTP/2.0"]  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES, ids=repr)
def test_a_line_that_is_no_request_is_refused(daemon, line):
    answer = request(daemon, line)
    assert answer.status in (400, 505), answer


def test_requests_on_one_connection_are_answered_in_order(daemon):
    get = "GET {} HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % daemon.port
    data = raw(daemon.port, (get.format("/healthz") + get.format("/nowhere") + get.format("/v1/sessions")).encode()
               + f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nConnection: close\r\n\r\n".encode())  # fmt: skip
    assert re.findall(rb"HTTP/1.1 (\d+)", data) == [b"200", b"404", b"200", b"200"]


# W10, F17, F18, F19: limits.


def test_what_is_too_large_is_refused_before_it_is_read(daemon):
    rss = daemon.rss_kb()
    for path, size in (("/exec", 1 << 30), ("/exec/stream", 1 << 30), ("", (1 << 20) + 1), ("/exec", 2**63)):
        headers = f"{JSON}Content-Length: {size}\r\n"
        answer = request(daemon, f"POST /v1/sessions/large{path} HTTP/1.1", headers=headers, body=b"{" * 1000, close=False)
        assert (answer.status, answer.code) in ((413, "payload_too_large"), (400, "validation_error")), answer
    assert daemon.rss_kb() < rss + 2048
    assert daemon.client.get("large").status == 404


def test_chunks_that_never_end_are_refused_at_the_limit(daemon):
    rss = daemon.rss_kb()
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as caller:
        head = f"POST /v1/sessions/large/exec HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n{JSON}"
        caller.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(1000):
                caller.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            assert b" 413 " in caller.recv(4096)
        except ConnectionResetError:
            pass  # it is closed while we still send: the answer may be lost with it
    wait_until(lambda: daemon.rss_kb() < rss + 40000, "the memory of before")


@pytest.mark.parametrize("filler", ["X: " + "y" * 20000 + "\r\n", "X: y\r\n" * 5000, "Cookie: " + "a=b; " * 5000 + "\r\n"])
def test_a_head_that_is_too_large_is_refused(daemon, filler):
    assert request(daemon, headers=filler).status == 431


def test_a_line_without_an_end_is_refused(daemon):
    answer = Answer(raw(daemon.port, b"GET /" + b"a" * 64000))
    assert answer.status == 431


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"env":' + b"[" * 5000 + b"]" * 5000 + b"}"])
def test_json_that_is_too_deep_is_refused(daemon, body):
    headers = f"{JSON}Content-Length: {len(body)}\r\n"
    answer = request(daemon, "POST /v1/sessions/deep HTTP/1.1", headers=headers, body=body)
    assert (answer.status, answer.code) == (400, "validation_error")


MALFORMED = [b'{"a":', b"{", b"\x00", b"\xff\xff", b'{"cmd": "\xff"}', b'{"cmd": "\\ud800"}', b'{"a": 01}', b"NaN", b'{"a": NaN}',
             b'{"a" 1}', b'{"a": tru}', b'"\\x"', b"{} x", b"\xef\xbb\xbf{}", b"{\"a\": \"\n\"}", b"<xml/>"]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_json_is_told_and_the_connection_goes_on(daemon, body):
    client = Client(daemon.port)
    reply = client("POST", "/v1/sessions/bad/exec", body, {"Content-Type": "application/json"})
    assert (reply.status, reply.code) == (400, "validation_error"), reply
    first = client.connection().sock
    assert client("GET", "/healthz").status == 200
    assert client.connection().sock is first and first is not None
    client.close()


def test_a_fault_in_json_is_told_with_its_place(daemon):
    reply = daemon.client("POST", "/v1/sessions/x/exec", b'{"cmd": tru}', {"Content-Type": "application/json"})
    assert re.search(r"at byte \d+", reply.message)


def test_slow_heads_are_cut(daemon):
    """One byte a second, and silence: both end at the deadline of ten seconds."""
    slow = socket.create_connection(("127.0.0.1", daemon.port), timeout=0.5)
    silent = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
    started, ended = time.monotonic(), None
    for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\n":
        try:
            slow.sendall(bytes([byte]))
            if slow.recv(4096):
                ended = time.monotonic() - started
                break
        except TimeoutError:
            continue
        except OSError:
            ended = time.monotonic() - started
            break
    assert ended is not None and ended > 8, "thirty bytes and more are never read"
    assert silent.recv(4096) == b""
    slow.close(), silent.close()


def test_this_host_is_more_than_one_peer(daemon):
    """What one address of another host may have is no limit for programs of this one."""
    wait_until(lambda: daemon.client.metric("connections") < 5, "quiet")
    idle = [socket.create_connection(("127.0.0.1", daemon.port), timeout=10) for _ in range(520)]
    try:
        wait_until(lambda: daemon.client.metric("connections") > 520, "all of them")
        assert daemon.client("GET", "/healthz").status == 200
    finally:
        for connection in idle:
            connection.close()
    wait_until(lambda: daemon.client.metric("connections") < 5, "the connections gone")


# W11, W12: boxes and the port.


def test_there_is_no_abstract_socket(daemon):
    def abstract():
        with open(f"/proc/{daemon.pid}/net/unix") as table:
            return {line.split()[6]: line.split()[7] for line in table if len(line.split()) == 8 and "@" in line.split()[7]}

    own = daemon.open_files()
    assert not [name for inode, name in abstract().items() if f"socket:[{inode}]" in own]


def own_addresses():
    shown = json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, text=True, check=True).stdout)
    return [info["local"] for link in shown for info in link.get("addr_info", []) if info["scope"] != "link"]


REACH = """
import socket, sys
for address in sys.argv[2:]:
    try:
        socket.create_connection((address, int(sys.argv[1])), 1).close()
        print("REACHED", address)
    except OSError as error:
        print("refused", address)
"""


@pytest.mark.parametrize("network", ["off", "on"])
def test_a_box_cannot_reach_the_daemon(guarded, daemon, network):
    name = f"reach-{network}"
    authorization = {"Authorization": f"Bearer {guarded.token}"}
    client = Client(guarded.port, headers=authorization)
    gateway = "$(ip route 2>/dev/null | sed -n 's/default via \\([^ ]*\\).*/\\1/p')"
    addresses = " ".join([*own_addresses(), "127.0.0.1", "::1", "0.0.0.0", "localhost"])
    for port in (guarded.port, daemon.port):
        cmd = f"cat > /tmp/reach.py; python3 /tmp/reach.py {port} {addresses} {gateway}"
        output = client.output(name, cmd, stdin=REACH, network=network, timeout_sec=60)
        assert "REACHED" not in output and output.count("refused") >= 5, output
    client.delete(name)


def test_a_box_sees_nothing_of_the_state(guarded):
    client = Client(guarded.port, headers={"Authorization": f"Bearer {guarded.token}"})
    cmd = f"cat {guarded.state}/token; ls {guarded.state}; cat /proc/1/environ; ls /proc/1/fd; env; mount"
    result = client.run("state", cmd)
    assert guarded.token not in json.dumps(result) and str(guarded.state) not in result["stdout"]
    client.delete("state")


# W17, W18: no shell, and quiet logs.


@pytest.mark.parametrize("odd", ["; touch /tmp/owned", "$(touch /tmp/owned)", "`touch /tmp/owned`", "a\nb", "-rf", "'\"", "|x"])
def test_odd_texts_stay_data(daemon, client, odd):
    client.delete(odd)
    assert client.output(odd, "pwd", workdir=f"/workspace/{odd}", env={"ODD": odd}) == f"/workspace/{odd}".strip()
    assert client.output(odd, "printf %s \"$ODD\"", env={"ODD": odd}) == odd.strip()
    assert client.run(odd, "test -e /tmp/owned")["exit_code"] == 1
    assert client.put_file(odd, f"/tmp/{odd.replace('/', '_')}", b"x").status == 200
    client.delete(odd)
    assert not os.path.exists("/tmp/owned")


def test_a_log_has_no_secrets_and_no_control_characters(start_daemon):
    daemon = start_daemon("caisson: {log_level: debug}\n")
    client = daemon.client
    names = ["\x1b[31mred\x1b[0m", "two\nlines info fake=1", "\x07bell", "x" * 5000, "\u202egnp", 'quote" =x']
    for name in names:
        client.run(name, "echo $SECRET", env={"SECRET": "env-secret-value"}, stdin="stdin-secret-value")
        client("GET", session_path(name), headers={"Authorization": "Bearer token-secret-value"})
        client.delete(name)
    raw(daemon.port, b"GET /\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n")
    raw(daemon.port, b"GET /a?token=query-secret-value HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % daemon.port)
    log = daemon.log.read_bytes()
    assert b"secret-value" not in log
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", log)
    assert all(line.startswith(b"20") for line in log.splitlines())
    assert max(map(len, log.splitlines())) < 4000


def test_errors_show_names_without_control_characters(client):
    for name in ("\x1b[31mred", "a\nb", "\x9b31m", "a\x7f"):
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", client.get(name).message), name
