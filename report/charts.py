# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Draw one experiment as a small SVG that takes its colours and its font from the page.

Written by hand: matplotlib's drawings of all experiments take a minute and a half and 14 MB, these a second and 1 MB.
A chart is 460 units wide, so that its text can still be read on a phone; longer names stand in the table below it.
"""

from __future__ import annotations

import math
from html import escape

from load import Result, Series
from stats import Summary, number, summarize
from styles import Style

HIDDEN = 6  # a line that is not longer is behind the mark of its median
WIDTH, HEIGHT = 460, 290
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 44
LOG_FROM = 30  # a wider range of medians is shown on a logarithmic scale
NAME = 30  # letters of a name that fit beside a bar


def compact(value: float) -> str:
    """A number on an axis: "64 Ki", "1.5 k"."""
    if value and value == int(value) and abs(value) >= 1024 and value % 1024 == 0:
        for power, name in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
            if value >= power:
                return f"{value / power:g} {name}"
    for power, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * power or (abs(value) >= power and value == int(value)):
            return f"{value / power:.3g} {name}"
    return f"{value:.3g}"


def is_bar_chart(result: Result) -> bool:
    return result.x_scale == "category" or len(result.xs) <= 1


def draw(result: Result, styles: dict[str, Style]) -> str:
    """The chart of a result; empty when there is nothing to draw."""
    rows = {s.name: _measured(s) for s in result.series}
    values = [summary for row in rows.values() for _, summary in row]
    if not values:
        return ""
    return (_bars if is_bar_chart(result) else _lines)(result, rows, values, styles)


def _measured(series: Series) -> list[tuple[float | str, Summary]]:
    return [(point.x, summarize(point.samples)) for point in series.points if point.samples]


def _wants_log(values: list[Summary]) -> bool:
    lowest = min(summary.q1 for summary in values)
    return lowest > 0 and max(s.median for s in values) / min(s.median for s in values) >= LOG_FROM


class Scale:
    """Values to places on one axis, with round ticks."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool, ticks: int) -> None:
        self.log, self.start, self.end = log, start, end
        if high <= low:
            low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
        self.ticks = self._decades(low, high) if log else self._steps(low, high, ticks)
        self.low, self.high = (min(low, self.ticks[0]), max(high, self.ticks[-1])) if not log else (low, high)

    @staticmethod
    def _steps(low: float, high: float, ticks: int) -> list[float]:
        rough = (high - low) / ticks
        power = 10 ** math.floor(math.log10(rough))
        step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * 0.999)
        return [step * i for i in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]

    @staticmethod
    def _decades(low: float, high: float) -> list[float]:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
            if len(found) <= 7:
                break
        stride = math.ceil(len(found) / 7) or 1
        return found[::stride] or [low]

    def __call__(self, value: float) -> float:
        if self.log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}"{more}>{escape(text)}</text>'


def _frame(result: Result, height: float, log: bool, body: list[str]) -> str:
    unit = f", {result.y_unit}" if result.y_unit else ""
    title = f"{result.y_name}{unit} · {result.better} is better{' · log' if log else ''}"
    size = ' textLength="440" lengthAdjust="spacingAndGlyphs"' if len(title) > 62 else ""
    name = f"{result.title or result.experiment}: {result.y_name} by {result.x_name}"
    best = _best(result)
    return (
        f'<svg viewBox="0 0 {WIDTH} {_n(height)}" role="img"><title>{escape(name)}</title>'
        f"<desc>{escape(best)}</desc>{_text(6, 15, title, f' class=q{size}')}{''.join(body)}</svg>"
    )


def _best(result: Result) -> str:
    """The chart in words, for screen readers: the best of ours and of the others at the last x."""
    told = []
    for role, name in (("ours", "muster"), ("peer", "peers")):
        found = [(s.at(x), s, x) for x in result.xs[-1:] for s in result.series if s.role == role]
        found = [(summarize(p.samples).median, s.name, x) for p, s, x in found if p is not None and p.samples]
        if found:
            value, best, x = (max if result.better == "higher" else min)(found, key=lambda one: one[0])
            told.append(f"best of {name} at {x}: {best}, {number(value)} {result.y_unit}".rstrip())
    return "; ".join(told) or "the numbers are in the table below"


