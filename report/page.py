# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Turn results into what the templates show: plain dictionaries and lists, no decisions left to them."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import charts
import validity
from claims import NOT, NOT_JUDGED, PARTLY, REPRODUCED, verdict
from load import Result, Run, Series
from stats import number, place, shown, summarize, to_ns
from styles import Style, assign
from verdict import MISSED, OPEN, REACHED, Judgement, best_of, counts, judge_all, spot, value_at

PARTS = ("queue", "combine", "fork", "gpu", "syscall", "python", "simulated", "build")
ROLE_NAMES = {
    "ours": "muster",
    "paper": "paper's algorithm",
    "baseline": "baseline",
    "peer": "peer",
    "limit": "limit",
}
MOST_COLUMNS = 8
FAST_PARTS = (
    "queue",
    "combine",
)  # their own experiments, and what a fork costs, are the table of nanoseconds
ABOUT = {"build": "queue"}  # which part a part without a sentence belongs to: most bars are of the queues' headers
# Its numbers are those of fork/peers, divided by plain calls; drawn, they would need as much room again.
ONLY_TABLES = {"fork/peers-speed-up"}


class Headline(NamedTuple):
    """A part's figure on the first page: one experiment at one place."""

    part: str
    experiment: str
    x: Any
    series: tuple[str, ...]  # in the picture, if they were measured; ours first
    over: str  # a series, or a role
    sentence: str  # with {ours}, {other}, {ratio}, {name} and {unit}, and of a third series {beside}, {beside_ratio}
    beside: str = ""


HEADLINES = (
    Headline(
        "queue",
        "queue/fan-out",
        8,
        ("spmc_queue", "spmc_queue pop_n(8)", "FFQ^s as printed", "mutex queue", "peer"),
        "peer",
        "One producer feeds eight consumers: spmc_queue moves {ours} {unit}, {ratio} times the best peer "
        "({name}, {other}).",
    ),
    Headline(
        "combine",
        "osci/fig3-techniques",
        "{units}",
        ("osci", "psim", "cc_synch", "std::mutex", "ideal"),
        "std::mutex",
        "All threads use one object: osci executes {ours} {unit}, {ratio} times what std::mutex does ({other}).",
    ),
    Headline(
        "fork",
        "fork/overhead",
        "fib",
        ("muster", "muster, return barrier, function and argument", "plain calls", "oneTBB", "OpenMP"),
        "plain calls",
        "A call that may be stolen takes {inverse} times as long as a plain one; oneTBB's takes {beside_ratio} times.",
        "oneTBB",
    ),
    Headline(
        "gpu",
        "xmalloc/fig2-throughput",
        32,
        ("coalescing, 16 FIFOs", "coalescing", "16 FIFOs", "upstream alone", "CUDA malloc"),
        "upstream alone",
        "When all lanes of a warp allocate, a request needs {ours} memory operations; of the upstream allocator alone "
        "{other}.",
    ),
    Headline(
        "syscall",
        "syscall/getppid",
        1,
        ("sandbox, two processors", "native, two processors", "seccomp notification", "ptrace", "socket pair"),
        "seccomp notification",
        "A sandboxed program has a system call made outside in {ours} {unit}, {ratio} times as fast as by seccomp "
        "notification ({other}); without a sandbox the call takes {beside}.",
        "native, two processors",
    ),
    Headline(
        "python",
        "python/stream",
        "dict, 1→1",
        ("muster.Queue", "faster-fifo", "multiprocessing.Queue", "multiprocessing.SimpleQueue", "pyzmq"),
        "multiprocessing.Queue",
        "A Python process sends dicts to another at {ours} {unit}, {ratio} times as many as through "
        "multiprocessing.Queue ({other}); through faster-fifo {beside}.",
        "faster-fifo",
    ),
    Headline(
        "simulated",
        "osci/fig3-simulated",
        64,
        ("osci", "psim", "h_synch", "cc_synch", "clh", "ideal"),
        "cc_synch",
        "On 64 simulated cores that use one object, osci executes {ours} {unit}, {ratio} times as many as cc_synch "
        "({other}).",
    ),
)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "experiment"


def _processor(result: Result) -> str:
    """Its name without what most names have."""
    name = re.sub(r"\((R|TM)\)|\b(Processor|CPU|Intel|AMD)\b", " ", _told(result.run.machine.get("cpu")))
    return " ".join(name.split()) or "unknown"


