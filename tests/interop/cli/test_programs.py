"""The programs people run in boxes."""

import os
import shutil
import subprocess
import sys

import pytest


def needs(program):
    # A program below the home directory of the caller is not in a box.
    found = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
    if not found:
        pytest.skip(f"{program} is not installed")


def test_python_runs(caisson):
    needs("python3")
    code = "import ssl, sqlite3, ctypes, threading, multiprocessing; print(6 * 7)"
    done = caisson.exec("python3", "-c", code)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_node_runs(caisson):
    needs("node")
    code = "setTimeout(() => console.log(6 * 7), 1)"
    done = caisson.exec("node", "-e", code)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_git_makes_a_commit_in_a_workspace(caisson, tmp_path):
    needs("git")
    script = """
        git init -q . && echo hello > file && git add file &&
        git -c user.name=me -c user.email=me@example.com commit -q -m first && git log --format=%s
    """
    done = caisson.sh(script, "--workspace", tmp_path)
    assert (done.returncode, done.stdout) == (0, "first\n"), done.stderr
    assert (tmp_path / ".git" / "HEAD").exists()


def test_gcc_makes_a_program_that_runs(caisson):
    needs("gcc")
    script = """
        printf '#include <stdio.h>\\nint main(void) { puts("made here"); }\\n' > a.c &&
        gcc -O1 -o a a.c && ./a
    """
    done = caisson.sh(script)
    assert (done.returncode, done.stdout) == (0, "made here\n"), done.stderr


def test_pip_installs_from_the_network(caisson, tmp_path):
    needs("python3")
    # What the host cannot do no box can: then the reason is the network's, not ours.
    pip = [sys.executable, "-m", "pip", "--no-cache-dir", "--retries", "1", "download", "--no-deps"]
    host = subprocess.run(
        [*pip, "-d", tmp_path, "six"], text=True, capture_output=True, check=False, timeout=300
    )
    if host.returncode != 0:
        reason = (host.stderr or host.stdout).strip().splitlines()[-1]
        pytest.skip(f"no package registry can be reached from here: {reason}")
    options = ["--network", "on"]
    for name in os.environ:
        if name.startswith("PIP_") and name != "PIP_FIND_LINKS":  # a directory of the host
            options += ["-e", name]
    script = """
        python3 -m pip install -q --no-cache-dir --target /tmp/lib six &&
        PYTHONPATH=/tmp/lib python3 -c 'import six; print(six.__file__)'
    """
    done = caisson.sh(script, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "/tmp/lib/six.py\n"
