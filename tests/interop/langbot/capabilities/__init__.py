"""What hosts do with a runtime, as functions of a host. They say what is wrong by failing."""

import asyncio
import contextlib
from pathlib import Path

import websockets
from host import NotOffered, until
from langbot_plugin.box import errors
from langbot_plugin.box.runtime import BoxRuntime

CAPABILITIES = []  # in the order of the table


def capability(name, group="ordinary", seconds=20):
    def add(function):
        CAPABILITIES.append((group, name, seconds, function))
        return function

    return add


def needs(condition):
    """What the SDK must have for this."""
    if not condition:
        raise NotOffered


def needs_states():
    """Runtimes that tell what room is left and what sessions do: of 0.7."""
    needs(hasattr(BoxRuntime, "get_capacity"))


def check(condition, otherwise):
    """The sentence is what the table says of a runtime that fails."""
    if not condition:
        raise AssertionError(otherwise)


@contextlib.asynccontextmanager
async def refusal(error, otherwise):
    """What is done inside is refused with this class of the SDK."""
    try:
        yield
    except error:
        return
    except errors.BoxError as other:
        raise AssertionError(f"{otherwise}: {type(other).__name__}") from other
    raise AssertionError(otherwise)


def attach(host, session, process="default", **options):
    return websockets.connect(
        host.relay_url(session, process), subprotocols=["mcp"], additional_headers=host.headers(), proxy=None, **options
    )


def place(host, name):
    """A directory of the host that boxes may show."""
    found = Path(host.settings["directory"], "box", name)
    found.mkdir(parents=True, exist_ok=True)
    return found


async def appears(path):
    """A file that a box makes where the host sees it."""

    async def there():
        return path.exists()

    await until(there, f"the file {path.name}", 15)


async def begin_sleep(host, session):
    """A command that is at work when this returns."""
    shown = place(host, session)
    (shown / "started").unlink(missing_ok=True)
    command = host.exec(session, "touch started; sleep 16", host_path=str(shown), workdir="/workspace")
    running = asyncio.create_task(command)
    await appears(shown / "started")
    return running
