"""Which daemon the program talks to when there are several, and whose the common socket is."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

LIMIT = 60
UNSAID = {"CAISSON_URL": "", "CAISSON_TOKEN": ""}


def ask(caisson, state, *words):
    """Without an address: the state directory says which daemon is meant."""
    return caisson(*words, env={**UNSAID, "CAISSON_STATE": str(state)})


def test_a_state_directory_names_its_daemon(caisson, daemons):
    for number, daemon in enumerate(daemons):
        daemon.exec(f"session-{number}", "true")
    for number, daemon in enumerate(daemons):
        assert ask(caisson, daemon.state, "ls", "-q").stdout == f"session-{number}\n"
        done = caisson("ls", "-q", "--state", str(daemon.state), env=UNSAID)
        assert done.stdout == f"session-{number}\n"


def test_a_daemon_that_is_gone_is_not_mistaken_for_another(caisson, daemons):
    first, second = daemons
    second.exec("theirs", "true")
    first.kill()
    for _ in range(2):
        done = ask(caisson, first.state, "rm", "theirs")
        assert done.returncode == 125 and f"no daemon at unix:{first.state}/caisson.sock" in done.stderr
    assert second.names() == ["theirs"]
    first.start()  # and takes the socket that it left
    assert ask(caisson, first.state, "ls", "-q").returncode == 0


def test_a_socket_needs_no_token_whatever_the_port_asks(caisson, tmp_path):
    env = dict(caisson.env, CAISSON__TOKEN_REQUIRED="true", CAISSON__LOG_FORMAT="json")
    with subprocess.Popen(
        [caisson.path, "serve", "--state", tmp_path / "state", "--port", "0"],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            port = next(found[1] for line in process.stderr if (found := re.search(rb'"port":(\d+)', line)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            assert ask(caisson, tmp_path / "state", "ls").returncode == 0
            url = {"CAISSON_URL": f"http://127.0.0.1:{int(port)}", "CAISSON_TOKEN": ""}
            assert caisson("ls", env={**url, "CAISSON_STATE": str(tmp_path / "none")}).returncode == 125
            assert caisson("ls", env={**url, "CAISSON_STATE": str(tmp_path / "state")}).returncode == 0
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user, whose runtime directory is of this test alone")
def test_the_common_socket_stays_with_the_daemon_that_came_first(caisson, tmp_path_factory):
    directory = tmp_path_factory.mktemp("common")
    for place in (directory, directory.parent, directory.parent.parent):
        place.chmod(0o755)
    program = shutil.copy(caisson.path, directory)
    for name in ("home", "run", "first", "second"):
        (directory / name).mkdir()
        os.chown(directory / name, 65534, 65534)
    env = {"PATH": os.environ["PATH"], "HOME": str(directory / "home"), "XDG_RUNTIME_DIR": str(directory / "run")}
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    common = directory / "run" / "caisson" / "caisson.sock"

    def serve(name):
        file = directory / f"{name}.{time.monotonic_ns()}.log"
        command = [*user, program, "serve", "--port", "0", "--state", directory / name / "state"]
        with open(file, "wb") as log:
            process = subprocess.Popen(command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while b"listening" not in (text := file.read_bytes()):
            assert process.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.05)
        return process, text.decode()

    def stop(process, number):
        process.send_signal(number)
        process.wait(LIMIT)

    def sessions():
        """Of whoever has the common socket."""
        command = [*user, program, "ls", "--json"]
        return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=True).stdout

    first, told = serve("first")
    assert str(common) in told
    inode = common.stat().st_ino
    second, told = serve("second")
    try:
        assert "does without a socket" in told and f"socket={common} " in told
        assert str(directory / "second" / "state" / "caisson.sock") in told
        assert common.stat().st_ino == inode and oct(common.stat().st_mode)[-3:] == "600"
        assert sessions()
        stop(first, signal.SIGKILL)
        first, told = serve("first")
        assert str(common) in told and "does without" not in told, "a stale one is replaced"
        assert sessions()
    finally:
        stop(first, signal.SIGTERM)
        stop(second, signal.SIGTERM)
    assert not common.exists()
