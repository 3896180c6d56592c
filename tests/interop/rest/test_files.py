"""Files in and out of a session, while the payload does its worst. No byte of the host ever comes out."""

import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from .daemon import Client, session_path
from .host import wait_until


@pytest.fixture
def session(client, name):
    client.create(name)
    yield name
    client.delete(name)


@pytest.fixture
def shown(tmp_path):
    """A directory of the host that a box may write to, next to one that it may not see."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown").chmod(0o777)
    (tmp_path / "secret").write_text("HOST SECRET")
    return tmp_path / "shown"


def directory(client, name, path):
    return client("GET", f"{session_path(name)}/directory?path={quote(path, safe='')}")


def remove(client, name, path):
    return client("DELETE", f"{session_path(name)}/files?path={quote(path, safe='')}")


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_001])
def test_a_file_comes_out_as_it_went_in(client, session, size):
    content = os.urandom(size)
    assert client.put_file(session, "file", content).json == {"path": "file", "size": size}
    assert client.get_file(session, "/workspace/file").body == content
    assert client.output(session, "wc -c < file") == str(size)


def test_a_file_that_is_not_there_is_not_found(client, session):
    for reply in (client.get_file(session, "none"), remove(client, session, "none"), directory(client, session, "none")):
        assert (reply.status, reply.code) == (404, "not_found"), reply
        assert "none" in reply.message


LINKS = {
    "link": "ln -s {target} link",
    "linked directory": "ln -s {parent} dir; ln -s dir/{name} link",
    "proc": "ln -s /proc/1/root{target} link",
    "own proc": "ln -s /proc/self/root{target} link",
    "climbing": "ln -s ../../../../../..{target} link",
}


@pytest.mark.parametrize("make", LINKS.values(), ids=LINKS)
def test_a_link_never_leads_to_the_host(daemon, client, name, shown, make):
    secret = shown.parent / "secret"
    spec = {"host_path": str(shown)}
    client.run(name, make.format(target=secret, parent=secret.parent, name="secret"), **spec)
    reply = client.get_file(name, "link")
    assert reply.status in (400, 403, 404) and b"HOST SECRET" not in reply.body, reply
    client.put_file(name, "link", b"owned")
    assert secret.read_text() == "HOST SECRET"
    remove(client, name, "link")
    assert secret.exists()
    client.delete(name)


@pytest.mark.parametrize("path", ["/proc/1/environ", "/proc/1/root/etc/shadow", "/dev/zero", "/dev/tty", "/"])
def test_special_places_are_no_files(client, session, path):
    reply = client.get_file(session, path)
    assert reply.status in (400, 403, 404, 413), reply


def test_a_fifo_and_a_directory_do_not_hold_up(client, session):
    client.output(session, "mkfifo fifo; mkdir dir")
    for path in ("fifo", "dir"):
        assert client.get_file(session, path).status == 400, path
    assert client.put_file(session, "dir", b"x").status in (400, 403)


def test_a_directory_that_is_swapped_meanwhile_shows_nothing_of_the_host(daemon, client, name, shown):
    """The payload swaps a directory for a link to the host's while files are read through it."""
    secret = shown.parent / "secret"
    spec = {"host_path": str(shown)}
    client.output(name, "mkdir a; echo inside > a/secret", **spec)
    swap = f"while [ ! -e /tmp/stop ]; do mv a b; ln -s {secret.parent} a; rm a; mv b a; done"
    swapper = Client(daemon.port)
    swapper.send("POST", session_path(name) + "/exec", {"cmd": swap, **spec})
    statuses = {}

    def read(_):
        own = Client(daemon.port)
        for _ in range(125):
            reply = own.get_file(name, "a/secret")
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
            assert reply.body == b"inside\n" or reply.status in (400, 403, 404), reply
        own.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    client.put_file(name, "/tmp/stop", b"")
    assert swapper.receive().status == 200
    print(f"500 reads through a directory that is swapped: {statuses}")
    assert secret.read_text() == "HOST SECRET"
    client.delete(name)


def test_writes_and_removals_through_a_swapped_directory_touch_nothing_outside(daemon, client, name, shown):
    victim = shown.parent / "victim"
    victim.mkdir()
    (victim / "file").write_text("HOST FILE")
    spec = {"host_path": str(shown)}
    client.output(name, "mkdir a; echo inside > a/file", **spec)
    swap = f"while [ ! -e /tmp/stop ]; do mv a b; ln -s {victim} a; rm a; mv b a; done"
    swapper = Client(daemon.port)
    swapper.send("POST", session_path(name) + "/exec", {"cmd": swap, **spec})
    for number in range(100):
        client.put_file(name, f"a/{number % 5}", b"x")
        remove(client, name, f"a/{(number + 2) % 5}")
        remove(client, name, "a/file")
        client.put_file(name, "a/file", b"x")
    client.put_file(name, "/tmp/stop", b"")
    assert swapper.receive().status == 200
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"file": "HOST FILE"}
    client.delete(name)


