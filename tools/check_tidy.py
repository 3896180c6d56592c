#!/usr/bin/env python3
"""Runs clang-tidy over the sources in src/ that changed since they were last found clean.

Usage: check_tidy.py BUILD_DIR, which holds compile_commands.json. Tests are left out: the macros of
GoogleTest are not ours to mend. A clean file leaves a stamp named by a hash of all that decides about it:
its text, that of every header of ours it includes, its compile command and .clang-tidy.

Most of the time goes into outside headers, the same ones for each file. So files of a folder are checked
together, as one text. Where that finds anything, which may only be that two files use a name twice, the
group is halved until the files stand alone: a complaint is always about a file by itself. What a group
cannot show is a using-declaration that only another file of its folder needs.
"""
import concurrent.futures
import hashlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST_GROUP = 8
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def with_headers(path, seen):
    """The file and every header below src/ that it reaches."""
    if path in seen or not path.is_file():
        return seen
    seen[path] = path.read_bytes()
    for name in INCLUDE.findall(seen[path]):
        with_headers(ROOT / "src" / os.fsdecode(name), seen)
    return seen


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


def arguments(entry):
    """How the file is compiled, without its name, the result, a launcher and precompiled headers."""
    words = shlex.split(entry["command"])
    while words and "clang" not in os.path.basename(words[0]):
        words.pop(0)
    words = words[1:words.index("-o")]
    kept = []
    while words:
        word = words.pop(0)
        if word == "-Xclang":
            if words.pop(0) in ("-include-pch", "-include"):
                del words[:2]  # the next -Xclang and the file
        else:
            kept.append(word)
    return tuple(kept)


def groups(todo):
    """Lists of (stamp, entry) of one folder that are compiled alike."""
    alike = {}
    for stamp, entry in sorted(todo.items(), key=lambda item: item[1]["file"]):
        key = (os.path.dirname(entry["file"]), entry["directory"], arguments(entry))
        alike.setdefault(key, []).append((stamp, entry))
    for members in alike.values():
        count = math.ceil(len(members) / LARGEST_GROUP)
        yield from (members[i::count] for i in range(count))


def run_tidy(path, entry):
    return subprocess.run(["clang-tidy-16", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", path, "--",
                           *arguments(entry)], cwd=entry["directory"], capture_output=True, text=True)


def check(group):
    """The complaints by file name, none where it is clean."""
    entry = group[0][1]
    if len(group) == 1:
        result = run_tidy(entry["file"], entry)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as together:
            for _, member in group:
                together.write(f'#line 1 "{member["file"]}"\n{Path(member["file"]).read_text()}\n')
            together.flush()
            result = run_tidy(together.name, entry)
    if result.returncode == 0:
        for stamp, _ in group:
            stamp.touch()
        return {member["file"]: None for _, member in group}
    if len(group) == 1:
        # Standard error holds counts of suppressed warnings, and the reason when there is no output.
        return {entry["file"]: result.stdout or result.stderr}
    middle = len(group) // 2
    return check(group[:middle]) | check(group[middle:])


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build = Path(sys.argv[1]).resolve()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    current = {stamps / stamp_name(entry): entry for entry in sources(build)}
    for stamp in set(stamps.iterdir()) - set(current):
        stamp.unlink()
    todo = {stamp: entry for stamp, entry in current.items() if not stamp.exists()}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for run in concurrent.futures.as_completed([pool.submit(check, group) for group in groups(todo)]):
            for path, complaint in run.result().items():
                name = Path(path).relative_to(ROOT)
                if complaint is None:
                    print(f"clean {name}", flush=True)
                else:
                    failed += 1
                    print(f"{complaint}\nfailed {name}", flush=True)
    print(f"clang-tidy: {len(current)} files, {len(todo)} checked, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
