# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Read result files of muster-bench (bench/schema/result-2.schema.json).

Data that does not fit the schema is left out, as little as possible: a point, a series, an experiment, or the whole
file. A sentence for each names the file and the place, the error and the remedy; the rest is shown.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema

import bars
from bars import ROLES, Bar  # noqa: F401 - re-exported to readers of results

SCHEMA = Path(__file__).resolve().parents[1] / "bench" / "schema" / "result-2.schema.json"
AGAIN = "run the experiment again"


class BadFile(Exception):
    """The file cannot be read at all; the text is one line with the reason and the remedy."""


@dataclass
class Point:
    x: float | str
    samples: list[float]
    checked: bool
    cpu_seconds: list[float]
    peak_memory: float | None


@dataclass
class Series:
    name: str
    role: str
    note: str
    failed: str  # why the series failed its own check, at least in part; empty when it did not
    refused: bool  # the file calls the series failed: none of its points counts
    points: list[Point]

    def at(self, x: float | str) -> Point | None:
        return next((point for point in self.points if point.x == x), None)


@dataclass
class Run:
    """The data that all results of one file share."""

    path: Path
    machine: dict[str, Any]
    build: dict[str, Any]
    profile: str
    date: str
    command: str
    units: int
    pinned: bool | None
    complete: bool
    missing: dict[str, str]  # what is not in this build, and why
    charts: dict[str, Result] = field(default_factory=dict)  # all results of the file by their ids

    @property
    def machine_key(self) -> str:
        return json.dumps([self.machine.get(key) for key in ("cpu", "cores", "kernel")], sort_keys=True)


@dataclass
class Result:
    run: Run
    experiment: str
    part: str
    source: str
    title: str
    setting: str
    x_name: str
    x_unit: str
    x_scale: str
    y_name: str
    y_unit: str
    better: str
    series: list[Series]
    replaced: int = 0  # how many older results of the same experiment this one stands for

    @property
    def claim(self) -> str:
        return bars.table().get(self.experiment, {}).get("claim", "")

    @functools.cached_property
    def bars(self) -> list[Bar]:
        found: list[Bar] = []
        for bar in bars.bars_of(self.experiment, self.run):
            ours = self.named(bar.ours)
            if bar.x == "each" and ours is not None:
                found += [replace(bar, x=p.x, x_against=p.x) for p in ours.points]
            else:
                found.append(bar)
        return found

    @functools.cached_property
    def sentences(self) -> list[dict[str, Any]]:
        return bars.entries(self.experiment, "paper", self.run)

    @property
    def simulated(self) -> bool:
        return self.part == "simulated"

    def named(self, name: str) -> Series | None:
        return next((series for series in self.series if series.name == name), None)

    @property
    def xs(self) -> list[float | str]:
        """Every x in use: sorted when they are numbers, in order of appearance when they are names."""
        seen = dict.fromkeys(point.x for series in self.series for point in series.points)
        return list(seen) if self.x_scale == "category" else sorted(seen)


@functools.cache
def _validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def _is_measurable(sample: float) -> bool:
    """Differences and the like may be negative, so any number that fits a float."""
    try:
        return math.isfinite(sample)
    except OverflowError:
        return False


