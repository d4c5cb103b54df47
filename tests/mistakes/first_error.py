#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles each mistake of mistakes.cpp, and checks that it is refused and that the first error names it.

Usage: first_error.py COMPILER INCLUDE_DIRECTORY
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("mistakes.cpp")


def first_error(command: list[str], mistake: str) -> str | None:
    """None: it compiles."""
    done = subprocess.run([*command, f"-DMISTAKE={mistake}", str(SOURCE)], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr)


def main() -> int:
    compiler, include = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        return look([compiler, "-std=c++20", f"-I{include}"], Path(directory) / "all.hpp")


def look(command: list[str], header: Path) -> int:
    # The headers are compiled once. Both compilers look for the outcome under this name.
    parts = ("combine", "fork", "queue")
    header.write_text("".join(f"#include <muster/{part}.hpp>\n" for part in parts), encoding="utf-8")
    subprocess.run([*command, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    command += ["-fsyntax-only", "-include", str(header)]
    text = SOURCE.read_text(encoding="utf-8")
    mistakes = re.findall(r"^#(?:el)?if MISTAKE == (\d+) +// says: (.*)$", text, re.MULTILINE)
    failures = 0
    if (error := first_error(command, "0")) is not None:
        print(f"without a mistake it must compile: {error}")
        failures += 1
    for number, says in mistakes:
        error = first_error(command, number)
        if error is None or says not in error:
            print(f"mistake {number}: expected an error that says '{says}', found {error or 'none'}")
            failures += 1
    print(f"{len(mistakes)} mistakes, {failures} without a first error that names them")
    return 1 if failures or not mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
