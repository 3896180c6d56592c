"""What takes long when it is to prove something. The fixtures are those of rest/; `./test endurance` runs it in full."""

import os
import random

import pytest

from rest.conftest import able_host, pytest_configure, pytest_runtest_makereport, start_daemon  # noqa: F401


@pytest.fixture
def seed():
    """$CAISSON_SEED repeats the choices of an earlier run."""
    seed = int(os.environ.get("CAISSON_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"CAISSON_SEED={seed}")
    return seed
