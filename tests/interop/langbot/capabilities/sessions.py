"""Sessions."""

import asyncio
import contextlib

from host import until
from langbot_plugin.box import errors
from langbot_plugin.box.actions import LangBotToBoxAction
from langbot_plugin.box.models import DEFAULT_BOX_IMAGE, BoxSpec

from capabilities import appears, begin_sleep, capability, check, needs_states, place, refusal


@capability("sessions: create, show, list, delete")
async def sessions(host):
    made = await host.create("plain", memory_mb=256)
    check(made["session_id"] == "plain" and made["memory_mb"] == 256, "the session shows other values")
    check((await host.create("plain", memory_mb=256))["created_at"] == made["created_at"], "made a second time")
    shown = await host.call("get_session", "plain")
    check(shown["backend_session_id"] == made["backend_session_id"], "another session is shown")
    check("plain" in [one["session_id"] for one in await host.call("get_sessions")], "not in the list")
    await host.call("delete_session", "plain")
    check("plain" not in [one["session_id"] for one in await host.call("get_sessions")], "left in the list")


@capability("sessions: every setting is kept and shown")
async def settings(host):
    shown = place(host, "settings")
    (shown / "given").write_text("given")
    given = {
        "network": "off",
        "image": DEFAULT_BOX_IMAGE,
        "host_path": str(shown),
        "host_path_mode": "ro",
        "mount_path": "/data",
        "workdir": "/data",
        "persistent": True,
        "cpus": 0.5,
        "memory_mb": 128,
        "pids_limit": 64,
        "read_only_rootfs": False,
        "workspace_quota_mb": 7,
    }
    made = await host.create("settings", **given)
    other = [name for name, value in given.items() if name != "workdir" and made[name] != value]
    check(not other, f"other values: {', '.join(other)}")
    result = await host.exec("settings", "cat given; touch new", **given)
    check(result.stdout == "given", "the directory is not shown")
    check(result.exit_code != 0 and not (shown / "new").exists(), "it is not read-only")
    await host.call("delete_session", "settings")


@capability("sessions: it is told whether a command runs in one")
async def busy(host):
    needs_states()
    shown = place(host, "busy")
    spec = {"host_path": str(shown), "workdir": "/workspace"}

    async def status():
        listed = await host.call("get_sessions")
        return (await host.call("get_session", "busy"))["status"], *(
            one["status"] for one in listed if one["session_id"] == "busy"
        )

    check((await host.create("busy", **spec))["status"] == "idle", "a new one is not idle")
    running = asyncio.create_task(host.exec("busy", "touch started; until [ -e end ]; do sleep 0.05; done", **spec))
    await appears(shown / "started")
    meanwhile = await status()
    (shown / "end").touch()
    await running
    check(meanwhile == ("running", "running"), "it is not told that a command runs")

    async def idle():
        return await status() == ("idle", "idle")

    await until(idle, "an idle session")
    await host.call("delete_session", "busy")


@capability("sessions: unknown fields are refused by runtimes of 0.7, and ignored by those before")
async def unknown_fields(host):
    spec = {**host.spec("unknown").model_dump(mode="json"), "of_tomorrow": 1}
    if BoxSpec.model_config.get("extra") == "forbid":
        async with refusal(errors.BoxValidationError, "they are not refused"):
            await host.ask(LangBotToBoxAction.CREATE_SESSION, spec)
        return
    await host.ask(LangBotToBoxAction.CREATE_SESSION, spec)
    await host.call("delete_session", "unknown")


@capability("sessions: conflicts, absence and bad values are told apart")
async def conflicts(host):
    await host.create("conflict")
    async with refusal(errors.BoxSessionConflictError, "another memory limit is not refused"):
        await host.create("conflict", memory_mb=256)
    async with refusal(errors.BoxSessionConflictError, "another network is not refused"):
        await host.exec("conflict", "true", network="on")
    async with refusal(errors.BoxValidationError, "a command of nothing is not refused"):
        await host.exec("conflict", " ")
    await host.call("delete_session", "conflict")
    for method in ("get_session", "delete_session"):
        async with refusal(errors.BoxSessionNotFoundError, f"{method} of a session that is gone is not refused"):
            await host.call(method, "conflict")


@capability("sessions: files stay between commands, host directories are shown")
async def files(host):
    shown = place(host, "shown")
    (shown / "given").write_text("given")
    spec = {"host_path": str(shown), "workdir": "/workspace"}
    check(
        await host.output("files", "cat given; echo made > made; echo kept > /tmp/kept", **spec) == "given", "not shown"
    )
    check((shown / "made").read_text() == "made\n", "what the box wrote is not on the host")
    check(await host.output("files", "cat /tmp/kept", **spec) == "kept", "a file did not stay")
    await host.call("delete_session", "files")


@capability("sessions: other extra mounts take effect, or are refused")
async def extra_mounts(host):
    shown = place(host, "extra")
    (shown / "extra").write_text("extra")
    await host.create("mounts")
    mounts = [{"host_path": str(shown), "mount_path": "/tmp/extra", "mode": "ro"}]
    with contextlib.suppress(errors.BoxSessionConflictError):
        result = await host.exec("mounts", "cat /tmp/extra/extra", extra_mounts=mounts)
        check(result.stdout == "extra", "they are ignored")
    await host.call("delete_session", "mounts")


@capability("sessions: sixteen at once")
async def many(host):
    names = [f"many-{number}" for number in range(16)]
    made = await asyncio.gather(*(host.exec(name, f"echo {name}") for name in names), return_exceptions=True)
    await asyncio.gather(*(host.call("delete_session", name) for name in names), return_exceptions=True)
    check(all(getattr(one, "stdout", None) in names for one in made), "some are refused")


@capability("sessions: delete ends a running command", seconds=60)
async def delete_running(host):
    running = await begin_sleep(host, "running")
    deleting = asyncio.create_task(host.call("delete_session", "running"))
    done, _ = await asyncio.wait([deleting], timeout=10)
    await asyncio.wait([deleting, running])
    running.exception()
    check(done, "it waits for the command")