def _told(value: Any) -> str:
    """Any JSON value of the machine or build in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_told(item) for item in value)
    return "yes" if value is True else "no" if value is False else "unknown" if value is None else str(value)


def _commit(run: Run) -> str:
    commit = str(run.build.get("commit") or "unknown")
    return commit[:12] + commit[40:] if re.match(r"[0-9a-f]{40}", commit) else commit


def _table(result: Result) -> dict[str, Any]:
    """The numbers of one experiment: a row for each series, a column for each x; what failed last."""
    xs = result.xs
    rows = []
    for series in result.series:
        cells = []
        for x in xs:
            point = series.at(x)
            if point is None or not (point.samples or not point.checked):
                cells.append({"text": "", "spread": "", "wrong": False})
                continue
            s = summarize(point.samples) if point.samples else None
            cells.append(
                {
                    "text": shown(s, result.y_unit) if s else "failed",
                    "spread": f"{number(s.q1)}–{number(s.q3)}" if s and s.n > 1 and s.q1 != s.q3 else "",
                    "wrong": not point.checked or series.refused,
                }
            )
        why = "" if series.points else series.failed or series.note or "not measured"
        rows.append(
            {"name": series.name, "role": series.role, "cells": cells, "failed": series.failed, "why": why}
        )
    rows.sort(key=lambda row: (bool(row["why"]), row["role"] == "limit"))
    samples = [len(point.samples) for series in result.series for point in series.points if point.samples]
    return {
        "xs": [place(x) for x in xs],
        "rows": rows,
        "n": (
            f"{min(samples)}" + (f" to {max(samples)}" if min(samples) != max(samples) else "")
            if samples
            else "0"
        ),
    }


def _legend(result: Result, styles: dict[str, Style]) -> list[dict[str, Any]]:
    """A chart of bars names its bars itself, so its legend tells only what went wrong."""
    told = [s for s in result.series if s.failed or not charts.is_bar_chart(result)]
    told.sort(key=lambda s: ("ours", "paper", "baseline", "peer", "limit").index(s.role))
    return [{"name": s.name, "role": s.role, "failed": s.failed, "style": styles[s.name]} for s in told]


def _experiment(
    result: Result, anchor: str, styles: dict[str, Style], out: Path, several: bool
) -> dict[str, Any]:
    judgements = judge_all(result)
    paper = verdict(result)
    states = {j.state for j in judgements}
    drawn = result.experiment not in ONLY_TABLES
    return {
        "result": result,
        "anchor": anchor,
        "legend": _legend(result, styles) if drawn else [],
        "chart": charts.draw(result, styles) if drawn else "",
        "table": _table(result),
        "judgements": judgements,
        "reached": sum(j.state == REACHED for j in judgements),
        "bar_state": next((one for one in (MISSED, OPEN, REACHED) if one in states), ""),
        "word": paper.word,
        "word_state": paper.state,
        "why": paper.why,
        "notes": any(s.note for s in result.series),
        "raw": quote(os.path.relpath(result.run.path, out).replace(os.sep, "/")),
        "raw_name": result.run.path.name,
        "commit": _commit(result.run),
        "place": f"{result.run.profile}, {_processor(result)}" if several else "",
    }


def _newest(results: list[Result], experiment: str) -> Result | None:
    """The result that the first page speaks of: a full one before a quick one, and then the newest."""
    found = [r for r in results if r.experiment == experiment]
    return max(found, key=lambda r: (r.run.profile == "full", r.run.date), default=None)


def _states(judgements: Iterable[Judgement]) -> dict[str, int]:
    """How many bars of a part are reached, missed and not judged."""
    states = [j.state for j in judgements]
    return {state: states.count(state) for state in (REACHED, MISSED, OPEN)}


def values_of(head: Headline, result: Result, x: Any) -> tuple[float, list[tuple[str, float]]]:
    """Ours, and what the sentence compares it with."""
    rival = best_of(result, head.over, x)
    beside = value_at(result, head.beside, x)
    others = [(rival[0].name, median(rival[1].samples)), *([(head.beside, beside)] if beside is not None else [])]
    return value_at(result, head.series[0], x), others


def said(head: Headline, results: list[Result]) -> tuple[str, Result, Any] | None:
    """The sentence, and where it has its numbers from; nothing if there is no result."""
    result = _newest(results, head.experiment)
    if result is None:
        return None
    x = result.run.units if head.x == "{units}" else head.x
    if value_at(result, head.series[0], x) is None or best_of(result, head.over, x) is None:
        return None
    ours, ((name, other), *more) = values_of(head, result, x)
    beside = more[0][1] if more else None
    better = ours / other if result.better == "higher" else other / ours
    names = {
        "ours": number(ours),
        "other": number(other),
        "ratio": number(better),
        "inverse": number(1 / better),
        "name": name,
        "unit": result.y_unit,
        "beside": number(beside),
        "beside_ratio": number(beside and other and beside / other),
    }
    return head.sentence.format(**names), result, x


def _headline(head: Headline, results: list[Result], styles: dict[str, Style]) -> dict[str, Any]:
    """A sentence and a picture; where there is no result, the command that makes one."""
    without = {
        "part": head.part,
        "sentence": "",
        "chart": "",
        "command": f"./dev bench {head.experiment}",
        "place": "",
    }
    told = said(head, results)
    if told is None:
        return without
    sentence, result, x = told
    rival = best_of(result, head.over, x)
    chosen = [rival[0].name if name == "peer" else name for name in head.series]
    picture = [
        dataclasses.replace(s, points=[s.at(x)]) for name in chosen if (s := result.named(name)) and s.at(x)
    ]
    return without | {
        "sentence": sentence,
        "chart": charts.draw(dataclasses.replace(result, series=picture, x_scale="category"), styles),
        "place": f"{result.title}, {spot(result, x)} · {result.run.profile} profile, "
        + (
            "simulated, not measured"
            if result.simulated
            else f"{_told(result.run.machine.get('cpu'))}, {result.run.units} hardware threads"
        ),
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


def _ns(result: Result, point: Any) -> float | None:
    return to_ns(summarize(point.samples).median, result.y_unit)


def _ns_row(result: Result, series: Series, xs: list[float | str]) -> dict[str, Any]:
    cells = [{"value": _ns(result, point) if (point := counts(series, x)) else None, "name": ""} for x in xs]
    return {"name": series.name, "role": series.role, "failed": series.failed, "cells": cells}


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
            name = "best peer" + (f": {names.pop()}" if len(names) == 1 else "")
            rows.append({"name": name, "role": "peer", "failed": "", "cells": cells})
        if not any(cell["value"] is not None for row in rows for cell in row["cells"]):
            continue
        for column in range(len(xs)):
            column_cells = [row["cells"][column] for row in rows]
            least = min((c["value"] for c in column_cells if c["value"] is not None), default=None)
            for cell in column_cells:
                cell["best"] = len(rows) > 1 and cell["value"] is not None and cell["value"] == least
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
                "profile": run.profile,
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
        "fast": fast_table(
            [r for r in results if r.part in FAST_PARTS and not r.source or r.experiment == "fork/overhead"]
        ),
    }


def build(results: list[Result], out: Path, problems: list[str]) -> dict[str, Any]:
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
    return {
        "problems": problems,
        "headlines": [
            _headline(head, results, styles)
            | _states(j for e, j in judged if ABOUT.get(e["result"].part, e["result"].part) == head.part)
            for head in HEADLINES
        ],
        "experiments": experiments,
        "parts": [
            (part, [e for e in experiments if e["result"].part == part])
            for part in dict.fromkeys(result.part for result in results)
        ],
        # Once, as most series are in several charts.
        "notes": sorted({(s.name, s.note) for r in results for s in r.series if s.note}),
        "machines": [_machine_block(group) for group in machines.values()],
        "judged": judged,
        "reached": sum(j.state == REACHED for _, j in judged),
        "missed": [(e, j) for e, j in judged if j.state == MISSED],
        "noisy": sum(j.state == MISSED and j.noisy for _, j in judged),
        "open": [(e, j) for e, j in judged if j.state == OPEN],
        "papers": papers,
        "roles": ROLE_NAMES,
        "words": {
            word: count
            for word in (REPRODUCED, PARTLY, NOT, NOT_JUDGED)
            if (count := sum(e["word"] == word for e in papers))
        },
        "failed": sum(bool(s.failed) for r in results for s in r.series),
        "files": len({result.run.path for result in results}),
        "dates": sorted({result.run.date[:10] for result in results if result.run.date}),
    }
