"""A runtime that asks its hosts for a control token."""

import asyncio
import json
import urllib.error
import urllib.request

import websockets
from host import TOKEN_HEADER, NotOffered

from capabilities import attach, capability, check


def needs_token(host):
    try:
        from langbot_plugin.box.security import BOX_CONTROL_TOKEN_HEADER
    except ImportError:
        raise NotOffered from None
    check(BOX_CONTROL_TOKEN_HEADER == TOKEN_HEADER, "another header")


async def refused(address, headers):
    """Whether this handshake is."""
    try:
        async with websockets.connect(address, additional_headers=headers, subprotocols=["mcp"], proxy=None):
            return False
    except websockets.InvalidStatus as refusal:
        return refusal.response.status_code in (401, 403)


async def fetch(host, path):
    """Status and body, for somebody without a token."""

    def get():
        try:
            with urllib.request.urlopen(host.settings["url"] + path, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    return await asyncio.to_thread(get)


def without_token(host):
    return {name: value for name, value in host.headers().items() if name != TOKEN_HEADER}


@capability("control token: without it no host is let in", group="guarded")
async def control(host):
    needs_token(host)
    address = host.settings["url"].replace("http://", "ws://") + "/rpc/ws"
    check(await refused(address, without_token(host)), "one without a token is let in")
    check(await refused(address, {**host.headers(), TOKEN_HEADER: "x" * 40}), "one with another token is let in")
    check(await host.output("guarded", "echo on") == "on", "the host with the token is not served")


@capability("control token: relays need it", group="guarded")
async def relays(host):
    needs_token(host)
    await host.create("guarded")
    await host.start("guarded", "exec cat")
    check(await refused(host.relay_url("guarded"), without_token(host)), "one without a token is let in")
    async with attach(host, "guarded") as socket:
        await socket.send("with it")
        check((await socket.recv()).strip() == "with it", "another text came back")
    await host.call("delete_session", "guarded")


@capability("control token: nothing else on the port is for those without", group="guarded")
async def other_doors(host):
    needs_token(host)
    await host.create("guarded")
    paths = ("/v1/sessions", "/v1/status", "/metrics", "/v1/sessions/guarded")
    open_doors = [path for path in paths if (await fetch(host, path))[0] == 200]
    await host.call("delete_session", "guarded")
    check(not open_doors, f"open: {', '.join(open_doors)}")


@capability("control token: probes tell those without only yes or no", group="guarded")
async def probes(host):
    needs_token(host)
    for path in ("/healthz", "/readyz"):
        told = json.loads((await fetch(host, path))[1])
        check(all(isinstance(value, bool) for value in told.values()), f"{path} tells more")
