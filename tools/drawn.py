# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Common to the programs that draw docs/pictures: texts of an SVG, and the command line with --check and --write."""

import argparse
from collections.abc import Callable
from pathlib import Path


def text(x: float, y: float, words: str, style: str) -> str:
    return f'  <text x="{x:g}" y="{y:g}" class="{style}">{words}</text>'


def run(program: str, picture: str, draw: Callable[[Path], str], arguments: list[str] | None) -> int:
    """Draws the picture, or compares it with the one that would be drawn. Returns the exit status."""
    parser = argparse.ArgumentParser(prog=program, description=f"Draws {picture}; --check compares.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true")
    action.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    file, wanted = options.root / picture, draw(options.root)
    if options.write:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wanted, encoding="utf-8")
    elif not file.is_file() or file.read_text(encoding="utf-8") != wanted:
        print(f"{picture} is not what {program} would draw now: run {program} --write, look at it, commit it")
        return 1
    return 0
