# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Judge the bars of an experiment: the ratios that a claim of speed has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from load import ROLES, Bar, Point, Result, Series
from stats import number, place, ratio_interval

REACHED, MISSED, OPEN = "reached", "missed", "open"
KINDS = {
    "ours": "other series of ours",
    "paper": "paper series",
    "baseline": "baseline",
    "peer": "peer",
    "limit": "limit",
}


@dataclass(frozen=True)
class Judgement:
    bar: Bar
    state: str  # REACHED, MISSED or OPEN (it could not be judged).
    ratio: float | None
    text: str
    noisy: bool  # The 95 % interval of the ratio holds the limit: another run may decide otherwise.


def counts(series: Series, x: float | str) -> Point | None:
    """The point of a series at x, if its results were checked and right."""
    point = series.at(x)
    return point if point is not None and point.samples and point.checked and not series.refused else None


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


def judge(result: Result, bar: Bar) -> Judgement:
    head = f"{bar.ours} at {spot(result, bar.x)}" if len(result.xs) > 1 else bar.ours

    def undecided(why: str, state: str = OPEN) -> Judgement:
        return Judgement(bar, state, None, f"{head}: {why}", False)

    ours = next((s for s in result.series if s.name == bar.ours), None)
    if ours is None or ours.at(bar.x) is None:
        return undecided("not measured")
    mine = counts(ours, bar.x)
    if mine is None:
        return undecided(f"does not count, {ours.failed or 'its results were not checked'}", MISSED)
    rival = best_of(result, bar.against, bar.x, but=bar.ours)
    if rival is None:
        kind = f"{KINDS[bar.against]} was" if bar.against in ROLES else f"result of {bar.against} was"
        return undecided(f"no checked {kind} measured there")
    # The ratio is "how many times better" for at_least and "how many times the cost" for at_most.
    top, bottom = mine.samples, rival[1].samples
    if (result.better == "higher") != bar.at_least:
        top, bottom = bottom, top
    divisor = median(bottom)
    if divisor <= 0:
        return undecided("a median is zero, there is no ratio")
    ratio = median(top) / divisor
    span = ratio_interval(top, bottom)
    reached = ratio >= bar.limit if bar.at_least else ratio <= bar.limit
    noisy = span is not None and span[0] < bar.limit < span[1]
    name = f"the best {KINDS[bar.against]} ({rival[0].name})" if bar.against in ROLES else rival[0].name
    what = f"{number(ratio)} × {name}" if bar.at_least else f"{number(ratio)} × the cost of {name}"
    text = f"{head}: {what}"
    if span is not None:
        text += f", 95 % interval {number(span[0])} to {number(span[1])}"
    text += f"; needed {'at least' if bar.at_least else 'at most'} {bar.limit:g} ×"
    if not reached and bar.limit > 0:
        off = abs(ratio / bar.limit - 1) * 100
        text += f", {off:.{0 if off >= 9.95 else 1}f} % {'short' if bar.at_least else 'too much'}"
    return Judgement(bar, REACHED if reached else MISSED, ratio, text, noisy)


def judge_all(result: Result) -> list[Judgement]:
    return [judge(result, bar) for bar in result.bars]


def paper_word(result: Result) -> tuple[str, str]:
    """The word for a paper's figure and the colour class that goes with it."""
    word = result.verdict_word.lower()
    shown = {"not": "not reproduced", "partly": "partly reproduced"}.get(word, word)
    return shown, {"reproduced": REACHED, "not": MISSED, "not reproduced": MISSED}.get(
        word, OPEN if word else ""
    )
