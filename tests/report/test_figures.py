# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Compares docs/why-not.md with the committed results: its figures, medians of three digits, and the peers that it
speaks of."""

from __future__ import annotations

import json
import re
import statistics
import unittest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "why-not.md"
ROW = re.compile(
    r"^\| \[`(?P<experiment>[^`]+)`\]\((?P<file>[^)]+)\), (?P<point>[^|]+) \| (?P<unit>[^|]+) \| (?P<cells>.*)$"
)
FIGURE = re.compile(r"`([^`]+)` ([0-9.,]+) \|")


def written(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.6g}" if value < 1e6 else f"{int(float(f'{value:.3g}')):,}"


def wrong_figures(text: str, page: Path) -> tuple[int, list[str]]:
    """The number of figures, and what is wrong with them."""
    count, wrong = 0, []
    for line in text.splitlines():
        row = ROW.match(line)
        if row is None:
            if "bench/results" in line and line.startswith("|"):
                wrong.append(f"not a row of figures: {line}")
            continue
        results = json.loads((page.parent / row["file"]).read_text(encoding="utf-8"))["results"]
        chart = next(r for r in results if r["experiment"] == row["experiment"])
        if chart["y"]["unit"] != row["unit"]:
            wrong.append(f"the unit is {chart['y']['unit']}: {line}")
        for name, value in FIGURE.findall(row["cells"]):
            count += 1
            points = next((s["points"] for s in chart["series"] if s["name"] == name), [])
            samples = next((p["samples"] for p in points if str(p["x"]) == row["point"]), None)
            found = written(statistics.median(samples)) if samples else "nothing"
            if found != value:
                wrong.append(f"{row['file']}, {row['experiment']}, {row['point']}, {name}: {found}, not {value}")
    return count, wrong


def peers() -> set[str]:
    """All peers that were measured."""
    found = set()
    for file in (PAGE.parents[1] / "bench" / "results").glob("*.json"):
        for result in json.loads(file.read_text(encoding="utf-8"))["results"]:
            found |= {series["name"] for series in result["series"] if series["role"] == "peer"}
    return found


WRITTEN = {
    "boost::context": "Boost.Context",
    "boost::fibers": "Boost.Fiber",
    "boost::interprocess": "Boost.Interprocess",
    "cds::": "libcds",
}


def unnamed(text: str, names: set[str]) -> list[str]:
    """The peers of which no word is in the text: of a library or of its structure."""
    lower, missing = text.lower(), []
    for name in sorted(names):
        words = [way for start, way in WRITTEN.items() if name.startswith(start)]
        words = words or re.findall(r"[\w:]{3,}", name.split(",")[0])
        if not any(word.lower() in lower for word in words):
            missing.append(name)
    return missing


class Figures(unittest.TestCase):
    def test_each_measured_peer_is_on_the_page(self) -> None:
        paragraphs = "\n".join(re.findall(r"^\*\*.*?(?=\n\n)", PAGE.read_text(encoding="utf-8"), re.S | re.M))
        names = peers()
        self.assertGreater(len(names), 50)
        self.assertEqual(unnamed(paragraphs, names), [])
        self.assertEqual(unnamed(paragraphs, {"another::pool, 2 workers"}), ["another::pool, 2 workers"])

    def test_are_those_of_the_committed_results(self) -> None:
        count, wrong = wrong_figures(PAGE.read_text(encoding="utf-8"), PAGE)
        self.assertEqual(wrong, [])
        self.assertGreater(count, 50)

    def test_another_figure_is_noticed(self) -> None:
        text = PAGE.read_text(encoding="utf-8")
        first = FIGURE.search(text)
        assert first is not None
        _, wrong = wrong_figures(text.replace(first.group(0), f"`{first[1]}` 1.25 |", 1), PAGE)
        self.assertEqual(len(wrong), 1)


if __name__ == "__main__":
    unittest.main()
