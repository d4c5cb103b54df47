#!/usr/bin/python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The README's picture: for each part the sentence of the report's first page, from the committed results.

Usage: report/parts_picture.py (--check | --write)     compares docs/pictures/parts.svg with it, or writes it
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from html import escape
from pathlib import Path

from load import merge, read_all
from page import HEADLINES, Headline, said, values_of
from stats import number

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "pictures" / "parts.svg"
# Of the headlines; combining shows most where there are many cores.
NAMES = {
    "queue": "Queues",
    "simulated": "Combining",
    "fork": "Fork/join",
    "gpu": "GPU memory",
    "syscall": "Sandboxes",
    "python": "Python",
}
COLUMNS, WIDTH, HEIGHT, GAP, MARGIN = 2, 470, 176, 16, 14
LINE, BAR, LABELS = 64, 18, 200  # letters of a line; height of a bar; width of the names beside bars

STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2430; }
  .part { font-size: 16px; font-weight: 600; }
  .value, .unit { font-size: 12px; }
  .unit { fill: #5b6270; }
  .card { fill: #f6f7f9; stroke: #dfe2e8; }
  .ours { fill: #0b5fa5; }
  .other { fill: #a9b1bf; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7ed; }
    .unit { fill: #a2a9b6; }
    .card { fill: #1b1f27; stroke: #343a46; }
    .ours { fill: #5aa9ee; }
    .other { fill: #596273; }
  }
"""


def bars_of(head: Headline, result, x) -> list[tuple[str, float, bool]]:
    """Name, value, and whether it is ours: ours first, then the ones that the sentence names."""
    ours, others = values_of(head, result, x)
    return [(head.series[0], ours, True), *((name, value, False) for name, value in others)]


def card(head: Headline, results: list, left: int, top: int) -> list[str]:
    told = said(head, results)
    if told is None:
        raise SystemExit(f"parts_picture.py: bench/results has no {head.experiment}")
    sentence, result, x = told
    lines = [f'<rect class="card" x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>']

    def text(at: float, down: float, what: str, kind: str = "", anchor: str = "start") -> None:
        lines.append(
            f'<text x="{at:g}" y="{top + down:g}"{f" class={kind!r}" if kind else ""} text-anchor="{anchor}">'
            f"{escape(what)}</text>".replace("'", '"')
        )

    text(left + MARGIN, 26, NAMES[head.part], "part")
    down = 48
    for line in textwrap.wrap(sentence, LINE, break_on_hyphens=False):
        text(left + MARGIN, down, line)
        down += 17
    bars = bars_of(head, result, x)
    room = WIDTH - 2 * MARGIN - LABELS - 70
    best = max(value for _, value, _ in bars)
    down = HEIGHT - 14 - BAR * len(bars) - 10
    for name, value, is_ours in bars:
        shown = name if len(name) <= 30 else name[:29] + "…"
        text(left + MARGIN + LABELS - 8, down + 13, shown, "value", "end")
        wide = max(2.0, room * value / best)
        kind = "ours" if is_ours else "other"
        place = f'x="{left + MARGIN + LABELS}" y="{top + down}"'
        lines.append(f'<rect class="{kind}" {place} width="{wide:.1f}" height="{BAR - 4}"/>')
        text(left + MARGIN + LABELS + wide + 6, down + 12, number(value), "value")
        down += BAR
    what = result.y_unit or result.y_name
    text(left + WIDTH - MARGIN, HEIGHT - 8, f"{what}, {result.better} is better", "unit", "end")
    return lines


def draw() -> str:
    found, _ = read_all([ROOT / "bench" / "results"])
    results = merge(found)
    heads = sorted((head for head in HEADLINES if head.part in NAMES), key=lambda head: list(NAMES).index(head.part))
    rows = -(-len(heads) // COLUMNS)
    width, height = COLUMNS * WIDTH + (COLUMNS - 1) * GAP, rows * HEIGHT + (rows - 1) * GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {width + 2} {height + 2}" role="img">',
        "<!-- SPDX-FileCopyrightText: the muster authors -->",
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        "<!-- Drawn by report/parts_picture.py. -->",
        "<title>The parts, measured</title>",
        f"<style>{STYLE}</style>",
    ]
    for i, head in enumerate(heads):
        lines += card(head, results, i % COLUMNS * (WIDTH + GAP), i // COLUMNS * (HEIGHT + GAP))
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="fail if the picture is another")
    what.add_argument("--write", action="store_true", help="write the picture")
    options = parser.parse_args()
    drawn = draw()
    if options.write:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != drawn:
        print("docs/pictures/parts.svg does not show the committed results: report/parts_picture.py --write draws it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
