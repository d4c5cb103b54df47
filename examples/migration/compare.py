#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that uses another library and the same program with muster: both must print what a file says.

Exit status 77, a skip, where the other library's program could not be compiled; muster's has been checked then.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def fault(name, program, expected):
    """The fault of the program, or nothing."""
    ended = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    if ended.returncode != 0:
        return f"{name} ended with status {ended.returncode}: {ended.stderr.strip()}"
    if ended.stdout != expected:
        return f"{name} printed {ended.stdout!r}, and should print {expected!r}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="the file with what both must print")
    parser.add_argument("--ours", required=True, help="the program with muster")
    parser.add_argument("--theirs", required=True, help="the program with the other library, or empty")
    parser.add_argument("--missing", required=True, help="the reason why there is no such program")
    options = parser.parse_args()

    expected = options.output.read_text(encoding="utf-8")
    programs = [("ours", options.ours)] + ([("theirs", options.theirs)] if options.theirs else [])
    faults = [said for name, program in programs if (said := fault(name, program, expected))]
    for said in faults:
        print(said, file=sys.stderr)
    if faults:
        return 1
    if not options.theirs:
        print(f"the other library's program is not compared: it is {options.missing}")
        return 77
    print("both programs print the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
