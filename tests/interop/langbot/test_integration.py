"""LangBot's own integration scenario through its client, against the daemon."""

import pytest

from .runtimes import TRANSPORTS, VERSIONS, make_tree, try_caisson


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """What the scenario's image is made of."""
    tree = tmp_path_factory.mktemp("image") / "tree"
    make_tree(tree)
    return tree


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_scenario_passes(start_daemon, tree, tmp_path, version, transport):
    images = {"alpine:latest": tree}
    result, told = try_caisson(start_daemon, version, transport, tmp_path, ["seed"], images)
    found = result["found"]
    assert len(found) == 6
    assert {name: one.get("reason", one["result"]) for name, one in found.items()} == dict.fromkeys(found, "ok"), told
