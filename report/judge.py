#!/usr/bin/python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Say in a terminal what result files of muster-bench show, by the same judgement as the report's.

  python3 report/judge.py [--check] FILE...

--check: fails when the table of bars names a series that a complete run with all peers lacks. Exit status: 0, 1 when
--check finds something, 2 when no file could be read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bars
from claims import NOT_JUDGED, verdict
from load import BadFile, Result, absent_series, read_all
from verdict import judge_all

WORDS = {"reached": "reached", "missed": "MISSED", "open": "not judged"}


def lines_of(result: Result) -> list[str]:
    found = verdict(result)
    lines = [
        f"  {WORDS[j.state]:<11} {j.text}{' (within the noise)' if j.noisy else ''}"
        for j in judge_all(result)
    ]
    if found.word:
        lines.append(f"  {found.why if found.word == NOT_JUDGED else f'{found.word}: {found.why}'}")
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Judge result files of muster-bench.")
    parser.add_argument(
        "--check", action="store_true", help="fail when the table of bars names what a run lacks"
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    try:
        results, problems = read_all(options.files)
        bars.table()
    except (BadFile, bars.BadTable) as error:
        print(f"judge: {error}", file=sys.stderr)
        return 2
    for problem in problems:
        print(f"judge: {problem}", file=sys.stderr)
    if not results:
        return 2
    if options.check:
        stale = [
            f"{r.experiment}: '{name}'"
            for r in results
            for name, why in absent_series(r)
            if why == "it was not measured"
        ]
        for one in stale:
            print(f"judge: bars.toml names a series that there is not: {one}", file=sys.stderr)
        return 1 if stale else 0
    for result in results:
        if lines := lines_of(result):
            print(f"{result.experiment} ({result.run.profile})")
            print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
