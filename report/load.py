# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Read and validate result files of muster-bench.

A result file is refused as a whole when a required key is missing or has the wrong type: a report that
silently leaves out half a file would be worse than none. Keys that this version does not know are ignored,
so that a newer driver can add some without breaking an older report.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
ROLES = ("ours", "paper", "baseline", "peer", "limit")
SCALES = ("log2", "linear", "category")
NUMBER = (int, float)


class BadFile(Exception):
    """A result file that cannot be used; the text is one line that names the file and the key."""


@dataclass
class Point:
    x: float | str
    samples: list[float]
    checked: bool | None  # None: the file does not say; it then does not count as checked.
    cpu_seconds: list[float]
    peak_memory: float | None
    ns_per_op: list[float]
    threads: float | None


@dataclass
class Series:
    name: str
    role: str
    note: str
    failed: str  # Why the series failed its own check, at least in part; empty when it did not.
    refused: bool  # The file calls the whole series failed; otherwise only its points not checked are out.
    points: list[Point]

    def at(self, x: float | str) -> Point | None:
        return next((point for point in self.points if point.x == x), None)


@dataclass
class Bar:
    ours: str
    against: str
    x: float | str
    limit: float
    at_least: bool  # False: the ratio must be at most `limit`.
    note: str


@dataclass
class Run:
    """What all results of one file share."""

    path: Path
    machine: dict[str, Any]
    build: dict[str, Any]
    profile: str
    date: str
    command: str
    pinned: bool | None = None  # None: the file does not say.

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
    claim: str
    setting: str
    command: str
    x_name: str
    x_unit: str
    x_scale: str
    y_name: str
    y_unit: str
    better: str
    series: list[Series]
    bars: list[Bar] = field(default_factory=list)
    verdict_word: str = ""
    verdict_why: str = ""
    replaced: int = 0  # How many older results of the same experiment this one stands for.

    @property
    def xs(self) -> list[float | str]:
        """Every x in use: sorted when they are numbers, in order of appearance when they are names."""
        seen = dict.fromkeys(point.x for series in self.series for point in series.points)
        return list(seen) if self.x_scale == "category" else sorted(seen)


class _Node:
    """One JSON object together with its file and its place in it, for error messages."""

    def __init__(self, value: Any, path: Path, where: str) -> None:
        self.value, self.path, self.where = value, path, where
        if not isinstance(value, dict):
            raise BadFile(f"{path}: key '{where or 'top level'}' must be an object")

    def name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def bad(self, key: str, what: str) -> BadFile:
        return BadFile(f"{self.path}: key '{self.name(key)}' {what}")

    def need(self, key: str, kind: Any) -> Any:
        if key not in self.value:
            raise self.bad(key, "is missing")
        return self.may(key, kind, None)

    def may(self, key: str, kind: Any, default: Any) -> Any:
        value = self.value.get(key)
        if value is None and key in self.value and default is None:
            raise self.bad(key, "must not be null")
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            raise self.bad(
                key, f"must be {' or '.join(k.__name__ for k in kinds)}, not {type(value).__name__}"
            )
        return value

    def text(self, key: str) -> str:
        return self.may(key, str, "").strip()

    def child(self, key: str) -> _Node:
        return _Node(self.need(key, dict), self.path, self.name(key))

    def children(self, key: str, required: bool = True) -> list[_Node]:
        items = self.need(key, list) if required else self.may(key, list, [])
        return [_Node(item, self.path, f"{self.name(key)}[{i}]") for i, item in enumerate(items)]

    def numbers(self, key: str, required: bool = False) -> list[float]:
        items = self.need(key, list) if required else self.may(key, (list, int, float), [])
        items = items if isinstance(items, list) else [items]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, NUMBER) or not math.isfinite(item):
                raise self.bad(key, "must hold finite numbers only")
        return [float(item) for item in items]

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.need(key, str)
        if value not in choices:
            raise self.bad(key, f"is '{value}', must be one of {', '.join(choices)}")
        return value


