"""What a session is shown of the host while it lives."""

import hashlib
import json
from urllib.parse import quote

import pytest

from .daemon import session_path


@pytest.fixture
def session(client, name):
    assert client.create(name).status == 201
    yield name
    client.delete(name)


def show(client, name, **mount):
    return client("POST", f"{session_path(name)}/mounts", mount)


def hide(client, name, path):
    return client("DELETE", f"{session_path(name)}/mounts?path={quote(path, safe='')}")


def artifact(directory, content):
    """A tree of one file, and what LangBot says of it."""
    tree = directory / hashlib.sha256(content.encode()).hexdigest()[:8]
    tree.mkdir()
    (tree / "SKILL.md").write_text(content)
    file = {"executable": False, "path": "SKILL.md", "sha256": hashlib.sha256(content.encode()).hexdigest(),
            "size": len(content)}  # fmt: skip
    manifest = {"algorithm": "sha256-tree-v1", "files": [file], "total_bytes": len(content)}
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (directory / f"{tree.name}.json").write_text(json.dumps(manifest, indent=2))
    return {"host_path": str(tree), "mount_path": f"/opt/langbot-artifacts/{digest}", "mode": "ro",
            "content_digest": f"sha256:{digest}", "manifest_path": str(directory / f"{tree.name}.json")}  # fmt: skip


def test_a_directory_comes_and_goes_while_a_process_goes_on(client, session, tmp_path):
    (tmp_path / "file").write_text("shown")
    client.output(session, "echo kept > /tmp/kept")
    process = f"{session_path(session)}/managed-process"
    assert client("POST", process, {"command": "sleep", "args": ["600"]}).status == 201
    reply = show(client, session, host_path=str(tmp_path), mount_path="/workspace/a/b", mode="ro")
    assert reply.status == 201, reply
    assert [mount["mount_path"] for mount in reply.json["extra_mounts"]] == ["/workspace/a/b"]
    assert client.output(session, "cat /workspace/a/b/file /tmp/kept") == "shownkept"
    assert client.run(session, "touch /workspace/a/b/x")["exit_code"] != 0
    again = show(client, session, host_path="/srv", mount_path="/workspace/a/b")
    assert (again.status, again.code) == (409, "session_conflict")
    assert hide(client, session, "/workspace/a/b").json["extra_mounts"] == []
    assert client.run(session, "cat /workspace/a/b/file")["exit_code"] != 0
    assert hide(client, session, "/workspace/a/b").status == 404
    assert client("GET", f"{process}/default").json["status"] == "running"


@pytest.mark.parametrize(
    ("mount", "status"),
    [
        ({"host_path": "/etc", "mount_path": "/workspace/x"}, 403),
        ({"mount_path": "/data"}, 409),
        ({"mount_path": "/tmp"}, 409),
        ({"host_path": "/srv", "mount_path": "/opt/langbot-artifacts/x", "mode": "ro"}, 400),
        ({"mode": "ro"}, 400),
        ({"mount_path": "/workspace/x", "mode": "none"}, 400),
    ],
)
def test_what_cannot_be_shown_leaves_the_session_as_it_was(client, session, tmp_path, mount, status):
    client.output(session, "echo kept > /tmp/kept")
    reply = show(client, session, **{"host_path": str(tmp_path), **mount})
    assert (reply.status, client.get(session).json["extra_mounts"]) == (status, []), reply
    assert client.output(session, "cat /tmp/kept") == "kept"


@pytest.mark.parametrize("target", ["/workspace/link", "/workspace/link/deep/er"])
def test_a_link_that_a_payload_put_in_the_way_is_not_followed(client, session, tmp_path, target):
    client.output(session, "ln -s /tmp /workspace/link")
    reply = show(client, session, host_path=str(tmp_path), mount_path=target)
    assert (reply.status, reply.code) == (409, "session_conflict"), reply
    assert client.output(session, "ls /tmp; grep -c \" /tmp/\" /proc/self/mounts || true") == "0", "made or mounted"


def test_a_session_that_is_not_there_is_shown_nothing(client, name):
    assert show(client, name, host_path="/srv", mount_path="/workspace/x").code == "session_not_found"
    assert hide(client, name, "/workspace/x").code == "session_not_found"


def test_artifacts_come_and_go_with_the_specs_of_commands(client, session, tmp_path):
    one, two = artifact(tmp_path, "one\n"), artifact(tmp_path, "two\n")
    client.output(session, "echo kept > /tmp/kept")
    path = f"{one['mount_path']}/SKILL.md"
    assert client.output(session, f"cat {path}", extra_mounts=[one]) == "one"
    (tmp_path / one["host_path"] / "SKILL.md").write_text("something else\n")
    assert client.output(session, f"cat {path} /tmp/kept", extra_mounts=[two, one]) == "one\nkept"
    assert client.run(session, f"chmod u+w {path}; echo x > {path}", extra_mounts=[two, one])["exit_code"] != 0
    assert client.run(session, f"cat {path}", extra_mounts=[two])["exit_code"] != 0
    reply = client.exec(session, "true", extra_mounts=[one])
    assert (reply.status, reply.code) == (422, "artifact_refused")
    assert reply.message == "Immutable artifact preparation failed: Artifact source changed: SKILL.md"
    assert client.output(session, f"cat {two['mount_path']}/SKILL.md /tmp/kept") == "two\nkept"


def test_they_are_back_with_the_session_after_a_kill_and_gone_with_it(start_daemon, tmp_path):
    daemon = start_daemon()
    copies = daemon.state / "artifacts"
    skill = artifact(tmp_path, "skill\n")
    daemon.client.output("s", "echo kept > /tmp/kept", extra_mounts=[skill])
    show(daemon.client, "s", host_path=str(tmp_path), mount_path="/workspace/x", mode="ro")
    assert len(list(copies.iterdir())) == 1
    daemon.kill()
    (copies / "box-of-nobody" / "tree").mkdir(parents=True)
    daemon.start()
    assert daemon.client.output("s", f"cat {skill['mount_path']}/SKILL.md /tmp/kept; ls /workspace") == "skill\nkept\nx"
    assert len(daemon.client.get("s").json["extra_mounts"]) == 2
    assert len(list(copies.iterdir())) == 1
    assert hide(daemon.client, "s", skill["mount_path"]).status == 200
    assert daemon.client.run("s", f"ls {skill['mount_path']}")["exit_code"] != 0
    daemon.client.output("s", "true", extra_mounts=[*daemon.client.get("s").json["extra_mounts"], skill])
    daemon.client.delete("s")
    assert list(copies.iterdir()) == []
