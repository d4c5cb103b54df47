# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Turn results into what the templates show: plain dictionaries and lists, no decisions left to them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import charts
import validity
from load import Result, Run, Series
from stats import number, place, summarize, to_ns
from styles import assign
from verdict import MISSED, OPEN, REACHED, best_of, counts, judge_all, paper_word, spot

PARTS = ("queue", "combine", "fork", "gpu", "syscall")
ROLE_NAMES = {
    "ours": "muster",
    "paper": "paper's algorithm",
    "baseline": "baseline",
    "peer": "peer",
    "limit": "limit",
}
MOST_COLUMNS = 8
FAST_PART = "queue"  # The part whose experiments make the table on the first page.


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "experiment"


def _told(value: Any) -> str:
    """Any JSON value of the machine or build in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_told(item) for item in value)
    return "yes" if value is True else "no" if value is False else "unknown" if value is None else str(value)


def _memory(size: float | None) -> str:
    if size is None:
        return ""
    for unit, bytes_in_it in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_in_it:
            return f"{number(size / bytes_in_it)} {unit}"
    return f"{size:.0f} B"


def _commit(run: Run) -> str:
    commit = str(run.build.get("commit") or "unknown")
    return commit[:12] + commit[40:] if re.match(r"[0-9a-f]{40}", commit) else commit


def _rows(result: Result) -> list[dict[str, Any]]:
    """The numbers of one experiment: a group per x, the best first, what failed last."""
    groups = []
    for x in result.xs:
        rows = []
        for series in result.series:
            point = series.at(x)
            if point is None:
                continue
            wrong = bool(series.failed) and (series.refused or point.checked is not True)
            row: dict[str, Any] = {
                "name": series.name,
                "role": series.role,
                "failed": wrong,
                "unchecked": point.checked is None,
                "cpu": "",
                "ns": "",
                "memory": _memory(point.peak_memory),
                "median": "–",
                "quartiles": "–",
                "interval": "–",
                "n": "0",
                "order": float("inf"),
            }
            if point.samples:
                s = summarize(point.samples)
                row |= {
                    "median": number(s.median),
                    "quartiles": f"{number(s.q1)} to {number(s.q3)}",
                    "n": str(s.n),
                    "order": s.median if result.better == "lower" else -s.median,
                }
                if s.low is not None:
                    row["interval"] = f"{number(s.low)} to {number(s.high)}"
            if point.cpu_seconds:
                row["cpu"] = number(summarize(point.cpu_seconds).median)
            if point.ns_per_op:
                row["ns"] = number(summarize(point.ns_per_op).median)
            rows.append(row)
        rows.sort(key=lambda row: (row["role"] == "limit", row["failed"], row["order"]))
        groups.append({"x": place(x), "title": x if isinstance(x, str) else spot(result, x), "rows": rows})
    absent = [
        {"name": s.name, "role": s.role, "why": s.failed or "not measured"}
        for s in result.series
        if not s.points
    ]
    every = [row for group in groups for row in group["rows"]]
    return [
        {
            "groups": groups,
            "absent": absent,
            **{f"has_{key}": any(row[key] for row in every) for key in ("cpu", "memory", "ns")},
        }
    ]


def _legend(result: Result, styles: dict[str, Any]) -> list[dict[str, Any]]:
    """A chart of bars names its bars itself, so its legend tells only what went wrong."""
    shown = [s for s in result.series if s.failed or not charts.is_bar_chart(result)]
    shown.sort(key=lambda s: ("ours", "paper", "baseline", "peer", "limit").index(s.role))
    return [{"name": s.name, "role": s.role, "failed": s.failed, "style": styles[s.name]} for s in shown]


def _experiment(
    result: Result, anchor: str, styles: dict[str, Any], out: Path, several: bool
) -> dict[str, Any]:
    judgements = judge_all(result)
    word, state = paper_word(result)
    reached = sum(j.state == REACHED for j in judgements)
    if judgements:
        bar_state = (
            REACHED
            if reached == len(judgements)
            else MISSED
            if any(j.state == MISSED for j in judgements)
            else OPEN
        )
    else:
        bar_state = ""
    raw = os.path.relpath(result.run.path, out).replace(os.sep, "/")
    return {
        "result": result,
        "anchor": anchor,
        "legend": _legend(result, styles),
        "charts": charts.draw(result, styles, anchor),
        "table": _rows(result)[0],
        "judgements": judgements,
        "reached": reached,
        "bar_state": bar_state,
        "word": word,
        "word_state": state,
        "why": result.verdict_why,
        "notes": [(s.name, s.note) for s in result.series if s.note],
        "raw": quote(raw),
        "raw_name": result.run.path.name,
        "commit": _commit(result.run),
        "place": f"{result.run.profile or 'no profile'}, {_told(result.run.machine.get('cpu'))}"
        if several
        else "",
    }


def _columns(result: Result) -> list[float | str]:
    """All x of a short row; of a long sweep the ends, what the bars name, and some between."""
    xs = result.xs
    if len(xs) <= MOST_COLUMNS:
        return xs
    chosen = {bar.x for bar in result.bars} | {xs[0], xs[-1]}
    for i in range(1, MOST_COLUMNS - 1):
        if len(chosen) < MOST_COLUMNS:
            chosen.add(xs[round(i * (len(xs) - 1) / (MOST_COLUMNS - 1))])
    return [x for x in xs if x in chosen]


def _ns_row(result: Result, series: Series, xs: list[float | str]) -> dict[str, Any]:
    cells = []
    for x in xs:
        point = counts(series, x)
        cells.append({"value": _ns(result, point) if point else None, "name": ""})
    return {"name": series.name, "role": series.role, "failed": series.failed, "cells": cells}


def _ns(result: Result, point: Any) -> float | None:
    value = to_ns(summarize(point.samples).median, result.y_unit)
    return value if value is not None or not point.ns_per_op else summarize(point.ns_per_op).median


def fast_table(results: list[Result]) -> dict[str, Any]:
    """Nanoseconds per operation: per shape our series and the best peer at every x."""
    shapes = []
    for result in results:
        xs = _columns(result)
        rows = [_ns_row(result, series, xs) for series in result.series if series.role == "ours"]
        rivals = [best_of(result, "peer", x) for x in xs]
        if any(rivals):
            cells = [
                {"value": _ns(result, rival[1]) if rival else None, "name": rival[0].name if rival else ""}
                for rival in rivals
            ]
            names = {cell["name"] for cell in cells} - {""}
            if len(names) == 1:
                cells = [cell | {"name": ""} for cell in cells]
            rows.append(
                {
                    "name": "best peer" + (f": {names.pop()}" if len(names) == 1 else ""),
                    "role": "peer",
                    "failed": "",
                    "cells": cells,
                }
            )
        if not any(cell["value"] is not None for row in rows for cell in row["cells"]):
            continue
        for column in range(len(xs)):
            told = [
                row["cells"][column]["value"] for row in rows if row["cells"][column]["value"] is not None
            ]
            for row in rows:
                cell = row["cells"][column]
                cell["best"] = bool(told) and len(rows) > 1 and cell["value"] == min(told)
                cell["text"] = number(cell["value"])
        shapes.append(
            {
                "result": result,
                "title": result.title or result.experiment,
                "rows": rows,
                "xs": [place(x) for x in xs],
                "cut": len(xs) < len(result.xs),
            }
        )
    return {"shapes": shapes, "columns": max((len(shape["xs"]) for shape in shapes), default=0)}


def _builds(results: list[Result]) -> list[dict[str, Any]]:
    """One entry per build and profile, with the files that came from it."""
    entries: dict[tuple[str, ...], dict[str, Any]] = {}
    for result in results:
        run = result.run
        peers = run.build.get("peers") if isinstance(run.build.get("peers"), dict) else {}
        key = (_commit(run), _told(run.build.get("compiler")), _told(run.build.get("flags")), run.profile)
        entry = entries.setdefault(
            key,
            {
                "commit": key[0],
                "compiler": key[1],
                "flags": key[2],
                "profile": run.profile or "not told",
                "dates": [],
                "files": [],
                "peers": {},
            },
        )
        entry["peers"] |= {name: _told(version) for name, version in peers.items()}
        for name, value in (("dates", run.date[:10]), ("files", run.path.name)):
            if value and value not in entry[name]:
                entry[name].append(value)
    return list(entries.values())


def _machine_block(results: list[Result]) -> dict[str, Any]:
    newest = max(results, key=lambda result: result.run.date).run.machine
    known = [key for key in ("cpu", "cores", "caches", "memory", "kernel", "governor") if key in newest]
    known += [key for key in newest if key not in known]
    cores = validity.core_count(newest)
    return {
        "name": _told(newest.get("cpu")) + (f", {cores} core{'s' if cores != 1 else ''}" if cores else ""),
        "facts": [(key.replace("_", " "), _told(newest[key])) for key in known],
        "builds": _builds(results),
        "threats": validity.threats(results),
        "fast": fast_table([result for result in results if result.part == FAST_PART]),
    }


def build(results: list[Result], out: Path) -> dict[str, Any]:
    """Everything that the page and its Markdown version show."""
    order = {part: i for i, part in enumerate(PARTS)}
    results = sorted(results, key=lambda r: (order.get(r.part, len(PARTS)), r.part))
    styles = assign(results)
    repeated = {r.experiment for r in results if sum(o.experiment == r.experiment for o in results) > 1}
    anchors: set[str] = set()
    experiments = []
    for result in results:
        anchor = base = _slug(result.experiment)
        while anchor in anchors:
            anchor = f"{base}-{len(anchors)}"
        anchors.add(anchor)
        experiments.append(_experiment(result, anchor, styles, out, result.experiment in repeated))
    machines: dict[str, list[Result]] = {}
    for result in results:
        machines.setdefault(result.run.machine_key, []).append(result)
    judged = [(e, j) for e in experiments for j in e["judgements"]]
    papers = [e for e in experiments if e["word"]]
    parts = list(dict.fromkeys(result.part for result in results))
    return {
        "experiments": experiments,
        "parts": [(part, [e for e in experiments if e["result"].part == part]) for part in parts],
        "machines": [_machine_block(group) for group in machines.values()],
        "judged": judged,
        "reached": sum(j.state == REACHED for _, j in judged),
        "missed": [(e, j) for e, j in judged if j.state == MISSED],
        "open": [(e, j) for e, j in judged if j.state == OPEN],
        "papers": papers,
        "roles": ROLE_NAMES,
        "words": {
            word: sum(e["word"] == word for e in papers) for word in dict.fromkeys(e["word"] for e in papers)
        },
        "failed": sum(bool(s.failed) for r in results for s in r.series),
        "files": len({result.run.path for result in results}),
        "dates": sorted({result.run.date[:10] for result in results if result.run.date}),
    }
