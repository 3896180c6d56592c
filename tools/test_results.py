#!/usr/bin/env python3
"""Counts the tests of one stage: prints "PASSED FAILED SKIPPED".

Usage: test_results.py DIRECTORY. It holds junit.xml of ctest or pytest and, for programs of GoogleTest,
gtest/PROGRAM.xml. A program that has such a file counts with its test cases, any other as one test; one
that failed without a failed case (a crash, a time-out, a leak) counts as one failure more.
"""
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def parse(path):
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None


def outcome(case):
    """Of a <testcase> in any of the three dialects."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "failed" if case.get("status") == "fail" else "passed"


def count(directory):
    totals = Counter()
    junit = parse(directory / "junit.xml")
    for case in junit.iter("testcase") if junit is not None else ():
        result = outcome(case)
        program = parse(directory / "gtest" / f"{case.get('name')}.xml")
        if program is None:
            totals[result] += 1
            continue
        inner = Counter(outcome(test) for test in program.iter("testcase"))
        if result == "failed" and not inner["failed"]:
            inner["failed"] = 1
        totals += inner
    return totals


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    found = count(Path(sys.argv[1]))
    print(found["passed"], found["failed"], found["skipped"])
