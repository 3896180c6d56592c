"""Judges the daemon as a runtime of LangBot, with the fixtures of rest/."""

import json

import pytest

from rest.conftest import able_host, name, pytest_runtest_makereport, start_daemon  # noqa: F401
from rest.daemon import Daemon
from rest.host import adopt_orphans

from .rpc import Rpc


def pytest_configure(config):
    adopt_orphans()
    config.addinivalue_line("markers", "slow: takes more than a few seconds")


# Any host may say which directories boxes may show, as LangBot expects it.
OPEN = {"caisson": {"langbot": {"accept_mount_roots": True}}}


def settings(root, **box):
    """The configuration of a daemon whose boxes may see what is below the directory."""
    local = {"host_root": str(root), "allowed_mount_roots": [str(root)]}
    return json.dumps({"box": {"limits": {"max_sessions": 1000}, "local": local, **box}, **OPEN})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """One for all tests of a file that break nothing. At the end it stops and leaves nothing."""
    directory = tmp_path_factory.mktemp("daemon")
    (directory / "box").mkdir()
    with Daemon(directory, settings(directory / "box")) as daemon:
        daemon.root = directory / "box"
        yield daemon


@pytest.fixture
def place(daemon, name):
    """A directory that boxes may show, of no other test."""
    place = daemon.root / name
    place.mkdir()
    return place


@pytest.fixture
def rpc(daemon):
    with Rpc(daemon.port) as connection:
        yield connection


@pytest.fixture
def tenant(rpc, name):
    """A workspace of no other test, whose sessions end with the test."""
    tenant = rpc.tenant(name)
    yield tenant
    tenant.clear()


@pytest.fixture
def legacy(daemon):
    """As hosts before 0.5: without headers and contexts."""
    with Rpc(daemon.port, instance=None) as connection:
        yield connection
