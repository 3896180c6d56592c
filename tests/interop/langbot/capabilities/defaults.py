"""LangBot's own default configuration, with a runtime that is set up as its manual says."""

from pathlib import Path

from host import NotOffered
from langbot_plugin.box import errors

from capabilities import capability, check, refusal


@capability("init: the default configuration, whose directories are relative to LangBot's own", group="defaults")
async def relative(host):
    workspace = Path(host.settings["directory"], "data", "box", "default")
    check(workspace.is_dir(), "its default workspace is not made")
    if host.context is not None:
        from langbot_plugin.box.tenancy import box_namespace

        workspace = workspace / "tenants" / box_namespace(host.context)
        workspace.mkdir(parents=True)
    (workspace / "given").write_text("given")
    spec = {"host_path": str(workspace), "workdir": "/workspace"}
    seen = await host.output("defaults", "cat given; echo made > made", **spec)
    check(seen == "given" and (workspace / "made").read_text() == "made\n", "it is not shown in boxes")
    await host.call("delete_session", "defaults")


@capability("init: one that is refused changes nothing", group="defaults")
async def refused(host):
    before = await host.call("get_status")
    if "limits" not in before:
        raise NotOffered
    local = {**host.settings["init"]["local"], "default_workspace": "/etc/there-is-no-such-directory"}
    async with refusal(errors.BoxError, "it is not refused"):
        await host.client.init({**host.settings["init"], "limits": {"max_sessions": 3}, "local": local})
    check((await host.call("get_status"))["limits"] == before["limits"], "its limits are in effect")