def _lines(result: Result, rows: dict, values: list[Summary], styles: dict[str, Style]) -> str:
    log = _wants_log(values)
    low = min(s.q1 for s in values) if log else min(0.0, *(s.q1 for s in values))
    up = Scale(low, max(s.q3 for s in values), HEIGHT - BOTTOM, TOP, log, 5)
    xs = [float(x) for x in result.xs]
    base2 = result.x_scale == "log2" and xs[0] > 0
    across = Scale(xs[0], xs[-1], LEFT + 8, WIDTH - RIGHT - 8, base2, 6)
    body = []
    for tick in up.ticks:
        if up.low <= tick <= up.high * (1 + 1e-9):
            body.append(f'<path class=g d="M{LEFT} {_n(up(tick))}H{WIDTH - RIGHT}"/>')
            body.append(_text(LEFT - 6, up(tick) + 4, compact(tick), " class=r"))
    shown = xs if base2 else [tick for tick in across.ticks if xs[0] <= tick <= xs[-1]]
    last = -math.inf
    for x in shown:
        if across(x) - last >= 34:
            body.append(_text(across(x), HEIGHT - BOTTOM + 18, compact(x), " class=m"))
            last = across(x)
    body.append(
        _text(
            (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8,
            result.x_name + (f", {result.x_unit}" if result.x_unit else ""),
            " class=m",
        )
    )
    order = sorted(result.series, key=lambda s: ("limit", "peer", "baseline", "paper", "ours").index(s.role))
    for series in order:
        points = [(across(float(x)), s) for x, s in sorted(rows[series.name], key=lambda one: one[0])]
        if not points:
            continue
        style = styles[series.name]
        line = "".join(f"{'L' if i else 'M'}{_n(x)} {_n(up(s.median))}" for i, (x, s) in enumerate(points))
        whiskers = "".join(
            f"M{_n(x)} {_n(up(s.q1))}V{_n(up(s.q3))}" for x, s in points if up(s.q1) - up(s.q3) > HIDDEN
        )
        dashes = (
            ' stroke-dasharray="2 4"'
            if series.failed
            else f' stroke-dasharray="{style.dash_array}"' if style.dashes else ""
        )
        kind = "o" if series.role == "ours" else "p"
        body.append(f'<g class="{kind}" style="--c:var({style.variable})"><path d="{line}"{dashes}/>')
        if whiskers:
            body.append(f'<path class=w d="{whiskers}"/>')
        if series.role != "limit":
            body += [f'<use href="#{style.symbol}" x="{_n(x)}" y="{_n(up(s.median))}"/>' for x, s in points]
        body.append("</g>")
    ours = next((s for s in result.series if s.role == "ours" and rows[s.name]), None)
    if ours is not None and len(rows[ours.name]) <= 10:
        body += [
            _text(across(float(x)), up(s.median) - 9, number(s.median), " class=v")
            for x, s in rows[ours.name]
        ]
    return _frame(result, HEIGHT, log, body)


def _bars(result: Result, rows: dict, values: list[Summary], styles: dict[str, Style]) -> str:
    log = _wants_log(values)
    several = len(result.xs) > 1
    longest = max(min(len(name), NAME) for name, row in rows.items() if row)
    left = min(236, 18 + 7.4 * longest)
    low = min(s.q1 for s in values) / 1.3 if log else min(0.0, *(s.q1 for s in values))
    scale = Scale(low, max(s.q3 for s in values), left, WIDTH - 52, log, 4)
    y, body = 24.0, []
    for x in result.xs:
        here = [(s, dict(rows[s.name])[x]) for s in result.series if x in dict(rows[s.name])]
        if several:
            y += 20
            body.append(_text(6, y, x if isinstance(x, str) else f"{result.x_name} {compact(x)}", " class=h"))
            y += 6
        for series, s in here:
            style = styles[series.name]
            middle, thick = y + 9, 11 if series.role == "ours" else 8
            name = series.name if len(series.name) <= NAME else series.name[: NAME - 1] + "…"
            kind = "o" if series.role == "ours" else "p"
            hollow = " e" if series.role == "limit" or series.failed else ""
            body.append(_text(left - 8, middle + 4, name, f' class="r {kind}"'))
            start, end = scale(0 if not log and scale.low <= 0 else scale.low), scale(s.median)
            body.append(f'<g class="{kind}{hollow}" style="--c:var({style.variable})">')
            if log:  # a bar has no honest length on a logarithmic scale
                body.append(f'<use href="#{style.symbol}" x="{_n(end)}" y="{_n(middle)}"/>')
            else:
                body.append(
                    f'<rect x="{_n(min(start, end))}" y="{_n(middle - thick / 2)}" '
                    f'width="{_n(max(1, abs(end - start)))}" height="{thick}"/>'
                )
            if scale(s.q3) - scale(s.q1) > (HIDDEN if log else 1):
                body.append(f'<path class=w d="M{_n(scale(s.q1))} {_n(middle)}H{_n(scale(s.q3))}"/>')
            body.append("</g>")
            body.append(_text(max(end, scale(s.q3)) + 6, middle + 4, number(s.median), f' class="{kind}"'))
            y += 19
    return _frame(result, y + 8, log, body)
