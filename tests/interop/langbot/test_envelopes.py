"""Random envelopes, good and bad: every request is answered once, and nothing of them is left."""

import json
import random

import pytest

from rest.host import wait_until

from .rpc import INSTANCE, LIMIT, Rpc

SEED = 20260609
COUNT = 10_000
MOST = 32  # sessions
BATCH = 100  # at work at once: below the 128 of a connection
NAMES = ["s1", "s2"] * 6 + ["a b", "a/b", "", " ", "é", "x" * 300, "../s", "ws-0-g1-s", None, 5, [], {}]
ACTIONS = [
    "__ping",
    "__file_chunk",
    "__heartbeat",
    "box_health",
    "box_get_backend_info",
    "box_init",
    "box_status",
    "box_exec",
    "box_create_session",
    "box_get_session",
    "box_get_sessions",
    "box_delete_session",
    "box_start_managed_process",
    "box_get_managed_process",
    "box_stop_managed_process",
    "box_upsert_sandbox_admission_grant",
    "box_revoke_sandbox_admission_grant",
    "box_verify_shared_workspace",
    "box_list_skills",
    "box_get_skill",
    "box_create_skill",
    "box_update_skill",
    "box_delete_skill",
    "box_scan_skill_directory",
    "box_list_skill_files",
    "box_read_skill_file",
    "box_write_skill_file",
    "box_preview_skill_zip",
    "box_install_skill_zip",
    "box_shutdown",
    "nope",
    "",
    "box_exec ",
    "BOX_EXEC",
]
RARE = {"box_shutdown", "box_init", "nope", "", "box_exec ", "BOX_EXEC", "__heartbeat"}
BUSY = ["box_exec", "box_create_session", "box_start_managed_process", "box_get_managed_process", "box_create_skill"]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    10**30,
    0.5,
    -0.0,
    1e300,
    "",
    " ",
    "x",
    "é€😀",
    "\0",
    "a\nb",
    "1",
    "nan",
    "/tmp",
    "/workspace",
    "../..",
    "off",
    "on",
    "rw",
    "none",
    [],
    [1],
    [[]],
    {},
    {"a": 1},
    {"host_path": "/etc"},
    "x" * 5000,
]
FIELDS = [
    "session_id",
    "cmd",
    "workdir",
    "timeout_sec",
    "network",
    "env",
    "image",
    "host_path",
    "host_path_mode",
    "mount_path",
    "extra_mounts",
    "skill_name",
    "persistent",
    "cpus",
    "memory_mb",
    "pids_limit",
    "read_only_rootfs",
    "workspace_quota_mb",
    "process_id",
    "spec",
    "name",
    "skill",
    "path",
    "content",
    "include_hidden",
    "max_entries",
    "file_key",
    "filename",
    "source_paths",
    "target_suffix",
    "chunk_base64",
    "chunk_index",
    "chunk_amount",
    "marker_name",
    "instance_uuid",
    "workspace_uuid",
    "entitlement_revision",
    "expires_at",
    "limits",
    "admission",
    "local",
]
NO_REQUESTS = [
    "",
    " ",
    "{",
    "}",
    "[]",
    "[1, 2]",
    "null",
    "true",
    "3",
    '"text"',
    "{}",
    '{"seq_id": 1}',
    '{"data": {}}',
    '{"seq_id": 1, "code": 0, "message": "success", "data": {}}',
    '{"code": null, "action": "__ping"}',
    "{'a': 1}",
    '{"seq_id": 1, "action": "__ping", "data": {}',
    "\ufeff{}",
    "nul",
    "{" * 200,
    "[" * 50_000,
]


