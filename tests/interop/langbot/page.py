"""docs/compatibility.md, made of what the drivers found. The same findings give the same page."""

import os

from rest.daemon import ROOT

from .runtimes import TRANSPORTS, VERSIONS

PAGE = ROOT / "docs" / "compatibility.md"
VARIABLE = "CAISSON_WRITE_COMPATIBILITY"
MARKS = {"ok": "yes", "failed": "**no**", "not offered": "–", "not tried": "?"}
HEAD = """# Compatibility with LangBot

Released versions of LangBot's SDK, `langbot-plugin`, try the daemon with their own client classes, over WebSocket and
over stdio, where the SDK starts `caisson box --stdio-control --ws-control-port N` in the place of `lbp box`. The same
scripts then try the runtime that comes with that SDK, on Docker with an image of a few programs. The boxes of Caisson
are those of the native backend.

The tests in `tests/interop/langbot` make this page. When what they find of Caisson is not what is written here they
fail; `./test compatibility` tries the other runtimes, too, and writes it anew. They also fail when an SDK declares an action, a field,
a profile, a class of errors, a header or a variable that the daemon does not know, or that no row makes use of, and name
it. With `CAISSON_LANGBOT_SDK=newest`, or a version, `test_declared.py` asks that of one more release, from PyPI.

yes: works; **no**: does not, and below is why; –: this version of the SDK has no such thing; ?: not tried: the runtime
does not end with a connection over WebSocket, or takes another backend for this than Docker.
"""


def is_written():
    """Anew, with what the SDKs' own runtimes are capable of: to find that out takes minutes, and Docker."""
    return os.environ.get(VARIABLE) == "1"


def cell(column, name):
    """Of what nobody has asked for, nothing is known."""
    return MARKS[column[name]["result"]] if column else ""


def table(found, version):
    lines = [
        f"\n## {version}\n",
        "| | Caisson, WebSocket | Caisson, stdio | its own, WebSocket | its own, stdio |",
        "| --- | --- | --- | --- | --- |",
    ]
    columns = [found.get((runtime, version, transport)) for runtime in ("caisson", "own") for transport in TRANSPORTS]
    for name in columns[0]:
        lines.append(f"| {name} | " + " | ".join(cell(column, name) for column in columns) + " |")
    return lines


def reasons(found, runtime):
    """One line for what fails in the same way over both transports."""
    lines = []
    for version in VERSIONS:
        told = {}
        for transport in TRANSPORTS:
            for name, finding in found.get((runtime, version, transport), {}).items():
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
    if is_written():
        PAGE.write_text(page)
    written = PAGE.read_text() if PAGE.exists() else ""
    assert ours(written) == ours(page), f"{PAGE} tells something else: ./test compatibility writes it anew"
