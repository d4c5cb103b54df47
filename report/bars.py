# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The table of what each experiment must show (bench/bars.toml), with its placeholders filled in for one result."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "bench" / "bars.toml"
ROLES = ("ours", "paper", "baseline", "peer", "limit")
BAR_KEYS = {
    "ours",
    "x",
    "against",
    "x_against",
    "value",
    "at_least",
    "at_most",
    "plus",
    "with_clang",
    "profile",
    "note",
    "only_if",
    "why",
    "y",
}
SENTENCE_KEYS = {
    "says",
    "series",
    "x",
    "over",
    "x_over",
    "among",
    "charts",
    "factor",
    "within",
    "order",
    "note",
    "only_if",
    "why",
    "y",
}
CONDITION_KEYS = {"series", "x", "at_most"}


class BadTable(Exception):
    """The table cannot be used; the text says where and why."""


@dataclass(frozen=True)
class Bar:
    ours: str
    against: str  # a role: its best series; or a series
    x: float | str
    x_against: float | str
    limit: float
    at_least: bool  # False: the ratio must be at most `limit`
    note: str = ""
    only_if: tuple[dict[str, Any], ...] = ()
    why: str = ""
    plus: float = 0  # that ours may cost besides
    y: str = ""  # what it is about, where an experiment measures different things on different machines


@functools.cache
def table(path: Path = TABLE) -> dict[str, dict[str, Any]]:
    """The experiments of the table; checked."""
    found = {key: entry for key, entry in read(path).items() if "/" in key}
    for experiment, entry in found.items():
        check(experiment, entry)
    return found


@functools.cache
def read(path: Path = TABLE) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadTable(f"{path}: cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadTable(f"{path}: {error}") from error


def check(experiment: str, entry: dict[str, Any]) -> None:
    def need(holds: bool, what: str) -> None:
        if not holds:
            raise BadTable(f"bars.toml: {experiment}: {what}")

    need(
        set(entry) <= {"claim", "bars", "paper"},
        f"knows no key {sorted(set(entry) - {'claim', 'bars', 'paper'})}",
    )
    for bar in entry.get("bars", []):
        need(set(bar) <= BAR_KEYS, f"a bar knows no key {sorted(set(bar) - BAR_KEYS)}")
        need("ours" in bar and "x" in bar, f"a bar needs ours and x: {bar}")
        need(("at_least" in bar) != ("at_most" in bar), f"a bar needs either at_least or at_most: {bar}")
        need("plus" not in bar or "at_most" in bar, f"plus needs at_most: {bar}")
        need(
            "value" not in bar or bar.get("against", "peer") not in ROLES,
            f"a value needs a name, in against: {bar}",
        )
    for sentence in entry.get("paper", []):
        need(
            set(sentence) <= SENTENCE_KEYS, f"a sentence knows no key {sorted(set(sentence) - SENTENCE_KEYS)}"
        )
        need("says" in sentence, f"a sentence needs says: {sentence}")
        if "order" not in sentence:
            need(
                {"series", "x", "over", "within"} <= set(sentence),
                f"a ratio needs series, x, over, within: {sentence}",
            )
            need(
                sentence["over"] not in ("best", "worst") or "among" in sentence,
                f"{sentence['over']} needs among",
            )
            need(
                1 <= len(sentence["within"]) <= 2, f"within is [least, most] or [least]: {sentence['within']}"
            )
    for one in [*entry.get("bars", []), *entry.get("paper", [])]:
        for condition in one.get("only_if", []):
            need(
                set(condition) == CONDITION_KEYS and "why" in one,
                f"a condition needs series, x, at_most, and why: {one}",
            )


def _fill(value: Any, names: dict[str, int]) -> Any:
    """Placeholders of all strings in it; a string that is nothing else becomes the number."""
    if isinstance(value, dict):
        return {key: _fill(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_fill(one, names) for one in value]
    if not isinstance(value, str):
        return value
    if (only := re.fullmatch(r"\{(\w+)\}", value)) and only[1] in names:
        return names[only[1]]
    return re.sub(r"\{(\w+)\}", lambda m: str(names.get(m[1], m[0])), value)


def entries(experiment: str, kind: str, run: Any, y_name: str = "") -> list[dict[str, Any]]:
    """The bars or the sentences (`kind`) that are meant for one chart of a run; with y_name, the ones that are about
    it."""
    units = run.units
    names = {"units": units, "half": min(max(2 * units, 4), 64)}
    workers = [n for n in (2, 4, 8, 16, 32, 64, 128, 256) if n < units] + ([units] if units > 1 else [])
    found = []
    for entry in table().get(experiment, {}).get(kind, []):
        if entry.get("profile", run.profile) != run.profile or (y_name and entry.get("y", y_name) != y_name):
            continue
        several = workers if "{workers}" in str(entry) else [0]
        found += [_fill(entry, names | {"workers": n}) for n in several]
    return found


def bars_of(experiment: str, run: Any) -> list[Bar]:
    found = []
    for entry in entries(experiment, "bars", run):
        limit = entry.get("at_least", entry.get("at_most"))
        if "clang" in str(run.build.get("compiler", "")).lower():
            limit = entry.get("with_clang", limit)
        for x in entry["x"] if isinstance(entry["x"], list) else [entry["x"]]:
            found.append(
                Bar(
                    entry["ours"],
                    entry.get("against", "peer"),
                    x,
                    entry.get("x_against", x),
                    float(limit),
                    "at_least" in entry,
                    entry.get("note", ""),
                    tuple(entry.get("only_if", ())),
                    entry.get("why", ""),
                    float(entry.get("plus", 0)),
                    entry.get("y", ""),
                )
            )
    return found


def names_of(entry: dict[str, Any]) -> set[str]:
    """The series that a bar or a sentence names."""
    named = {entry.get("ours"), entry.get("series"), *entry.get("among", [])}
    named |= {condition["series"] for condition in entry.get("only_if", [])}
    named |= {one.split(" @ ")[0] for one in entry.get("order", [])}
    named |= {entry[key] for key in ("against", "over") if entry.get(key, "best") not in ("best", "worst")}
    return {one for one in named if one and one not in ROLES}