# W16: where mounts come from.


@pytest.mark.parametrize("target", ["/", "/etc", "/proc", "/run", "/root", "/sys", "/dev"])
def test_a_link_as_mount_source_is_judged_by_its_target(client, name, shown, target):
    link = shown.parent / "link"
    link.symlink_to(target)
    reply = client.create(name, host_path=str(link))
    assert (reply.status, reply.code) == (403, "mount_refused"), reply
    assert client.get(name).status == 404


def test_the_state_directory_is_never_shown(daemon, client, name):
    for path in (daemon.state, daemon.state / "token", daemon.directory):
        for spec in ({"host_path": str(path)}, {"extra_mounts": [{"host_path": str(path), "mount_path": "/x"}]}):
            reply = client.create(name, **spec)
            assert (reply.status, reply.code) == (403, "mount_refused"), (path, reply)


SWAP = """
import os, sys
source, good = sys.argv[1:]
while True:
    for target in ("/etc", good):
        os.symlink(target, source + ".new")
        os.rename(source + ".new", source)
"""


def test_a_source_that_is_swapped_meanwhile_shows_nothing_it_may_not(daemon, client, name, shown):
    """Between the check and the mount the source becomes a link to the host's secrets."""
    source, good = shown / "source", shown / "good"
    good.mkdir()
    (good / "file").write_text("good")
    source.symlink_to(good)
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, source, good])
    outcomes = {200: 0, 403: 0}
    try:
        deadline = time.monotonic() + 20
        while sum(outcomes.values()) < 200 or (min(outcomes.values()) == 0 and time.monotonic() < deadline):
            reply = client.exec(name, "cat file; ls", host_path=str(source), host_path_mode="ro", mount_path="/m")
            outcomes[reply.status] += 1
            if reply.status == 200:
                assert reply.json["stdout"] == "goodfile", reply
                client.delete(name)
            else:
                assert "blocked for security" in reply.message, reply
    finally:
        swapper.kill()
        swapper.wait()
    print(f"boxes of a source that is swapped: {outcomes}")
    assert all(outcomes.values())


def test_an_upload_that_is_cut_leaves_the_old_file(daemon, client, session):
    client.put_file(session, "file", b"old")
    with socket.create_connection(("127.0.0.1", daemon.port)) as caller:
        head = f"PUT {session_path(session)}/files?path=file HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        caller.sendall(head.encode() + b"Content-Length: 1000000\r\n\r\n" + b"x" * 300_000)
        wait_until(lambda: client.metric("connections_busy") > 1, "the upload")
    wait_until(lambda: client.output(session, "ls -A") == "file", "the half file gone")
    assert client.get_file(session, "file").body == b"old"


def test_an_upload_into_a_session_that_is_deleted_is_told_so(daemon, client, name):
    client.create(name)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=20) as caller:
        head = f"PUT {session_path(name)}/files?path=file HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        caller.sendall(head.encode() + b"Content-Length: 1000\r\n\r\n" + b"x" * 500)
        wait_until(lambda: client.metric("connections_busy") > 1, "the upload")
        assert client.delete(name).status == 200
        caller.sendall(b"x" * 500)
        answer = caller.recv(65536)
    assert answer.startswith(b"HTTP/1.1 404 ") and b'"session_not_found"' in answer, answer


def test_a_full_workspace_is_told_as_such(daemon, client, session):
    size = 300 << 20
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as caller:
        head = f"PUT {session_path(session)}/files?path=file HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        caller.sendall(head.encode() + f"Content-Length: {size}\r\n\r\n".encode())
        try:
            for _ in range(size // 65536):
                caller.sendall(b"x" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is refused before its end
        answer = caller.recv(65536)
    assert answer.startswith(b"HTTP/1.1 507 ") and b'"storage_full"' in answer, answer
    assert client.output(session, "ls -A") == ""


def test_a_file_of_the_kernel_is_not_shown_as_empty(client, session):
    reply = client.get_file(session, "/proc/meminfo")
    assert reply.status != 200 or b"MemTotal" in reply.body, reply


def test_a_listing_tells_names_kinds_and_sizes(client, session):
    client.output(session, "mkdir dir; printf 12345 > 'fi le'; ln -s x link; mkfifo fifo; touch \"$(printf 'bad\\377')\"")
    entries = {entry["name"]: (entry["type"], entry["size"]) for entry in directory(client, session, ".").json["entries"]}
    assert entries["fi le"] == ("file", 5)
    assert (entries["dir"][0], entries["link"][0], entries["fifo"][0]) == ("directory", "link", "other")
    assert "bad\ufffd" in entries
