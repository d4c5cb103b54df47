# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Judge what a paper says of a figure, sentence by sentence: orders and factors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bars import ROLES
from load import Result, why_absent
from stats import number
from verdict import MISSED, OPEN, REACHED, TOO_SHORT, counts, spot, unmet, value_at

NOISE = 1.05  # of two medians that differ by less, neither is the better one
REPRODUCED, PARTLY, NOT, NOT_JUDGED = "reproduced", "partly reproduced", "not reproduced", "not judged"


class Missing(Exception):
    """A sentence cannot be judged; the text says what is missing."""


@dataclass(frozen=True)
class Sentence:
    holds: bool | None  # None: it could not be judged
    text: str


@dataclass(frozen=True)
class Verdict:
    word: str = ""  # empty: the experiment is not of a paper
    sentences: list[Sentence] = field(default_factory=list)

    @property
    def state(self) -> str:
        return {REPRODUCED: REACHED, NOT: MISSED}.get(self.word, OPEN if self.word else "")

    @property
    def why(self) -> str:
        """All sentences, grouped: they hold, do not hold, or could not be judged."""
        told = []
        for head, kind in (("Here, too", True), ("Not here", False), ("Not judged", None)):
            if texts := [one.text for one in self.sentences if one.holds is kind]:
                told.append(f"{head}: {'; '.join(texts)}")
        return ". ".join(told)


def _chart(result: Result, suffix: str) -> Result:
    found = result.run.charts.get(result.experiment + suffix)
    if found is None:
        raise Missing(f"there is no chart {result.experiment}{suffix}")
    return found


def _points(charts: list[Result], name: str) -> dict[float | str, float]:
    """The medians of a series, summed over the charts."""
    sums: dict[float | str, float] = {}
    for number_of_chart, chart in enumerate(charts):
        series = chart.named(name)
        if series is None:
            raise Missing(f"{name} is absent: {why_absent(chart.run, name)}")
        here = {point.x: median(point.samples) for point in series.points if counts(series, point.x)}
        sums = here if number_of_chart == 0 else {x: sums[x] + here[x] for x in sums if x in here}
    if not sums:
        raise Missing(f"{name} was not measured, or failed its check")
    return sums


def _value(charts: list[Result], name: str, x: float | str, better: Any) -> tuple[float, float | str]:
    points = _points(charts, name)
    if x == "best":
        x = better(points, key=points.__getitem__)
    if x not in points:
        raise Missing(f"{name} was not measured at {spot(charts[0], x)}")
    return points[x], x


def _other(charts: list[Result], sentence: dict[str, Any], x: float | str, better: Any) -> tuple[float, str]:
    """The value that the ratio is over, and its name."""
    over = sentence["over"]
    if over not in ("best", "worst"):
        return _value(charts, over, x, better)[0], over
    among = [
        s.name
        for s in charts[0].series
        if (s.role if set(sentence["among"]) <= set(ROLES) else s.name) in sentence["among"]
    ]
    found = []
    for name in among:
        try:
            found.append((_value(charts, name, x, better)[0], name))
        except Missing:
            continue
    if not found:
        raise Missing(f"none of {', '.join(sentence['among'])} was measured")
    pick = better if over == "best" else (min if better is max else max)
    return pick(found)


def _ratio(result: Result, sentence: dict[str, Any]) -> Sentence:
    charts = [_chart(result, suffix) for suffix in sentence.get("charts", [""])]
    better = max if charts[0].better == "higher" else min
    name, wanted = sentence["series"], sentence["x"]
    if wanted == "each":
        wanted = list(_points(charts, name))
    least, most = [*sentence["within"], math.inf][:2]
    all_hold, told = True, []
    for x in wanted if isinstance(wanted, list) else [wanted]:
        top, at = _value(charts, name, x, better)
        bottom, other = _other(charts, sentence, sentence.get("x_over", x), better)
        if bottom == 0:  # of what is counted; no time is zero
            ratio = 1.0 if top == 0 else math.inf
        else:
            ratio = top / bottom
        holds = least <= ratio <= most
        all_hold = all_hold and holds
        where = f" at {at}" if x == "best" or isinstance(wanted, list) else ""
        if not isinstance(wanted, list) or not holds or len(wanted) <= 4:
            told.append(f"{number(ratio)} × {other}{where}")
    text = f"{sentence['says']} ({', '.join(told) or 'everywhere'}"
    if "factor" in sentence:
        text += f"; the paper {sentence['factor']:g} ×"
    if not all_hold:
        text += f"; counts {f'from {least:g}' if most == math.inf else f'from {least:g} to {most:g}'}"
    return Sentence(all_hold, text + ")")


def _order(result: Result, sentence: dict[str, Any]) -> Sentence:
    found = []
    for item in sentence["order"]:
        name, _, at = item.partition(" @ ")
        x: Any = sentence.get("x") if not at else float(at)
        value = value_at(result, name, x)
        if value is None:
            series = result.named(name)
            raise Missing(
                f"{item} is absent: {why_absent(result.run, name)}"
                if series is None
                else f"{item} was not measured, or failed"
            )
        found.append((item, value))
    higher = result.better == "higher"
    holds = all((b <= NOISE * a) if higher else (NOISE * b >= a) for (_, a), (_, b) in zip(found, found[1:]))
    return Sentence(
        holds, f"{sentence['says']} ({', '.join(f'{name} {number(value)}' for name, value in found)})"
    )


def judge_sentence(result: Result, sentence: dict[str, Any]) -> Sentence:
    try:
        if result.run.profile == "smoke":
            raise Missing(TOO_SHORT)
        if why := unmet(result, sentence):
            raise Missing(why)
        return _order(result, sentence) if "order" in sentence else _ratio(result, sentence)
    except Missing as why:
        return Sentence(None, f"{sentence['says']}, because {why}")


def verdict(result: Result) -> Verdict:
    """Reproduced: every sentence holds. Partly: some do, or some were not judged. Not: none of the others does."""
    sentences = [judge_sentence(result, one) for one in result.sentences]
    if not sentences:
        return Verdict()
    judged = [one.holds for one in sentences if one.holds is not None]
    word = (
        NOT_JUDGED
        if not judged
        else REPRODUCED if all(judged) and len(judged) == len(sentences) else PARTLY if any(judged) else NOT
    )
    return Verdict(word, sentences)
