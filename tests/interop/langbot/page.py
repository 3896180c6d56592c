"""docs/compatibility.md, made of what the drivers found. The same findings give the same page."""

import os
import warnings

from rest.daemon import ROOT

from .runtimes import TRANSPORTS, VERSIONS

PAGE = ROOT / "docs" / "compatibility.md"
VARIABLE = "CAISSON_WRITE_COMPATIBILITY"
MARKS = {"ok": "yes", "failed": "**no**", "not offered": "–"}
HEAD = f"""# Compatibility with LangBot

Released versions of LangBot's SDK, `langbot-plugin`, try the daemon with their own client classes, over WebSocket and
over stdio, where the SDK starts `caisson box --stdio-control --ws-control-port N` in the place of `lbp box`. The same
scripts then try the runtime that comes with that SDK, on Docker with an image of a few programs. The boxes of Caisson
are those of the native backend.

The tests in `tests/interop/langbot` make this page. When what they find of Caisson is not what is written here they
fail, unless `{VARIABLE}=1` lets them write it anew.

yes: works; **no**: does not, and below is why; –: this version of the SDK has no such thing.
"""


def cell(finding):
    return MARKS[finding["result"]]


def table(found, version):
    lines = [
        f"\n## {version}\n",
        "| | Caisson, WebSocket | Caisson, stdio | its own, WebSocket | its own, stdio |",
        "| --- | --- | --- | --- | --- |",
    ]
    columns = [found[runtime, version, transport] for runtime in ("caisson", "own") for transport in TRANSPORTS]
    for name in columns[0]:
        lines.append(f"| {name} | " + " | ".join(cell(column[name]) for column in columns) + " |")
    return lines


def reasons(found, runtime):
    """One line for what fails in the same way over both transports."""
    lines = []
    for version in VERSIONS:
        told = {}
        for transport in TRANSPORTS:
            for name, finding in found[runtime, version, transport].items():
                if finding["result"] == "failed":
                    told.setdefault((name, finding["reason"]), []).append(transport)
        for (name, reason), transports in told.items():
            lines.append(f"| {version} | {name} | {', '.join(transports)} | {escape(reason)} |")
    return lines


def escape(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def render(found):
    lines = [HEAD.rstrip()]
    for version in VERSIONS:
        lines += table(found, version)
    for runtime, title in (("caisson", "What Caisson lacks"), ("own", "What the SDK's own runtime fails at")):
        told = reasons(found, runtime)
        lines.append(f"\n## {title}\n")
        if told:
            lines += ["| SDK | capability | transports | reason |", "| --- | --- | --- | --- |", *told]
        else:
            lines.append("Nothing of the above.")
    return "\n".join(lines) + "\n"


def ours(page):
    """What it says of Caisson: the first columns of the tables, and the part before the others' failures."""
    lines = page.partition("\n## What the SDK's own")[0].splitlines()
    return ["|".join(line.split("|")[:4]) for line in lines]


def check(found):
    page = render(found)
    if os.environ.get(VARIABLE) == "1":
        PAGE.write_text(page)
    written = PAGE.read_text() if PAGE.exists() else ""
    assert ours(written) == ours(page), f"{PAGE} tells something else: set {VARIABLE}=1 to write it anew"
    if written != page:
        # Some of their faults are races.
        warnings.warn(f"{PAGE} tells something else of the SDKs' own runtimes", stacklevel=2)
