#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""One chart of one experiment as a file of its own, for the README.

Usage: report/picture.py RESULTS.json EXPERIMENT OUT.svg SERIES...
Draws the medians of the named series with their quartiles; the first series is drawn thick.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend first)

from load import read_file  # noqa: E402
from stats import summarize  # noqa: E402

COLOURS = ["#0b5fa5", "#0b5fa5", "#c2410c", "#7c3aed", "#15803d", "#a16207", "#6b7280", "#be185d"]
MARKERS = "osD^vPX*"


def main() -> int:
    if len(sys.argv) < 5:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    source, experiment, out, names = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
    result = next((r for r in read_file(source)[0] if r.experiment == experiment), None)
    if result is None:
        print(f"picture.py: {source} has no experiment {experiment}", file=sys.stderr)
        return 2
    found = {series.name: series for series in result.series}
    missing = [name for name in names if name not in found]
    if missing:
        print(f"picture.py: {experiment} has no series {', '.join(missing)}; it has {', '.join(found)}",
              file=sys.stderr)
        return 2
    plt.rcParams.update({"svg.hashsalt": experiment, "svg.fonttype": "none", "font.family": "sans-serif",
                         "font.size": 11})
    figure, axes = plt.subplots(figsize=(8, 4))
    for number, name in enumerate(names):
        points = [(point.x, summarize(point.samples)) for point in found[name].points if point.samples]
        xs, medians = [x for x, _ in points], [s.median for _, s in points]
        low = [s.median - s.q1 for _, s in points]
        high = [s.q3 - s.median for _, s in points]
        axes.errorbar(xs, medians, yerr=[low, high], label=name, color=COLOURS[number % 8], marker=MARKERS[number % 8],
                      linewidth=3 if number == 0 else 1.5, linestyle="--" if number == 1 else "-", capsize=2)
    axes.set_xscale("log", base=2)
    ticks = sorted({point.x for name in names for point in found[name].points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(result.x_name)
    axes.set_ylabel(f"{result.y_name}, {result.y_unit}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, bbox_inches="tight", metadata={"Date": None}, facecolor="white")
    return 0


if __name__ == "__main__":
    sys.exit(main())