class Generator:
    """The same messages for the same seed."""

    def __init__(self, seed, root):
        self.random = random.Random(seed)
        self.root = str(root)
        self.last = 0

    def some(self, of):
        return self.random.choice(of)

    def often(self, part):
        return self.random.random() < part

    def action(self):
        action = self.some(ACTIONS)
        # What ends everything, or is nothing, comes less often.
        if action in RARE and self.often(0.9):
            action = self.some(BUSY)
        return action

    def process(self):
        command = self.some(["cat", "true", "no-such-program", "", 5, None])
        spec = {
            "command": command,
            "args": self.some([[], ["x"], [1], None]),
            "process_id": self.some(["default", "p", "", 5]),
        }
        return self.some([spec, spec, {}, None, 5])

    def plausible(self, action):
        """Data that has a chance."""
        data = {
            "session_id": self.some(NAMES),
            "process_id": self.some(["default", "p"]),
            "name": self.some(["k1", "k2", "é"]),
        }
        if action in ("box_exec", "box_create_session"):
            # Hosts before 0.7 name a skill and may say whatever they like; those since may not.
            older = {**data, "skill_name": None}
            data = self.some([older, older, older, {"session_id": data["session_id"]}])
        if action == "box_exec":
            data["cmd"] = self.some(["true", "echo x", "exit 3", "printf '\\377'", "head -c 70000 /dev/zero", " "])
        if action == "box_start_managed_process":
            data["spec"] = self.process()
        if action in ("box_create_skill", "box_update_skill"):
            data["skill"] = {"name": data["name"], "description": self.some(VALUES), "instructions": self.some(VALUES)}
        if "skill_file" in action or action == "box_list_skill_files":
            data["path"] = self.some(["SKILL.md", "a/b.txt", "../x", "/etc/passwd", ".", ""])
            data["content"] = self.some(VALUES)
        if action == "__file_chunk":
            data = {
                "file_key": self.some(["k1.zip", "k2.zip", "../x"]),
                "chunk_base64": self.some(["eA==", "!", "", 5]),
            }
            data |= {"chunk_index": self.some([0, 1, -1, True]), "chunk_amount": self.some([1, 2, 0, "1"])}
        if "zip" in action:
            data = {"file_key": self.some(["k1.zip", "k2.zip", "absent", 5]), "filename": self.some(VALUES)}
        if action == "box_scan_skill_directory":
            data = {"path": self.some([self.root, "/", "", 5])}
        if action == "box_init":
            data = {"backend": self.some(["", "local", "local", "docker"]), "local": {"host_root": self.root}}
            data["limits"] = self.some(
                [{}, {"max_sessions": 16}, {"max_sessions": "x"}, [1], {"max_rpc_file_bytes": 1 << 20}]
            )
        return data

    def data(self, action):
        if self.often(0.05):
            return self.some(VALUES)
        data = self.plausible(action)
        if action != "box_init" and self.often(0.3):
            data[self.some(FIELDS)] = self.some(VALUES)
        if self.often(0.05):
            data.pop(self.some([*data]), None)
        return data

    def context(self):
        context = {
            "instance_uuid": INSTANCE,
            "workspace_uuid": self.some(["w1", "w2", "w3"]),
            "placement_generation": 1,
        }
        if context["workspace_uuid"] == "w3":
            context["placement_generation"] = self.some([1, 2, 3])
        if self.often(0.95):
            return context
        # A workspace of its own: a generation as high as can be would make all that follows stale.
        context["workspace_uuid"] = "w4"
        context[self.some([*context, "unknown"])] = self.some([*VALUES, "other"])
        return self.some([context, context, None, 5, []])

    def message(self):
        """The text, and the number that its answer must have; None if there must be none."""
        if self.often(0.05):
            return self.some(NO_REQUESTS), None
        self.last += 1
        action = self.action()
        request = {"seq_id": self.last, "action": action, "data": self.data(action)}
        if self.often(0.95):
            request["context"] = self.context()
        if self.often(0.02):
            request["action"] = self.some(VALUES)
        if self.often(0.02):
            del request["data"]
        if self.often(0.05):
            request[self.some(["extra", "chunk_status", "message", "type"])] = self.some(VALUES)
        names = [*request]
        self.random.shuffle(names)
        text = json.dumps({name: request[name] for name in names}, ensure_ascii=self.often(0.5))
        return text, self.last


def ask(rpc, generator, count, whole):
    """So many messages; each batch is answered before the next. Gives the number of those that succeeded."""
    succeeded = 0
    for _ in range(0, count, BATCH):
        wanted = set()
        for _ in range(BATCH):
            text, seq = generator.message()
            # What is no whole document would be put together with what follows.
            if seq is None and whole:
                continue
            rpc.send_text(text)
            wanted.add(seq)
        for seq in wanted - {None}:
            answer = rpc.receive(seq, 2 * LIMIT)
            assert answer["code"] in (0, 1) and isinstance(answer["data"], dict), answer
            assert list(answer) == ["seq_id", "code", "message", "data", "chunk_status"], answer
            succeeded += answer["code"] == 0
        assert rpc.answers == {}, "answers that nobody asked for"
    return succeeded


def clear(daemon):
    """What tenants and hosts of old have left."""
    for instance in (INSTANCE, None):
        with Rpc(daemon.port, instance) as rpc:
            rpc.ok("box_init", {"backend": "local", "limits": {"max_sessions": MOST}})
            rpc.ok("box_shutdown")
            rpc.ping()


@pytest.mark.slow
def test_random_envelopes_are_answered_once(daemon):
    # What is kept for as many boxes at one time is made.
    with Rpc(daemon.port) as rpc:
        tenant = rpc.tenant("warm")
        for number in range(MOST):
            tenant.start(f"s{number}", "cat")
    clear(daemon)
    before = daemon.fds()
    generator = Generator(SEED, daemon.root)
    for number in range(4):
        with Rpc(daemon.port, instance=None if number == 3 else INSTANCE) as rpc:
            succeeded = ask(rpc, generator, COUNT // 4, whole=number == 3)
            # A host that names no instance acts for no workspace, and most of this is asked for one.
            assert succeeded > (0 if number == 3 else COUNT // 4 // 5), "hardly anything was good"
    clear(daemon)
    resources = daemon.client("GET", "/healthz").json["resources"]
    assert (resources["sessions"], resources["managed_processes"]) == (0, 0)
    daemon.client.close()
    wait_until(lambda: daemon.fds() <= before + 8, "no more open files than before")
    assert daemon.process.poll() is None
