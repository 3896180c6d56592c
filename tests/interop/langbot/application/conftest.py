"""One LangBot for all tests, of each release and with each way to its Box runtime."""

import contextlib
import os

import pytest

from .agent import Chat, LocalAgent, PluggedAgent
from .application import VERSIONS
from .boxes import Beside, StartedByLangBot, is_old, sessions
from .model import Model

WAYS = {"stdio": StartedByLangBot, "websocket": Beside}
# A start of LangBot takes a minute: `./test applications` tries all of them, `./test` the first.
PAIRS = [(version, way) for version in VERSIONS for way in WAYS]
if os.environ.get("CAISSON_APPLICATIONS") != "all":
    PAIRS = PAIRS[:1]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed and (box := item.funcargs.get("box")):
        report.sections.append(("log of LangBot", box.langbot.read_log()[-8000:]))
        report.sections.append(("log of the daemon", box.read_log()[-4000:]))


@pytest.fixture(scope="package", params=PAIRS, ids="-".join)
def box(request, tmp_path_factory):
    """The daemon. When LangBot has ended, it ends and leaves nothing."""
    version, way = request.param
    directory = tmp_path_factory.mktemp("application")
    box = WAYS[way](directory, version, directory / "langbot")
    box.version = version
    try:
        try:
            box.langbot.start()
            box.find()
            yield box
        finally:
            box.langbot.stop()
        box.ended()
    finally:
        box.end()


@pytest.fixture(scope="package")
def langbot(box):
    return box.langbot


@pytest.fixture(scope="package")
def agent(box):
    """What calls the tools of LangBot that a test names."""
    with contextlib.ExitStack() as stack:
        yield LocalAgent(box.langbot, stack.enter_context(Model())) if is_old(box) else PluggedAgent(box.langbot)


@pytest.fixture
def chat(agent, box, name):
    """A conversation, and a box, of this test alone."""
    before = sessions(box)
    with Chat(agent, name) as chat:
        yield chat
    for session in sessions(box) - before:
        if not session.endswith("-mcp-shared"):
            box.client.delete(session)
