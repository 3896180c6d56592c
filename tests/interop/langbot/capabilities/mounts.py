"""Mounts of a box that lives. Artifacts are trees of files that are shown by their content, as 0.7 shows skills."""

import json

from host import NotOffered
from langbot_plugin.box import errors, models

from capabilities import capability, check, needs, place, refusal


def artifact(host, name):
    """A tree of one file, as the SDK describes it."""
    try:
        from langbot_plugin.artifact import build_tree_manifest
    except ImportError:
        raise NotOffered from None
    tree = place(host, name)
    (tree / "SKILL.md").write_text(name)
    digest, manifest = build_tree_manifest(str(tree), max_files=10, max_total_bytes=10_000)
    written = tree.with_suffix(".json")
    written.write_text(json.dumps(manifest))
    return {
        "host_path": str(tree),
        "mount_path": f"{models.ARTIFACT_MOUNT_ROOT}/{digest.removeprefix('sha256:')}",
        "mode": "ro",
        "content_digest": digest,
        "manifest_path": str(written),
    }


@capability("mounts: artifacts come into a living box, whose files and processes stay")
async def shown(host):
    first, second = artifact(host, "first"), artifact(host, "second")
    await host.create("artifacts")
    await host.output("artifacts", "echo kept > /tmp/kept")
    await host.start("artifacts", "exec sleep 600")
    file = f"{first['mount_path']}/SKILL.md"
    check(await host.output("artifacts", f"cat {file}", extra_mounts=[first]) == "first", "not shown")
    both = f"cat {file} {second['mount_path']}/SKILL.md /tmp/kept"
    seen = await host.output("artifacts", both, extra_mounts=[second, first])
    check(seen == "firstsecondkept", "not both are shown, or a file did not stay")
    process = await host.call("get_managed_process", "artifacts")
    check(process.status.value == "running", "a process did not stay")
    result = await host.exec("artifacts", f"echo other > {file}", extra_mounts=[first])
    check(result.exit_code != 0, "the box can write to it")
    await host.call("delete_session", "artifacts")


@capability("mounts: an artifact that is no longer named goes, and the box's files stay")
async def hidden(host):
    first, second = artifact(host, "first"), artifact(host, "second")
    await host.output("artifacts", "echo kept > /tmp/kept", extra_mounts=[first])
    result = await host.exec("artifacts", f"cat {first['mount_path']}/SKILL.md", extra_mounts=[second])
    seen = await host.output("artifacts", "cat /tmp/kept")
    await host.call("delete_session", "artifacts")
    check(result.exit_code != 0, "it is still shown")
    check(seen == "kept", "a file did not stay")


@capability("mounts: an artifact that is not as its manifest says is never shown")
async def altered(host):
    wanted = artifact(host, "altered")
    place(host, "altered").joinpath("SKILL.md").write_text("another")
    await host.output("artifacts", "echo kept > /tmp/kept")
    async with refusal(errors.BoxError, "it is not refused"):
        await host.exec("artifacts", f"cat {wanted['mount_path']}/SKILL.md", extra_mounts=[wanted])
    check(await host.output("artifacts", "cat /tmp/kept") == "kept", "a file did not stay")
    await host.call("delete_session", "artifacts")


@capability("mounts: other plain ones are a conflict that keeps the session")
async def plain(host):
    needs(hasattr(models, "ARTIFACT_MOUNT_ROOT"))
    (place(host, "plain") / "file").write_text("plain")
    mount = {"host_path": str(place(host, "plain")), "mount_path": "/tmp/plain", "mode": "ro"}
    await host.output("plain", "echo kept > /tmp/kept", extra_mounts=[mount])
    for other in ([], [{**mount, "mount_path": "/tmp/other"}], [{**mount, "mode": "rw"}]):
        async with refusal(errors.BoxSessionConflictError, "they are no conflict"):
            await host.exec("plain", "true", extra_mounts=other)
    seen = await host.output("plain", "cat /tmp/plain/file /tmp/kept", extra_mounts=[mount])
    check(seen == "plainkept", "the session is another")
    await host.call("delete_session", "plain")
