"""Directories that hosts name: judged like mounts, and never a way to the files of the daemon's user."""

import json
import os

import pytest

from .archives import skill
from .rpc import Rpc, Stdio

SECRET = "nobody but root reads this"
TOKEN = "t" * 40


@pytest.fixture
def victim(tmp_path):
    """A directory of the daemon's user with a file that is for nobody else."""
    victim = tmp_path / "outside" / "victim"
    victim.mkdir(parents=True)
    (victim / "secret").write_text(SECRET)
    (victim / "secret").chmod(0o600)
    return victim


@pytest.fixture
def closed(start_daemon, tmp_path):
    """A daemon whose operator shows one directory, and none of the hosts that come has a token."""
    root = tmp_path / "box"
    root.mkdir()
    daemon = start_daemon(json.dumps({"box": {"local": {"host_root": str(root), "allowed_mount_roots": [str(root)]}}}))
    daemon.root = root
    return daemon


def read_secret(rpc, local):
    """What the attack gets: every answer, as one text."""
    answers = [rpc.call("box_init", {"local": local})]
    answers.append(rpc.call("box_create_skill", {"skill": {"name": "victim", "instructions": "mine"}}))
    answers.append(rpc.call("box_read_skill_file", {"name": "victim", "path": "secret"}))
    answers.append(rpc.call("box_write_skill_file", {"name": "victim", "path": "secret", "content": "replaced"}))
    return json.dumps(answers)


@pytest.mark.parametrize("field", ["skills_root", "host_root", "relative", "link"])
def test_a_host_without_a_token_reaches_no_file_outside_of_the_operators_roots(closed, victim, field):
    outside = victim.parent
    (closed.root / "link").symlink_to(outside)
    (outside / "skills").symlink_to(".")
    local = {
        "skills_root": {"skills_root": str(outside)},
        "host_root": {"host_root": str(outside)},
        "relative": {"skills_root": f"../{outside.name}"},
        "link": {"skills_root": "link"},
    }[field]
    with Rpc(closed.port, instance=None) as rpc:
        assert SECRET not in read_secret(rpc, local)
    assert (victim / "secret").read_text() == SECRET
    assert sorted(path.name for path in victim.iterdir()) == ["secret"]


def test_a_refused_configuration_changes_nothing(closed, victim):
    with Rpc(closed.port, instance=None) as rpc:
        before = rpc.ok("box_status")["limits"]
        local = {"skills_root": str(victim.parent), "default_workspace": "new"}
        message = rpc.error("box_init", {"limits": {"max_sessions": 3}, "local": local})
        assert message.startswith("BoxValidationError: box.local.skills_root is outside allowed_mount_roots: ")
        assert rpc.ok("box_status")["limits"] == before
        assert not (closed.root / "new").exists()
        made = rpc.ok("box_create_skill", {"skill": {"name": "mine", "instructions": "x"}})["skill"]
        assert made["package_root"] == str(closed.root / "skills" / "mine")


def test_a_directory_that_the_store_did_not_make_is_not_adopted(closed):
    foreign = closed.root / "skills" / "victim"
    foreign.mkdir(parents=True)
    (foreign / "secret").write_text(SECRET)
    with Rpc(closed.port, instance=None) as rpc:
        assert SECRET not in read_secret(rpc, {})
    assert [path.name for path in foreign.iterdir()] == ["secret"]


def test_a_link_that_comes_after_the_judgement_leads_nowhere(closed, victim):
    with Rpc(closed.port, instance=None) as rpc:
        rpc.ok("box_init", {"local": {"skills_root": "later"}})
        (victim / "SKILL.md").write_text(skill("victim"))
        (closed.root / "later").symlink_to(victim.parent)
        answer = json.dumps(rpc.call("box_read_skill_file", {"name": "victim", "path": "secret"}))
        assert SECRET not in answer and rpc.call("box_list_skills")["code"] == 1
    assert (victim / "secret").read_text() == SECRET


@pytest.mark.parametrize("path", ["/etc", "/root/x", "/", "/run/x", "/proc/self/root/srv"])
def test_what_no_box_may_see_is_not_taken_from_a_host_with_a_token(start_daemon, tmp_path, path):
    daemon = start_daemon(env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN})
    with Rpc(daemon.port, token=TOKEN) as rpc:
        for field in ("skills_root", "host_root", "default_workspace"):
            if path.startswith("/proc"):  # it is what it leads to
                path = "/proc/self/root/etc"
            assert rpc.error("box_init", {"local": {field: path}}).startswith("BoxValidationError: box.local.")
        rpc.ok("box_init", {"local": {"host_root": str(tmp_path / "any"), "allowed_mount_roots": [str(tmp_path)]}})
        assert (tmp_path / "any" / "default").is_dir()


def test_the_host_that_started_the_daemon_names_its_directories(tmp_path):
    with Stdio(tmp_path) as runtime:
        runtime.ok("box_init", {"local": {"host_root": str(tmp_path / "any"), "allowed_mount_roots": [str(tmp_path)]}})
        assert runtime.error("box_init", {"local": {"skills_root": "/etc"}}).startswith("BoxValidationError: ")
        tenant = runtime.tenant("w")
        made = tenant.ok("box_create_skill", skill={"name": "mine", "instructions": "x"})["skill"]
        assert made["package_root"].startswith(f"{tmp_path}/any/skills/tenants/")
        assert os.stat(made["package_root"]).st_uid == os.getuid()
