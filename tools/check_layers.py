#!/usr/bin/env python3
"""Checks every #include in src/ against tools/layers.txt.

Usage: check_layers.py [ROOT]. Prints one line per violation and exits 1 when there is any.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = (".h", ".cc", ".c", ".S")


class Layers:
    """The rules of layers.txt."""

    def __init__(self, text):
        self.allowed = {}  # module -> modules it may include
        self.tests = {}  # module -> modules its tests may include besides
        self.outside = {}  # prefix of an outside header -> modules that may include it
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if line:
                self._add(line, f"tools/layers.txt:{number}")

    def _add(self, line, place):
        subject, colon, names = line.partition(":")
        if not colon:
            raise SystemExit(f"{place}: there is no ':' in \"{line}\"")
        modules = self._expand(names.split(), place)
        if subject.startswith("tests of "):
            self.tests[self._known(subject[len("tests of "):], place)] = modules
        elif subject.startswith("outside "):
            self.outside[subject[len("outside "):]] = modules
        else:
            self.allowed[subject] = modules

    def _known(self, name, place):
        if name not in self.allowed:
            raise SystemExit(f"{place}: {name} has no line above")
        return name

    def _expand(self, names, place):
        modules = set()
        for name in names:
            if name.endswith("/*"):
                modules.update(m for m in self.allowed if m.startswith(name[:-1]))
            else:
                modules.add(self._known(name, place))
        return modules

    def module_of(self, path):
        """The module of a path below src/, or None."""
        return _longest_prefix(self.allowed, path.rpartition("/")[0])

    def violation(self, module, is_test, quoted, header):
        """What is wrong with an include, or None."""
        if quoted:
            target = self.module_of(header)
            if target is None:
                return f'"{header}" names no module'
            allowed = self.allowed[module] | (self.tests.get(module, set()) if is_test else set())
            return None if target in allowed | {module} else f"{module} may not include {target}"
        prefix = _longest_prefix(self.outside, header)
        if prefix is None or _longest_prefix(self.outside[prefix], module):
            return None
        return f"{module} may not include <{prefix}>"


def _longest_prefix(names, path):
    fitting = [n for n in names if path == n or path.startswith(n + "/")]
    return max(fitting, key=len, default=None)


def violations(root):
    layers = Layers((root / "tools/layers.txt").read_text())
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in SOURCES or not path.is_file():
            continue
        name = path.relative_to(root)
        module = layers.module_of(path.relative_to(root / "src").as_posix())
        if module is None:
            yield f"{name}:1: its folder has no line in tools/layers.txt"
            continue
        is_test = path.stem.endswith("_test")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            include = INCLUDE.match(line)
            wrong = include and layers.violation(module, is_test, include[1] == '"', include[2])
            if wrong:
                yield f"{name}:{number}: {wrong}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    found = list(violations(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
