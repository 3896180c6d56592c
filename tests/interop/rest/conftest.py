"""Judges the daemon from outside: real sockets, real faults. $CAISSON, or build/caisson of this tree."""

import os

import pytest

from .daemon import PROGRAM, Daemon
from .host import adopt_orphans

ROOM = "box: {limits: {max_sessions: 1000}}\n"


def pytest_configure():
    adopt_orphans()


@pytest.fixture(scope="session", autouse=True)
def able_host():
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} does not exist: build it, or name another with CAISSON")
    if os.geteuid() != 0:
        pytest.skip("these tests inject faults that only root can")


def has_failed(request):
    return any(report.failed for report in getattr(request.node, "reports", []))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    item.reports = [*getattr(item, "reports", []), report]
    if report.failed and (daemons := getattr(item, "daemons", None)):
        for daemon in daemons:
            report.sections.append((f"log of {daemon.directory}", daemon.read_log()[-4000:]))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """One for all tests of a file that break nothing. At the end it stops and leaves nothing."""
    with Daemon(tmp_path_factory.mktemp("daemon"), ROOM) as daemon:
        yield daemon


@pytest.fixture
def client(daemon):
    yield daemon.client
    daemon.client.close()


@pytest.fixture
def start_daemon(tmp_path_factory, request):
    """Makes daemons for one test. Those that still run at its end must stop and leave nothing."""
    daemons = request.node.daemons = []

    def start(config="", launch=True, **options):
        daemon = Daemon(tmp_path_factory.mktemp("daemon"), config, **options)
        daemons.append(daemon)
        return daemon.start() if launch else daemon

    yield start
    try:
        if not has_failed(request):
            for daemon in daemons:
                if daemon.process and daemon.process.poll() is None:
                    daemon.stop()
    finally:
        for daemon in daemons:
            daemon.end()


@pytest.fixture
def name(request):
    """Of a session, and of no other test's."""
    return request.node.name[:100]
