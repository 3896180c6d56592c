"""A plugin of LangBot 4.11, where all that talks to models is one."""

from langbot_plugin.api.definition.plugin import BasePlugin


class Scripted(BasePlugin):
    pass
