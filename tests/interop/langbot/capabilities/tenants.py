"""Tenants."""

import asyncio
import hashlib
import secrets
from pathlib import Path

from host import NotOffered
from langbot_plugin.box import errors

from capabilities import begin_sleep, capability, check, refusal


def other_tenant(host):
    if host.context is None:
        raise NotOffered
    other = type(host)(host.settings)
    other.client, other.handler, other.running = host.client, host.handler, host.running
    other.workspace = "interop-neighbour"
    return other


@capability("tenants: apart from each other")
async def tenants(host):
    other = other_tenant(host)
    await host.create("mine")
    check(await other.call("get_sessions") == [], "one sees the sessions of the other")
    async with refusal(errors.BoxSessionNotFoundError, "one reaches the sessions of the other"):
        await other.call("get_session", "mine")
    await host.call("delete_session", "mine")


@capability("tenants: a newer generation ends the older", seconds=60)
async def generations(host):
    other = other_tenant(host)
    running = await begin_sleep(other, "fenced")
    other.generation = 2
    check(await other.call("get_sessions") == [], "the sessions of the older generation are left")
    done, _ = await asyncio.wait([running], timeout=10)
    if not done:
        running.cancel()
        await asyncio.wait([running])
    check(done, "a running command of the older one is never answered")
    check("Stale Box placement generation" in str(running.exception()), "another answer")
    other.generation = 1
    async with refusal(errors.BoxError, "the older generation is not refused"):
        await other.call("get_sessions")


@capability("shared workspace: the marker is found")
async def shared(host):
    if not host.offers("verify_shared_workspace"):
        raise NotOffered
    name = f".langbot-box-volume-probe-{secrets.token_hex(16)}"
    marker = Path(host.settings["init"]["local"]["host_root"], "default", name)
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_bytes(b"marker")
    shown = await host.call("verify_shared_workspace", name)
    marker.unlink()
    check(shown == {"marker_name": name, "sha256": hashlib.sha256(b"marker").hexdigest(), "size": 6}, "another answer")


@capability("storage analysis")
async def storage(host):
    shown = await host.call("get_storage_analysis")
    check(isinstance(shown["size_bytes"], int) and isinstance(shown["directories"], list), "another answer")
