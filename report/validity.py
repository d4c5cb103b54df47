# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Threats to validity, told from the data alone.

Every sentence follows from what the result files say or leave out; nothing is asked of the machine that
makes the report, which need not be the one that was measured.
"""

from __future__ import annotations

import json
import re
from typing import Any

from load import Result
from stats import place, summarize

VIRTUAL = re.compile(
    r"qemu|kvm|virtual|vmware|xen\b|hyper-?v|firecracker|microsoft|wsl|gvisor"
    r"|cloud|\baws\b|azure|\bgcp\b",
    re.I,
)
UNPINNED = re.compile(r"\b(un|not |no |without )pinn(ed|ing)\b|\bpinning:? (none|no|off)\b", re.I)
PINNED = re.compile(r"--cpus\b|--pin\b|\bpinned\b|\bpinning\b|\bpin\b|affinity", re.I)
THREADS = {
    "threads": 1,
    "consumers": 1,
    "producers": 1,
    "workers": 1,
    "carriers": 1,
    "processes": 1,
    "pairs": 2,
}
FEW_SAMPLES = 10
WIDE_SPREAD = 0.2


def _listed(names: list[str], most: int = 5) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def core_count(machine: dict[str, Any]) -> int | None:
    value = machine.get("cores")
    if isinstance(value, dict):
        value = next(
            (value[key] for key in ("available", "logical", "threads", "physical") if key in value), None
        )
    if isinstance(value, list):
        value = len(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    found = re.search(r"\d+", value) if isinstance(value, str) else None
    return int(found[0]) if found else None


def _machine(machine: dict[str, Any]) -> list[str]:
    said = []
    told = next((machine[key] for key in ("virtual", "vm", "hypervisor") if key in machine), None)
    text = json.dumps({key: machine.get(key) for key in ("cpu", "kernel")})
    risk = "neighbours may take time and cache, and the shown topology may not be the real one."
    if told and str(told).lower() not in ("none", "false", "no"):
        said.append(f"A virtual machine{'' if told is True else f' ({told})'}: {risk}")
    elif told is None and (hint := VIRTUAL.search(text)):
        said.append(f"Probably a virtual machine (its description says “{hint[0]}”): {risk}")
    elif told is None:
        said.append("The files do not say whether this is a virtual machine.")
    cores = core_count(machine)
    if cores is None:
        said.append(
            "The number of cores is unknown, so rows with more threads than cores cannot be recognized."
        )
    elif cores < 8:
        said.append(
            f"Only {cores} core{'s' if cores > 1 else ''}: what is said about more threads is said about "
            "threads that take turns. Ratios within one run count; absolute numbers travel badly."
        )
    governor = str(machine.get("governor") or "unknown").strip().lower()
    if governor in ("unknown", "none", "n/a", "unavailable"):
        said.append("The frequency governor is unknown: the clock may have changed during the runs.")
    elif governor != "performance":
        said.append(f"The frequency governor is “{governor}”, not “performance”: the clock may have changed.")
    return said


def _pinning(results: list[Result]) -> list[str]:
    kinds: dict[str, list[str]] = {"pinned": [], "not": [], "unsaid": []}
    for result in results:
        text = f"{result.setting} {result.run.command}"
        if result.run.pinned is not None:
            kind = "pinned" if result.run.pinned else "not"
        else:
            kind = "not" if UNPINNED.search(text) else "pinned" if PINNED.search(text) else "unsaid"
        kinds[kind].append(result.experiment)
    said = []
    if kinds["not"]:
        said.append(f"Threads were not pinned in {_listed(kinds['not'])}: the scheduler moved them.")
    if kinds["unsaid"]:
        said.append(f"The files do not say whether threads were pinned in {_listed(kinds['unsaid'])}.")
    if kinds["pinned"] and not said:
        said.append(
            "Threads were pinned in every experiment: a program that does not pin may see other numbers."
        )
    return said


def _crowded(results: list[Result]) -> list[str]:
    """Rows with more threads than the machine of their own file has cores."""
    rows = []
    for result in results:
        cores = core_count(result.run.machine)
        if cores is None:
            continue
        each = THREADS.get(result.x_name.split()[0].lower() if result.x_name else "")
        crowded = []
        for x in result.xs:
            threads = each * x if each and not isinstance(x, str) else 0
            if threads > cores:
                crowded.append(place(x))
        if crowded:
            rows.append(f"{result.experiment} at {', '.join(crowded)}")
    if not rows:
        return []
    return [f"More threads than cores, so the scheduler is measured as well: {'; '.join(rows)}."]


def _samples(results: list[Result]) -> list[str]:
    points = [(r, s, p) for r in results for s in r.series for p in s.points if p.samples]
    said = []
    few = [r.experiment for r, _, p in points if len(p.samples) < FEW_SAMPLES]
    if few:
        said.append(
            f"{len(few)} of {len(points)} numbers rest on fewer than {FEW_SAMPLES} samples "
            f"({_listed(few)}): their intervals are rough."
        )
    wide = [
        r.experiment
        for r, _, p in points
        if (s := summarize(p.samples)).median and s.iqr / abs(s.median) > WIDE_SPREAD
    ]
    if wide:
        said.append(
            f"{len(wide)} of {len(points)} numbers have a quartile range above {WIDE_SPREAD:.0%} of their "
            f"median ({_listed(wide)})."
        )
    failed = [f"{s.name} in {r.experiment}" for r in results for s in r.series if s.failed]
    if failed:
        said.append(
            f"Failed the check of their results: {_listed(failed)}. They are shown, but what failed "
            "counts nowhere."
        )
    return said


def _builds(results: list[Result]) -> list[str]:
    said = []
    builds = {json.dumps(r.run.build, sort_keys=True): r.run.build for r in results}.values()
    flags = [str(build.get("flags", "")) for build in builds]
    if any(flag and not re.search(r"-O[23s]|-Ofast|Release|RelWithDebInfo", flag) for flag in flags):
        said.append("A build without -O2 or -O3 was measured.")
    if any("-fsanitize" in flag for flag in flags):
        said.append("A build with sanitizers was measured: its times mean nothing.")
    commits = list(dict.fromkeys(str(build.get("commit", "unknown")) for build in builds))
    if any("dirty" in commit or commit in ("", "unknown") for commit in commits):
        said.append("A build cannot be traced to a commit (unknown, or with local changes).")
    if len(commits) > 1:
        said.append(
            f"The results come from {len(commits)} commits ({_listed(commits)}): compare inside one "
            "experiment only."
        )
    hasty = [r.experiment for r in results if r.run.profile in ("smoke", "quick")]
    if hasty:
        said.append(
            f"{len(hasty)} of {len(results)} experiments ran in a short profile (smoke or quick), which is "
            "for a first look; the full profile repeats at least ten times."
        )
    replaced = sum(r.replaced for r in results)
    if replaced:
        said.append(
            f"{replaced} older or shorter result{'s' if replaced > 1 else ''} of the same experiments left out."
        )
    return said


def threats(results: list[Result]) -> list[str]:
    """The reasons to doubt the numbers of one machine."""
    newest = max(results, key=lambda result: result.run.date).run.machine
    return _machine(newest) + _crowded(results) + _pinning(results) + _samples(results) + _builds(results)
