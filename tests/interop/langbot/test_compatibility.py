"""Released SDKs of LangBot against the daemon and against the runtimes that they bring along."""

import functools
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import page
from .runtimes import HERE, TRANSPORTS, VERSIONS, Engine, interpreter, try_caisson, try_own

FOUND = {}  # by runtime, version and transport

pytestmark = pytest.mark.slow


@functools.cache
def basis():
    """What findings about a pinned SDK depend on."""
    digest = hashlib.sha256(Engine.digest().encode())
    for path in (*sorted(HERE.glob("capabilities/*")), HERE / "driver.py", HERE / "host.py", HERE / "runtimes.py"):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def try_own_once(version, transport, directory):
    """An SDK that is pinned does not change: what was found is kept beside it, until scripts or engine change."""
    kept = Path(interpreter(version)).parents[1] / f"own-{transport}.json"
    if kept.exists() and (old := json.loads(kept.read_text())).get("basis") == basis():
        return old["found"]
    # With an engine of its own: at its start, each of these runtimes removes what others have in theirs.
    with Engine() as engine:
        found = try_own(engine, version, transport, directory)[0]["found"]
    kept.write_text(json.dumps({"basis": basis(), "found": found}))
    return found


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """What the SDKs' own runtimes are capable of, found beside the tests of the daemon, where the page is written."""
    if not page.is_written():
        yield {}
        return
    assert Engine.installed(), "there is no Docker for the runtimes of the SDKs: run ./test compatibility"
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {
            (version, transport): pool.submit(
                try_own_once, version, transport, tmp_path_factory.mktemp(f"{version}-{transport}")
            )
            for version in VERSIONS
            for transport in TRANSPORTS
        }


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_sdk_finds_every_capability(own, start_daemon, tmp_path_factory, version, transport):
    directory = tmp_path_factory.mktemp(f"{version}-{transport}")
    result, told = try_caisson(start_daemon, version, transport, directory)
    found = FOUND["caisson", version, transport] = result["found"]
    failed = {name: one["reason"] for name, one in found.items() if one["result"] == "failed"}
    assert failed == {}, told[-8000:]
    assert not result["untried"], f"SDK {version} declares what no capability makes use of: {result['untried']}"


def test_the_page_tells_what_was_found(own):
    if len(FOUND) < len(VERSIONS) * len(TRANSPORTS):
        pytest.skip("not every SDK was tried")
    for (version, transport), future in own.items():
        FOUND["own", version, transport] = future.result()
    page.check(FOUND)
