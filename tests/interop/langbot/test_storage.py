"""What a workspace takes, on the host and in its boxes."""

import pytest

from rest.host import wait_until

from .rpc import namespace


def analyse(tenant):
    shown = tenant.ok("box_get_storage_analysis")
    assert shown["size_bytes"] == sum(d["size_bytes"] for d in shown["directories"] if d["kind"] == "root")
    return shown, {directory["key"]: directory for directory in shown["directories"]}


@pytest.fixture
def workspace(daemon, name):
    """The directory of the tenant's workspace on the host."""
    place = daemon.root / "default" / "tenants" / namespace(name)
    place.mkdir(parents=True)
    return place


def test_nothing_is_found_of_a_workspace_that_has_nothing(tenant):
    shown, directories = analyse(tenant)
    assert (shown["size_bytes"], shown["active_sessions"], shown["managed_processes"]) == (0, 0, 0)
    assert not any(directory["exists"] for directory in directories.values())


def test_files_in_boxes_are_found_where_they_are(tenant):
    tenant.exec("a", "head -c 300000 /dev/zero > /workspace/file; head -c 100000 /dev/zero > /tmp/file")
    tenant.exec("b", "mkdir -p ~/.cache/deep && head -c 200000 /dev/zero > ~/.cache/deep/file")
    shown, directories = analyse(tenant)
    assert shown["active_sessions"] == 2
    for key, least, files in (("workspaces", 300000, 1), ("temp", 100000, 1), ("caches", 200000, 1)):
        found = directories[f"session_{key}"]
        assert least <= found["size_bytes"] < least + 50000, found
        assert (found["exists"], found["file_count"], found["error_count"]) == (True, files, 0)
        assert (found["kind"], found["scope"]) == ("root", "sandbox_sessions")
    assert directories["session_workspaces"]["path"] == "/workspace (2 sandbox sessions)"
    assert "managed_process_workspaces" not in directories


def test_boxes_with_processes_are_shown_as_a_part(tenant):
    tenant.exec("plain", "head -c 300000 /dev/zero > /workspace/file")
    tenant.shell("busy", "head -c 100000 /dev/zero > /workspace/file; exec sleep 60")
    wait_until(lambda: analyse(tenant)[1]["managed_process_workspaces"]["size_bytes"] >= 100000, "the whole file")
    shown, directories = analyse(tenant)
    part = directories["managed_process_workspaces"]
    assert (part["kind"], part["parent_key"]) == ("detail", "session_workspaces")
    assert (part["file_count"], part["size_bytes"] < 150000) == (1, True)
    assert directories["session_workspaces"]["size_bytes"] >= 400000
    assert shown["managed_processes"] == 1


def test_the_workspace_on_the_host_is_counted_once(tenant, workspace):
    (workspace / "inbox").mkdir()
    (workspace / "inbox" / "mail").write_bytes(b"x" * 5000)
    (workspace / "note").write_bytes(b"x" * 70)
    tenant.exec("a", "true", host_path=str(workspace))
    shown, directories = analyse(tenant)
    found = directories["workspace"]
    assert (found["path"], found["size_bytes"], found["file_count"]) == (str(workspace), 5070, 2)
    assert (found["kind"], found["scope"]) == ("root", "runtime_host")
    inbox = directories["inbox"]
    assert (inbox["size_bytes"], inbox["kind"], inbox["parent_key"]) == (5000, "detail", "workspace")
    assert not directories["outbox"]["exists"]
    assert directories["session_workspaces"]["size_bytes"] == 0
    assert shown["size_bytes"] < 5070 + 20000  # and what boxes always have


def test_links_lead_nowhere(tenant, workspace):
    (workspace / "outside").symlink_to("/usr")
    (workspace / "inbox").symlink_to("/usr")
    found = analyse(tenant)[1]
    assert found["workspace"]["file_count"] == 2
    assert (found["inbox"]["exists"], found["inbox"]["error_count"]) == (False, 1)


def test_another_workspace_sees_nothing_of_it(rpc, tenant, workspace, name):
    (workspace / "note").write_bytes(b"x" * 70)
    tenant.exec("a", "head -c 300000 /dev/zero > /workspace/file")
    shown, _ = analyse(rpc.tenant(name + "-other"))
    assert (shown["size_bytes"], shown["active_sessions"]) == (0, 0)


def test_a_running_command_does_not_delay_it(tenant):
    tenant.exec("a", "true")
    seq = tenant.send("box_exec", session_id="a", cmd="sleep 60")
    try:
        assert analyse(tenant)[0]["active_sessions"] == 1
    finally:
        tenant.ok("box_delete_session", session_id="a")
        tenant.receive(seq)


def test_looking_does_not_keep_a_session(tenant):
    tenant.exec("a", "true")
    before = tenant.get("a")["last_used_at"]
    analyse(tenant)
    assert tenant.get("a")["last_used_at"] == before


def test_an_unreadable_directory_is_an_error_of_its_own(tenant):
    tenant.exec("a", "mkdir /workspace/shut && chmod 0 /workspace/shut && echo x > /workspace/open")
    found = analyse(tenant)[1]["session_workspaces"]
    assert (found["file_count"], found["error_count"]) == (1, 1)
