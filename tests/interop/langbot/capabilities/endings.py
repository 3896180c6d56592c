"""How conversations end."""

from host import NotTried

from capabilities import attach, capability, check


@capability("reconnect")
async def reconnect(host):
    """Over stdio the runtime ends with its host, and a new one begins. What is persistent may be there again."""
    await host.create("reconnect", persistent=True)
    await host.start("reconnect", "exec cat")
    await host.close()
    await host.open()
    names = [one["session_id"] for one in await host.call("get_sessions")]
    if host.stdio:
        check(set(names) <= {"reconnect"}, "sessions of the last runtime are left")
        check(await host.output("reconnect", "echo on", persistent=True) == "on", "the new runtime does not work")
        return
    check("reconnect" in names, "the session is gone")
    check((await host.call("get_managed_process", "reconnect")).status.value == "running", "the process is gone")
    async with attach(host, "reconnect") as socket:
        await socket.send("again")
        check((await socket.recv()).strip() == "again", "another text came back")


@capability("reconnect: a persistent session whose box is gone takes other settings")
async def other_settings(host):
    if not host.stdio:
        raise NotTried  # this runtime ends with nobody's connection
    await host.create("settled", persistent=True, memory_mb=256)
    await host.close()
    await host.open()
    made = await host.create("settled", persistent=True, memory_mb=128)
    check(made["memory_mb"] == 128, "it keeps those of before")
    await host.call("delete_session", "settled")


@capability("shutdown: sessions end, the runtime stays")
async def shutdown(host):
    await host.create("last")
    await host.client.shutdown()
    host.client.set_handler(host.handler)
    check("last" not in [one["session_id"] for one in await host.call("get_sessions")], "the session is left")
    check(await host.output("after", "echo on") == "on", "the runtime does not go on")
    await host.call("delete_session", "after")
