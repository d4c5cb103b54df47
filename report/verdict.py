# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Judge the bars of an experiment: the ratios that ours must reach."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from bars import ROLES, Bar
from load import Point, Result, Series, why_absent
from stats import number, place, ratio_interval

REACHED, MISSED, OPEN = "reached", "missed", "open"
KINDS = {
    "ours": "other series of ours",
    "paper": "paper series",
    "baseline": "baseline",
    "peer": "peer",
    "limit": "limit",
}
TOO_SHORT = "the profile smoke is too short to judge"


@dataclass(frozen=True)
class Judgement:
    bar: Bar
    state: str  # REACHED, MISSED or OPEN (not judged)
    ratio: float | None
    text: str
    noisy: bool  # the 95 % interval of the ratio holds the limit: another run may decide otherwise


def counts(series: Series, x: float | str) -> Point | None:
    """The point of a series at x, if its results were checked and right."""
    point = series.at(x)
    return point if point is not None and point.samples and point.checked and not series.refused else None


def value_at(result: Result, name: str, x: float | str) -> float | None:
    series = result.named(name)
    point = counts(series, x) if series is not None else None
    return median(point.samples) if point is not None else None


def best_of(result: Result, against: str, x: float | str, but: str = "") -> tuple[Series, Point] | None:
    """The best checked rival at x: of a role, or the one series of that name."""
    chosen = [
        s for s in result.series if s.name != but and against == (s.role if against in ROLES else s.name)
    ]
    rivals = [(s, point) for s in chosen if (point := counts(s, x)) is not None]
    pick_best = max if result.better == "higher" else min
    return pick_best(rivals, key=lambda pair: median(pair[1].samples), default=None)


def spot(result: Result, x: float | str) -> str:
    """An x in a sentence: "8 consumers", but "capacity 4,096"."""
    if isinstance(x, str):
        return f"“{x}”"
    plural = result.x_name.split(" ")[0].endswith("s")
    unit = f" {result.x_unit}" if result.x_unit else ""
    return (
        f"{place(x)} {result.x_name}"
        if plural and not unit and x != 1
        else f"{result.x_name} {place(x)}{unit}"
    )


def unmet(result: Result, entry: Bar | dict) -> str:
    """Why the chart cannot decide a bar or a sentence: another unit, or a measured condition that does not hold. Empty
    when it can."""
    if isinstance(entry, Bar):
        only_if, why, y = entry.only_if, entry.why, entry.y
    else:
        only_if, why, y = entry.get("only_if", ()), entry.get("why"), entry.get("y", "")
    if y not in ("", result.y_name):
        return f"it is about the {y}; here the {result.y_name} were counted instead"
    for condition in only_if:
        found = value_at(result, condition["series"], condition["x"])
        if found is not None and found > condition["at_most"]:
            return (
                f"{why}: {condition['series']} at {spot(result, condition['x'])} is {number(found)} {result.y_unit}, "
                f"more than {condition['at_most']:g}"
            )
    return ""


def judge(result: Result, bar: Bar) -> Judgement:
    head = f"{bar.ours} at {spot(result, bar.x)}" if len(result.xs) > 1 else bar.ours

    def undecided(why: str, state: str = OPEN) -> Judgement:
        return Judgement(bar, state, None, f"{head}: {why}", False)

    if result.run.profile == "smoke":
        return undecided(TOO_SHORT)
    if why := unmet(result, bar):
        return undecided(why)
    ours = result.named(bar.ours)
    if ours is None:
        return undecided(f"there is no such series: {why_absent(result.run, bar.ours)}")
    if ours.at(bar.x) is None:
        return Judgement(bar, OPEN, None, f"{bar.ours} was not measured at {spot(result, bar.x)}", False)
    mine = counts(ours, bar.x)
    if mine is None:
        return undecided(f"does not count, {ours.failed or 'it has no samples'}", MISSED)
    same_place = bar.x_against == bar.x
    rival = best_of(result, bar.against, bar.x_against, but=bar.ours if same_place else "")
    if rival is None:
        if bar.against in ROLES:
            return undecided(f"no checked {KINDS[bar.against]} was measured there")
        why = (
            why_absent(result.run, bar.against)
            if result.named(bar.against) is None
            else "not measured there, or failed"
        )
        return undecided(f"no checked result of {bar.against}: {why}")
    # The ratio is "how many times better" for at_least and "how many times the cost" for at_most.
    top, bottom = [sample - bar.plus for sample in mine.samples], rival[1].samples
    if (result.better == "higher") != bar.at_least:
        top, bottom = bottom, top
    divisor = median(bottom)
    if divisor <= 0:
        return undecided("a median is not above zero, there is no ratio")
    ratio = median(top) / divisor
    span = ratio_interval(top, bottom)
    reached = ratio >= bar.limit if bar.at_least else ratio <= bar.limit
    noisy = span is not None and span[0] < bar.limit < span[1]
    name = f"the best {KINDS[bar.against]} ({rival[0].name})" if bar.against in ROLES else rival[0].name
    if not same_place:
        name += f" at {spot(result, bar.x_against)}"
    what = f"{number(ratio)} × {name}" if bar.at_least else f"{number(ratio)} × the cost of {name}"
    text = f"{head}: {what}"
    if ratio <= 0:  # of a difference
        most = f", at most {number(span[1])} ×" if span is not None and span[1] > 0 else ""
        text = f"{head}: below the noise{most} the cost of {name}"
    elif span is not None:
        text += f", 95 % interval {number(span[0])} to {number(span[1])}"
    text += f"; needed {'at least' if bar.at_least else 'at most'} {bar.limit:g} ×"
    if bar.plus:
        text += f" and {bar.plus:g} {result.y_unit}".rstrip() + ", which the ratio leaves out"
    if not reached and bar.limit > 0:
        off = abs(ratio / bar.limit - 1) * 100
        text += f", {off:.{0 if off >= 9.95 else 1}f} % {'short' if bar.at_least else 'too much'}"
    return Judgement(bar, REACHED if reached else MISSED, ratio, text, noisy)


def judge_all(result: Result) -> list[Judgement]:
    return [judge(result, bar) for bar in result.bars]
