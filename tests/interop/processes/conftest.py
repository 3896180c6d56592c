"""Judges managed processes and the relay from outside, with the fixtures of rest/."""

import pytest

from rest.conftest import (  # noqa: F401
    able_host,
    client,
    daemon,
    name,
    pytest_configure,
    pytest_runtest_makereport,
    start_daemon,
)
from rest.daemon import ROOT


@pytest.fixture(scope="session")
def node_modules():
    """What ./test installs from npm."""
    place = ROOT / ".npm" / "node_modules"
    if not place.exists():
        pytest.fail(f"{place} does not exist: ./test installs it from tests/interop/npm")
    return place
