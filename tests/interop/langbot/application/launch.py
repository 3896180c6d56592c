"""Starts LangBot as `python -m langbot` does. Run by the interpreter of LangBot, not by that of the tests.

LangBot has no setting for two of its ports, nor for what it takes this machine for. Both are told here, so that it runs
beside others and in a container as it does on a host of its own: there it starts its runtimes itself."""

import os
import sys

sys.path.pop(0)  # the directory of this file, whose modules nobody shall meet

from langbot.pkg.box import connector  # noqa: E402
from langbot.pkg.utils import platform  # noqa: E402
from langbot_plugin.runtime.io.controllers.stdio import client  # noqa: E402

platform.get_platform = lambda: sys.platform
connector._DEFAULT_PORT = int(os.environ["TEST_BOX_PORT"])


class Controller(client.StdioClientController):
    """The plugin runtime opens a port for those who write plugins, however it is started."""

    def __init__(self, command, args, *others, **named):
        if "rt" in args:
            args = [*args, "--ws-debug-port", os.environ["TEST_PLUGIN_PORT"]]
        super().__init__(command, args, *others, **named)


client.StdioClientController = Controller

from langbot.__main__ import main  # noqa: E402

main()