def _point(node: _Node, failed: bool, category: bool) -> Point:
    samples = node.numbers("samples", required=not failed)
    if not samples and not failed:
        raise node.bad("samples", "must not be empty")
    x = node.need("x", (int, float, str))
    if isinstance(x, str) and not category:
        raise node.bad("x", "is text, which needs x.scale 'category'")
    memory = node.numbers("peak_memory")
    threads = node.value.get("threads")
    return Point(
        x,
        samples,
        node.may("checked", bool, False) if "checked" in node.value else None,
        node.numbers("cpu_seconds"),
        max(memory) if memory else None,
        node.numbers("ns_per_op"),
        threads if isinstance(threads, NUMBER) else None,
    )


def _series(node: _Node, category: bool) -> Series:
    failed = node.text("failed")
    refused = bool(failed)
    points = [_point(child, refused, category) for child in node.children("points", not refused)]
    seen = [point.x for point in points]
    if len(set(seen)) != len(seen):
        raise node.bad("points", "has the same x twice")
    if not failed and any(point.checked is False for point in points):
        places = ", ".join(str(point.x) for point in points if point.checked is False)
        failed = f"results failed the check at {places}"
    return Series(
        node.need("name", str), node.choice("role", ROLES), node.text("note"), failed, refused, points
    )


def _bar(node: _Node) -> Bar:
    at_least = "at_least" in node.value
    if not at_least and "at_most" not in node.value:
        raise node.bad("at_least", "is missing (and so is 'at_most')")
    limit = node.need("at_least" if at_least else "at_most", NUMBER)
    return Bar(
        node.need("ours", str),
        node.need("against", str),
        node.need("x", (int, float, str)),
        float(limit),
        at_least,
        node.text("note"),
    )


def _result(node: _Node, run: Run) -> Result:
    experiment = node.need("experiment", str)
    x, y = node.child("x"), node.child("y")
    scale = x.choice("scale", SCALES) if "scale" in x.value else ""
    listed = node.children("series")
    series = [_series(child, scale in ("category", "")) for child in listed]
    if not scale:
        named = any(isinstance(point.x, str) for one in series for point in one.points)
        scale = "category" if named else "linear"
    names = [one.name for one in series]
    if len(set(names)) != len(names):
        raise node.bad("series", "has two series of the same name")
    verdict = _Node(node.may("verdict", dict, {}), node.path, node.name("verdict"))
    return Result(
        run,
        experiment,
        node.text("part") or experiment.split("/")[0],
        node.text("source"),
        node.text("title"),
        node.text("claim"),
        node.text("setting"),
        node.text("command") or run.command,
        x.need("name", str),
        x.text("unit"),
        scale,
        y.need("name", str),
        y.text("unit"),
        y.choice("better", ("higher", "lower")),
        series,
        [_bar(child) for child in node.children("bars", required=False)],
        verdict.text("word"),
        verdict.text("why"),
    )


def load_file(path: Path) -> list[Result]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadFile(f"{path}: is not JSON: {' '.join(str(error).split())}") from error
    top = _Node(document, path, "")
    schema = top.need("schema", int)
    if schema != SCHEMA:
        raise BadFile(f"{path}: key 'schema' is {schema}, this report reads {SCHEMA}")
    run = Run(
        path,
        top.may("machine", dict, {}),
        top.may("build", dict, {}),
        top.text("profile"),
        top.text("date"),
        top.text("command"),
        top.may("pinned", bool, None),
    )
    return [_result(node, run) for node in top.children("results")]


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


def merge(results: list[Result]) -> list[Result]:
    """Keep the newest result of every experiment per machine and profile.

    Samples of different runs are never pooled: only ratios within one run mean something. What is left out
    is counted, and the page says so.
    """
    alike: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        alike.setdefault((result.experiment, result.run.machine_key, result.run.profile), []).append(result)
    kept = []
    for group in alike.values():
        newest = max(reversed(group), key=lambda result: result.run.date)  # The last of equals.
        newest.replaced = len(group) - 1
        kept.append(newest)
    return kept
