#!/usr/bin/env python3
"""Runs clang-tidy over the sources in src/ that changed since they were last found clean.

Usage: check_tidy.py BUILD_DIR, which holds compile_commands.json. Tests are left out: the macros of
GoogleTest are not ours to mend. A clean file leaves a stamp named by a hash of all that decides about it:
its text, that of every header of ours it includes, its compile command and .clang-tidy.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The precompiled headers are those of Boost.Asio above all: with them, every check looks at all of it.
PRECOMPILED = re.compile(r" -Xclang -include-pch -Xclang \S+ -Xclang -include -Xclang \S+")
ASIO = re.compile(rb'^\s*#\s*include\s*<boost/asio', re.MULTILINE)
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def with_headers(path, seen):
    """The file and every header below src/ that it reaches."""
    if path in seen or not path.is_file():
        return seen
    seen[path] = path.read_bytes()
    for name in INCLUDE.findall(seen[path]):
        with_headers(ROOT / "src" / os.fsdecode(name), seen)
    return seen


def without_precompiled(entry):
    """The entry as it is checked: a file that has nothing to do with Boost.Asio does without it."""
    parts = with_headers(Path(entry["file"]), {})
    if any(ASIO.search(text) for text in parts.values()):
        return entry
    return {**entry, "command": PRECOMPILED.sub("", entry.get("command", ""))}


def stamp_name(entry):
    parts = with_headers(Path(entry["file"]), {})
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(entry.get("command", "").encode())
    for path in sorted(parts):
        digest.update(f"\0{path}\0".encode() + parts[path])
    return digest.hexdigest()


def sources(build):
    """One entry for each file, also when several programs are made of it."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if path.is_relative_to(ROOT / "src") and path.suffix == ".cc" \
                and not path.stem.endswith("_test"):
            found.setdefault(path, entry)
    return found.values()


def check(build, entry, stamp):
    result = subprocess.run(["clang-tidy-16", "--quiet", "-p", build, entry["file"]],
                            capture_output=True, text=True)
    if result.returncode == 0:
        stamp.touch()
        return None
    # Standard error holds counts of suppressed warnings, and the reason when there is no output.
    return result.stdout or result.stderr


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build = Path(sys.argv[1]).resolve()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    entries = [without_precompiled(entry) for entry in sources(build)]
    commands = stamps / "compile_commands.json"
    commands.write_text(json.dumps(entries))
    current = {stamps / stamp_name(entry): entry for entry in entries}
    for stamp in set(stamps.iterdir()) - set(current) - {commands}:
        stamp.unlink()
    todo = {stamp: entry for stamp, entry in current.items() if not stamp.exists()}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(check, stamps, entry, stamp): entry for stamp, entry in todo.items()}
        for run in concurrent.futures.as_completed(runs):
            name = Path(runs[run]["file"]).relative_to(ROOT)
            if run.result() is None:
                print(f"clean {name}", flush=True)
            else:
                failed += 1
                print(f"{run.result()}\nfailed {name}", flush=True)
    print(f"clang-tidy: {len(current)} files, {len(todo)} checked, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
