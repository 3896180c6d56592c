"""Released SDKs of LangBot against the daemon and against the runtimes that they bring along."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import page
from .runtimes import HERE, TRANSPORTS, VERSIONS, Engine, RuntimeEnded, interpreter, try_caisson, try_own

GROUPS = ("ordinary", "admission")
FOUND = {}  # by runtime, version and transport

pytestmark = pytest.mark.slow


def scripts():
    """What findings about a pinned SDK depend on."""
    digest = hashlib.sha256()
    for path in (*sorted(HERE.glob("capabilities/*")), HERE / "driver.py", HERE / "host.py", HERE / "runtimes.py"):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def directory(tmp_path_factory, version, transport):
    place = tmp_path_factory.mktemp(f"{version}-{transport}")
    (place / "box").mkdir()
    return place


def try_own_once(version, transport, place):
    """An SDK that is pinned does not change: what was found is kept beside it, until the scripts change."""
    kept = Path(interpreter(version)).parents[1] / f"own-{transport}.json"
    if kept.exists() and (old := json.loads(kept.read_text()))["scripts"] == scripts():
        return old["found"]
    found = {}
    # With an engine of its own: at its start, each of these runtimes removes what others have in theirs.
    with Engine() as engine:
        for group in GROUPS:
            found |= try_own(engine, version, transport, place, group)[0]
    kept.write_text(json.dumps({"scripts": scripts(), "found": found}))
    return found


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """What the SDKs' own runtimes are capable of, found beside the tests of the daemon."""
    if not Engine.installed():
        yield None
        return
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {
            (version, transport): pool.submit(
                try_own_once, version, transport, directory(tmp_path_factory, version, transport)
            )
            for version in VERSIONS
            for transport in TRANSPORTS
        }


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_sdk_finds_every_capability(own, start_daemon, tmp_path_factory, version, transport):
    found, told = {}, ""
    for group in GROUPS:
        place = directory(tmp_path_factory, version, transport)
        more, log = try_caisson(start_daemon, version, transport, place, group)
        found |= more
        told += log
    FOUND["caisson", version, transport] = found
    failed = {name: one["reason"] for name, one in found.items() if one["result"] == "failed"}
    assert failed == {}, told[-8000:]


def test_the_page_tells_what_was_found(own):
    if own is None:
        pytest.skip("there is no Docker for the runtimes of the SDKs")
    if len(FOUND) < len(VERSIONS) * len(TRANSPORTS):
        pytest.skip("not every SDK was tried")
    for (version, transport), future in own.items():
        failure = future.exception()
        assert not isinstance(failure, RuntimeEnded), f"the runtime of SDK {version} does not start: {failure}"
        if failure:
            pytest.skip(f"the runtime of SDK {version} could not be tried: {failure}")
        FOUND["own", version, transport] = future.result()
    page.check(FOUND)
