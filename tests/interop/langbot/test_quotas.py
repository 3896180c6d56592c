"""A managed deployment that waives nothing: the kernel bounds what workspaces and their skills store."""

import json
import os
import subprocess

import pytest

from rest.daemon import Daemon

from .conftest import settings
from .rpc import Rpc, namespace
from .test_admission import UPSERT, grant

MEGABYTES, ENTRIES = 64, 500
FILL = "dd if=/dev/zero of=/workspace/big bs=64k 2>&1 | head -1; stat -c %s /workspace/big; rm /workspace/big"
TOUCH = 'i=0; while touch "/workspace/f$i" 2>&1; do i=$((i + 1)); done; echo "$i"; rm -f /workspace/f*'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


def mounts_below(directory):
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        return [line.split()[1] for line in mounts if line.split()[1].startswith(f"{directory}/")]


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Strict, as docs/langbot.md describes it. What it mounted is gone at the end."""
    directory = tmp_path_factory.mktemp("strict")
    box = directory / "box"
    (box / "default").mkdir(parents=True)
    config = settings(
        box,
        backend="nsjail",
        native={"answer_as": "nsjail"},
        limits={"max_workspace_entries": ENTRIES},
        admission={"required": True, "workspace_quota_mb": MEGABYTES},
    )
    with Daemon(directory, config) as daemon:
        daemon.root = box
        yield daemon
        # They outlive the daemon, as they should.
        for place in mounts_below(directory):
            subprocess.run(["umount", place], check=True)


@pytest.fixture
def admitted(strict, name):
    with Rpc(strict.port) as rpc:
        rpc.ok(UPSERT, grant(name))
        yield rpc.tenant(name)


def run(tenant, command, **more):
    return tenant.ok("box_exec", session_id="global", cmd=command, **more)


def test_everything_is_ready_and_nothing_waived(strict):
    with Rpc(strict.port) as rpc:
        report = rpc.ok("box_health")
        assert report["ready"] and all(report["checks"].values()), report
        assert report["unsafe_soft_storage_limits"] is False
        assert rpc.ok("box_get_backend_info")["name"] == "nsjail"


def test_a_workspace_holds_its_bytes_and_no_more(strict, admitted):
    before = os.statvfs(strict.root)
    result = run(admitted, FILL)
    error, size = result["stdout"].splitlines()
    assert "No space left on device" in error or "Disk quota exceeded" in error, result
    assert abs(int(size) - MEGABYTES * 1048576) <= MEGABYTES * 1048576 // 100, result
    after = os.statvfs(strict.root)
    assert (before.f_bavail - after.f_bavail) * after.f_frsize < 4 * MEGABYTES * 1048576
    assert run(admitted, "echo again > /workspace/x && cat /workspace/x")["stdout"] == "again"


def test_a_workspace_holds_its_files_and_no_more(admitted):
    result = run(admitted, TOUCH)
    error, count = result["stdout"].splitlines()
    assert "No space left on device" in error or "Disk quota exceeded" in error, result
    assert abs(int(count) - ENTRIES) <= ENTRIES // 100 + 1, result


def test_what_is_beside_the_workspace_is_bounded_as_well(admitted):
    result = run(admitted, "dd if=/dev/zero of=/tmp/big bs=1M count=4096 2>&1 | head -1; stat -c %s /tmp/big")
    assert "No space left on device" in result["stdout"], result
    assert int(result["stdout"].splitlines()[-1]) <= 512 * 1048576


def test_the_host_sees_what_is_in_the_workspace(strict, admitted, name):
    run(admitted, "echo from the box > /workspace/note")
    place = strict.root / "default" / "tenants" / namespace(name)
    assert (place / "note").read_text() == "from the box\n"
    (place / "answer").write_text("from the host")
    assert run(admitted, "cat /workspace/answer")["stdout"] == "from the host"


def test_a_skill_is_shown_to_the_box_and_cannot_be_changed_there(admitted):
    admitted.ok("box_create_skill", skill={"name": "demo", "instructions": "Do it."})
    result = run(admitted, "cat /workspace/.skills/demo/SKILL.md; echo x > /workspace/.skills/demo/y", skill_name="demo")
    assert "Do it." in result["stdout"]
    assert "Read-only file system" in result["stderr"], json.dumps(result)


def test_skills_hold_their_bytes_and_no_more(strict, admitted, name):
    admitted.ok("box_create_skill", skill={"name": "large", "instructions": "x"})
    place = strict.root / "skills" / "tenants" / namespace(name)
    usable = os.statvfs(place)
    assert usable.f_bavail * usable.f_frsize <= 257 * 1048576
    assert str(place) in mounts_below(strict.root)


def test_limits_are_in_force_again_after_a_restart(strict, name):
    with Rpc(strict.port) as rpc:
        rpc.ok(UPSERT, grant(name))
        run(rpc.tenant(name), "echo kept > /workspace/note")
    place = strict.root / "default" / "tenants" / namespace(name)
    strict.kill()
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    strict.start()
    assert str(place) in mounts_below(strict.root)
    assert (place / "note").read_text() == "kept\n"
