#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/choice.svg: which class or function of the library solves which problem.

Every name in it must be declared in include/muster, or in the Python package.

Usage: tools/choice_picture.py --check | --write  [--root DIR]
  --check   exit status 1 when the picture is not the one that would be drawn, or a name is unknown
  --write   draws it
"""

import re
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

import drawn

PICTURE = "docs/pictures/choice.svg"


class Problem(NamedTuple):
    lines: tuple[str, ...]
    cases: tuple[tuple[str, str], ...]  # what is special about it, and what to use


PROBLEMS = (
    Problem(("Threads pass", "items to each other"), (
        ("one thread to one thread", "spsc_queue"),
        ("one thread to many", "spmc_queue"),
        ("many to many, in one order", "mpmc_queue"),
        ("many to many, in the order of each producer", "lanes"),
        ("one thread waits for several queues", "select"),
        ("an event loop or a coroutine waits", "notify_fd, async_pop"),
    )),
    Problem(("Processes pass items,", "and may be killed"), (
        ("items of one fixed size", "shared_queue"),
        ("messages of any length", "shared_bytes"),
        ("Python objects and arrays", "muster.Queue"),
    )),
    Problem(("Many threads", "update one object"), (
        ("fibers, or results that can wait", "osci"),
        ("fibers of several threads in one batch", "osci_shared"),
        ("threads without fibers", "cc_synch"),
        ("a waiting thread may be stopped", "flat_combining"),
        ("any thread may be stopped anywhere", "psim"),
        ("the object is an unbounded queue or stack", "combining_queue, combining_stack"),
        ("the object is a number", "counter"),
    )),
    Problem(("Work should use", "all processors"), (
        ("a recursion", "fork2, parallel_invoke"),
        ("a loop, sum, scan or sort", "parallel_for, parallel_reduce, parallel_sort"),
        ("functions whose results are needed later", "pool, future, task_group"),
        ("functions that depend on each other", "task_graph"),
        ("a stream of items through several stages", "pipeline"),
    )),
    Problem(("A CUDA kernel", "needs memory"), (
        ("of any size, at any time", "gpu::heap"),
        ("the same, as XMalloc does it", "xmalloc"),
    )),
    Problem(("Code cannot", "be trusted"), (
        ("a parser, a decoder, a plug-in, a program", "sandbox"),
    )),
)

COMMENT = re.compile(r"//.*")
ROW, GAP, TOP, BOX = 22, 16, 20, 54
LEFT, CASES, NAMES, WIDTH = 20, 236, 570, 930


def height_of(problem: Problem) -> int:
    return max(ROW * len(problem.cases), BOX)


def unknown_names(root: Path) -> list[str]:
    """The names in the picture that the library does not declare."""
    headers = "\n".join(COMMENT.sub("", file.read_text(encoding="utf-8"))
                        for file in sorted((root / "include/muster").rglob("*.*")))
    python = "\n".join(file.read_text(encoding="utf-8") for file in sorted((root / "python").rglob("*.py*"))
                       if file.suffix in (".py", ".pyi"))
    missing = []
    for problem in PROBLEMS:
        for _, names in problem.cases:
            for name in names.split(", "):
                simple = re.split(r"::|\.", name)[-1]
                where = python if name.startswith("muster.") else headers
                if not re.search(rf"\b(?:class|struct|using)\s+{simple}\b|\b{simple}\(", where):
                    missing.append(name)
    return missing


def draw(root: Path) -> str:
    missing = unknown_names(root)
    if missing:
        raise SystemExit(f"{PICTURE}: the library does not declare {', '.join(missing)}: "
                         f"bring PROBLEMS in tools/choice_picture.py up to date")
    height = 2 * TOP + sum(height_of(problem) + GAP for problem in PROBLEMS) - GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        "  <!-- SPDX-FileCopyrightText: the muster authors -->",
        "  <!-- SPDX-License-Identifier: Apache-2.0 -->",
        "  <!-- Drawn by tools/choice_picture.py. -->",
        "  <title>Which part of muster solves which problem</title>",
        "  <style>",
        "    text { font-family: 'DejaVu Sans', Verdana, sans-serif; font-size: 13px; fill: #1f2933 }",
        "    .problem { font-weight: bold; text-anchor: middle }",
        "    .name { font-family: 'DejaVu Sans Mono', monospace; font-size: 12.5px; fill: #1d4f8c }",
        "    .page { fill: #ffffff } .box { fill: #dbe8f7; stroke: #4a76ac }",
        "    .way { fill: none; stroke: #8a97a5; stroke-width: 1.3 } .dots { stroke-dasharray: 1 4 }",
        "  </style>",
        f'  <rect width="{WIDTH}" height="{height}" class="page"/>',
    ]
    y = TOP
    for problem in PROBLEMS:
        middle, right = y + height_of(problem) / 2, LEFT + 176
        lines.append(f'  <rect x="{LEFT}" y="{middle - BOX / 2:g}" width="176" height="{BOX}" rx="6" class="box"/>')
        for i, words in enumerate(problem.lines):
            base = middle + 4.5 + 17 * (i - (len(problem.lines) - 1) / 2)
            lines.append(drawn.text(LEFT + 88, base, escape(words), "problem"))
        for i, (case, names) in enumerate(problem.cases):
            at = middle + ROW * (i + 0.5 - len(problem.cases) / 2)
            lines.append(f'  <path d="M{right},{middle:g} C{right + 22},{middle:g} {CASES - 28},{at:g} '
                         f'{CASES - 6},{at:g}" class="way"/>')
            lines.append(drawn.text(CASES, at + 4.5, escape(case), "case"))
            lines.append(f'  <path d="M{CASES + 8 + 7.4 * len(case):g},{at:g} H{NAMES - 10}" class="way dots"/>')
            lines.append(drawn.text(NAMES, at + 4.5, escape(names), "name"))
        y += height_of(problem) + GAP
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(drawn.run("tools/choice_picture.py", PICTURE, draw, None))