class _Reader:
    """One file, and what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def problem(self, where: str, what: str, left_out: str) -> None:
        self.problems.append(
            f"{self.path.name}: {where}{': ' if where else ''}{what}; {left_out} is left out: {AGAIN}"
        )

    def document(self) -> dict[str, Any] | None:
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            self.problem("", f"cannot be read ({error.strerror})", "it")
            return None
        except UnicodeDecodeError as error:
            self.problem("", f"is not text in UTF-8 ({error.reason}, byte {error.start})", "it")
            return None
        try:
            document = json.loads(text)
        except ValueError as error:
            self.problem("", f"is not JSON, or was cut off ({' '.join(str(error).split())})", "it")
            return None
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != 2:
            self.problem("", f"has schema {schema!r}, and this report reads 2", "it")
            return None
        return self.without_errors(document)

    def without_errors(self, document: dict[str, Any]) -> dict[str, Any] | None:
        """The document without the smallest parts that do not fit the schema."""
        gone: set[tuple[Any, ...]] = set()
        for error in _validator().iter_errors(document):
            path = tuple(error.absolute_path)
            # results, i, series, j, points, k
            depth = next((n for n in (6, 4, 2) if len(path) >= n and path[0] == "results"), 0)
            if depth == 6 and path[4] != "points":
                depth = 4
            if depth == 4 and path[2] != "series":
                depth = 2
            place = path[:depth]
            if place in gone:
                continue
            gone.add(place)
            what = error.message if len(error.message) < 120 else error.message[:117] + "..."
            inside = ".".join(str(one) for one in path[depth:])
            self.problem(
                self.told(document, place),
                f"{inside + ': ' if inside else ''}{what}",
                {6: "the point", 4: "the series", 2: "the experiment", 0: "the file"}[depth],
            )
        if () in gone:
            return None
        for place in sorted(
            gone,
            key=lambda place: [(0, one) if isinstance(one, int) else (1, one) for one in place],
            reverse=True,
        ):
            owner: Any = document
            for step in place[:-1]:
                owner = owner[step]
            owner.pop(place[-1])
        return document

    @staticmethod
    def told(document: dict[str, Any], place: tuple[Any, ...]) -> str:
        """The names of what lies at a place of the document."""
        names, owner = [], document
        for step in place:
            owner = owner[step]
            if isinstance(owner, dict):
                names.append(
                    str(next((owner[key] for key in ("experiment", "name", "x") if key in owner), step))
                )
        return ", ".join(names)

    def run(self, document: dict[str, Any]) -> Run:
        found = Run(
            self.path,
            document["machine"],
            document["build"],
            document["profile"],
            document["date"],
            document["command"],
            document["units"],
            document.get("pinned"),
            document["complete"],
            {one["name"]: one["reason"] for one in document.get("missing", [])},
        )
        if not found.complete:
            self.problems.append(
                f"{self.path.name}: the run was cut off; {len(document['results'])} charts of it are shown"
            )
        for one in document.get("left_out", []):
            self.problems.append(f"{self.path.name}: {one['experiment']} was not run: {one['reason']}")
        return found

    def points(self, where: str, items: list[dict[str, Any]], category: bool, failed: bool) -> list[Point]:
        points: list[Point] = []
        for item in items:
            here = f"{where}, {item['x']}"
            if any(point.x == item["x"] for point in points):
                self.problem(here, "is there twice", "the second")
            elif not all(map(_is_measurable, item["samples"])):
                self.problem(here, "a sample is not a number that can be measured", "the point")
            elif isinstance(item["x"], str) and not category:
                self.problem(here, "x is text, on an axis of numbers", "the point")
            else:
                if not item["samples"] and item["checked"] and not failed:
                    self.problem(here, "has no samples", "the point")
                points.append(
                    Point(
                        item["x"],
                        [float(one) for one in item["samples"]],
                        item["checked"],
                        item.get("cpu_seconds", []),
                        item.get("peak_memory") or None,
                    )
                )
        return points

    def series(self, where: str, item: dict[str, Any], category: bool) -> Series:
        failed = item.get("failed", "")
        points = self.points(f"{where}, {item['name']}", item["points"], category, bool(failed))
        if not failed and any(not point.checked for point in points):
            failed = "results failed the check at " + ", ".join(str(p.x) for p in points if not p.checked)
        return Series(
            item["name"], item["role"], item.get("note", ""), failed, bool(item.get("failed")), points
        )

    def result(self, item: dict[str, Any], run: Run) -> Result:
        experiment, x, y = item["experiment"], item["x"], item["y"]
        scale = x.get("scale") or ""
        series: list[Series] = []
        for one in item["series"]:
            if any(other.name == one["name"] for other in series):
                self.problem(f"{experiment}, {one['name']}", "is there twice", "the second")
            else:
                series.append(self.series(experiment, one, scale in ("", "category")))
        if not scale:
            named = any(isinstance(point.x, str) for one in series for point in one.points)
            scale = "category" if named else "linear"
        return Result(
            run,
            experiment,
            item["part"],
            item.get("source", ""),
            item.get("title", ""),
            item.get("setting", ""),
            x["name"],
            x.get("unit", ""),
            scale,
            y["name"],
            y.get("unit", ""),
            y["better"],
            series,
        )


def read_file(path: Path) -> tuple[list[Result], list[str]]:
    """The results of a file, and a sentence for each thing that is wrong with it."""
    reader = _Reader(path)
    document = reader.document()
    if document is None:
        return [], reader.problems
    run = reader.run(document)
    for item in document["results"]:
        if item["experiment"] in run.charts:
            reader.problem(item["experiment"], "is there twice", "the second")
        else:
            run.charts[item["experiment"]] = reader.result(item, run)
            add_values(run.charts[item["experiment"]])
    for chart in run.charts.values():
        reasons: dict[str, list[str]] = {}
        for name, why in absent_series(chart):
            reasons.setdefault(why, []).append(name)
        reader.problems += [
            f"{path.name}: {chart.experiment} lacks {' and '.join(repr(name) for name in names)}: {why}"
            for why, names in reasons.items()
        ]
    return list(run.charts.values()), reader.problems


def add_values(result: Result) -> None:
    """The values of the table that bars compare with, each as a line over the whole chart; also in older files."""
    entries = bars.entries(result.experiment, "bars", result.run, result.y_name) if result.series else []
    for name, value in {one["against"]: float(one["value"]) for one in entries if "value" in one}.items():
        result.series = [one for one in result.series if one.name != name]
        points = [Point(x, [value], True, [], None) for x in result.xs]
        result.series.append(Series(name, "limit", "a bar, not measured", "", False, points))


def absent_series(result: Result) -> list[tuple[str, str]]:
    """The series that the table names and the chart lacks, and why."""
    if not result.series:
        here = result.setting.partition("NOT HERE: ")[2]
        return [("every series", here or why_absent(result.run, ""))]
    wanted: set[str] = set()
    for kind in ("bars", "paper"):
        for entry in bars.entries(result.experiment, kind, result.run, result.y_name):
            charts = entry.get("charts")
            if not charts:  # the others are looked for in the charts that they name
                wanted |= bars.names_of(entry)
    return [(name, why_absent(result.run, name)) for name in sorted(wanted) if result.named(name) is None]


def why_absent(run: Run, name: str) -> str:
    """The file's reason why a series or experiment is missing."""
    for peer, reason in run.missing.items():
        if name.lower().startswith(peer.lower().split(" ")[0].split(",")[0]):
            return f"{peer}: {reason}"
    for part, reason in bars.read().get("absent", {}).items():
        if part in name:
            return reason
    return "it was not measured" if run.complete else "the run was cut off"


def find_files(inputs: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in inputs:
        if path.is_dir():
            files += sorted(path.rglob("*.json"))
        elif path.exists():
            files.append(path)
        else:
            raise BadFile(f"{path}: there is no such file or directory")
    return list(dict.fromkeys(file.resolve() for file in files))


def read_all(inputs: list[Path]) -> tuple[list[Result], list[str]]:
    results: list[Result] = []
    problems: list[str] = []
    for path in find_files(inputs):
        found, wrong = read_file(path)
        results += found
        problems += wrong
    return results, problems


def merge(results: list[Result]) -> list[Result]:
    """Keep one result of every experiment and machine: the newest of the fullest profile.

    Samples of different runs are never pooled: only ratios within one run mean something. The page says how many other
    results were left out.
    """
    alike: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        alike.setdefault((result.experiment, result.run.machine_key), []).append(result)
    kept = []
    for group in alike.values():
        # The last of equals.
        newest = max(
            reversed(group), key=lambda r: (("smoke", "quick", "full").index(r.run.profile), r.run.date)
        )
        newest.replaced = len(group) - 1
        kept.append(newest)
    return kept
