# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Draw the charts as SVG that is ready to stand inside the page.

Every chart is drawn twice, for wide windows and for phones, because text that is scaled down with its chart
cannot be read. Text stays text, colours become variables of the page (light and dark), and all ids get a
prefix of their own, since many charts share one document.
"""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402 - the backend must be chosen first

from load import Result, Series  # noqa: E402
from stats import Summary, number, summarize  # noqa: E402
from styles import INK, Style  # noqa: E402
from svg import to_svg  # noqa: E402

matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "muster",
        "font.family": "DejaVu Sans",
        "text.parse_math": False,
        "text.color": INK["fg"][0],
        "axes.edgecolor": INK["limit"][0],
        "axes.linewidth": 0.8,
        "xtick.color": INK["muted"][0],
        "ytick.color": INK["muted"][0],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "path.simplify": False,
    }
)
FG, MUTED, GRID, BACK = (INK[name][0] for name in ("fg", "muted", "grid", "bg"))
LOG_FROM = 40  # Use a logarithmic scale when the largest median is this many times the smallest.


@dataclass(frozen=True)
class Size:
    name: str
    width: float  # In points, which are the units of the SVG.
    height: float
    font: float


SIZES = (Size("wide", 760, 350, 10.5), Size("narrow", 350, 290, 11))


def compact(value: float) -> str:
    """A short label for a tick: 4096, 64Ki, 1Mi, 20k."""
    for base, names in ((1024, ("Ki", "Mi", "Gi")), (1000, ("k", "M", "G"))):
        for power, name in reversed(list(enumerate(names, 1))):
            if abs(value) >= 10_000 and abs(value) >= base**power and value % base**power == 0:
                return f"{value / base ** power:g}{name}"
    return f"{value:g}"


def is_bar_chart(result: Result) -> bool:
    return result.x_scale == "category" or len(result.xs) <= 1


def draw(result: Result, styles: dict[str, Style], prefix: str) -> dict[str, str]:
    """The charts of a result by name of size; empty when there is nothing to draw."""
    if not any(point.samples for series in result.series for point in series.points):
        return {}
    paint = _bars if is_bar_chart(result) else _lines
    label = f"{result.y_name} by {result.x_name}, {result.title or result.experiment}"
    return {
        size.name: to_svg(paint(result, styles, size), f"{prefix}-{size.name[0]}", label) for size in SIZES
    }


def _measured(series: Series) -> list[tuple[float | str, Summary]]:
    return [(point.x, summarize(point.samples)) for point in series.points if point.samples]


def _axes(size: Size, height: float, left: float, top: float, bottom: float, right: float = 18):
    figure = pyplot.figure(figsize=(size.width / 72, height / 72), dpi=72)
    axes = figure.add_axes(
        (
            left / size.width,
            bottom / height,
            (size.width - left - right) / size.width,
            (height - top - bottom) / height,
        )
    )
    axes.tick_params(length=0, labelsize=size.font, pad=6)
    axes.set_axisbelow(True)
    return figure, axes


def _y_title(result: Result, log: bool) -> str:
    unit = f", {result.y_unit}" if result.y_unit else ""
    return f"{result.y_name}{unit} · {result.better} is better{' · log scale' if log else ''}"


def _wants_log(result: Result) -> bool:
    medians = [summary.median for series in result.series for _, summary in _measured(series)]
    lowest = min(summary.q1 for series in result.series for _, summary in _measured(series))
    return lowest > 0 and max(medians) / min(medians) >= LOG_FROM


def _plain_log(axis) -> None:
    low, high = axis.get_view_interval()
    steps = (1.0, 2.0, 5.0) if high / low < 3000 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(base=10, subs=steps, numticks=8))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: compact(value)))
    axis.set_minor_locator(ticker.NullLocator())


def _lines(result: Result, styles: dict[str, Style], size: Size):
    figure, axes = _axes(size, size.height, 52 if size.name == "wide" else 44, 34, 46)
    log = _wants_log(result)
    if result.x_scale == "log2" and min(result.xs) > 0:
        axes.set_xscale("log", base=2)
    if log:
        axes.set_yscale("log")
    # Ours is drawn last, on top of the others.
    for series in sorted(result.series, key=lambda one: (one.role == "ours", one.role != "limit")):
        points = sorted(_measured(series))
        if not points:
            continue
        style, ours = styles[series.name], series.role == "ours"
        middles = [summary.median for _, summary in points]
        errors = [[s.median - s.q1 for _, s in points], [s.q3 - s.median for _, s in points]]
        line = axes.errorbar(
            [x for x, _ in points],
            middles,
            yerr=errors,
            color=style.color,
            lw=style.width,
            elinewidth=1,
            capsize=2.5,
            capthick=1,
            marker=style.marker + style.marker[:1],
            markersize=style.size,
            zorder=4 if ours else 3,
            markeredgewidth=0.9 if ours or series.failed else 0,
            markerfacecolor=BACK if series.failed else style.color,
            markeredgecolor=style.color if series.failed else BACK,
        )
        line[0].set_solid_joinstyle("round")
        if style.dashes:
            line[0].set_dashes([length / style.width for length in style.dashes])
        elif series.failed:
            line[0].set_dashes((1, 1.6))
    if not log:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]) if min(axes.dataLim.intervaly) < 0 else 0)
        axes.yaxis.set_major_locator(ticker.MaxNLocator(6 if size.name == "wide" else 5))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: compact(value)))
        axes.set_ylim(top=axes.get_ylim()[1] * 1.04)
    else:
        _plain_log(axes.yaxis)
    axes.margins(x=0.04)
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.spines["left"].set_visible(False)
    _x_ticks(result, axes, size)
    unit = f", {result.x_unit}" if result.x_unit else ""
    axes.set_xlabel(f"{result.x_name}{unit}", fontsize=size.font, color=MUTED, labelpad=6)
    figure.text(8 / size.width, 1 - 14 / size.height, _y_title(result, log), fontsize=size.font, color=MUTED)
    _label_ours(result, axes, size)
    return figure


def _x_ticks(result: Result, axes, size: Size) -> None:
    """Ticks stand at the measured x, thinned out where their labels would touch."""
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    spans = []
    for x in result.xs:
        middle = axes.transData.transform((x, axes.get_ylim()[0]))[0]
        half = (len(compact(x)) * 0.62 * size.font + 8) / 2
        spans.append((middle - half, middle + half))
    stride = 1
    while any(a[1] > b[0] for a, b in zip(spans[::stride], spans[stride::stride])):
        stride += 1
    ticks = result.xs[::stride]
    axes.set_xticks(ticks, [compact(x) for x in ticks])


def _label_ours(result: Result, axes, size: Size) -> None:
    """Write the values of our series beside their points, where they hide neither data nor each other."""
    curves = [
        axes.transData.transform([(x, s.median) for x, s in sorted(_measured(series))])
        for series in result.series
        if _measured(series)
    ]
    inked = [
        (a[0] + (b[0] - a[0]) * t / 16, a[1] + (b[1] - a[1]) * t / 16)
        for curve in curves
        for a, b in zip(curve, curve[1:])
        for t in range(17)
    ]
    inked += [tuple(point) for curve in curves for point in curve]
    whiskers = [
        axes.transData.transform((x, end))
        for series in result.series
        for x, s in _measured(series)
        for end in (s.q1, s.q3)
    ]
    inked += [tuple(point) for point in whiskers]
    taken: list[tuple[float, float, float, float]] = []
    font = size.font - 0.5
    for series in (one for one in result.series if one.role == "ours"):
        for x, summary in sorted(_measured(series)):
            text = number(summary.median)
            half, (px, py) = len(text) * 0.3 * font, axes.transData.transform((x, summary.median))
            for shift in (11, -17, 17, -23):
                box = (px - half - 2, py + shift - 2, px + half + 2, py + shift + font)
                inside = box[1] > axes.bbox.y0 and box[3] < axes.bbox.y1 + 8 and box[2] < size.width - 2
                free = not any(box[0] < ix < box[2] and box[1] < iy < box[3] for ix, iy in inked)
                if (
                    inside
                    and free
                    and all(box[2] < t[0] or box[0] > t[2] or box[3] < t[1] or box[1] > t[3] for t in taken)
                ):
                    taken.append(box)
                    axes.annotate(
                        text,
                        (x, summary.median),
                        (0, shift),
                        textcoords="offset points",
                        ha="center",
                        fontsize=font,
                        color=FG,
                        fontweight="bold",
                    )
                    break


def _bars(result: Result, styles: dict[str, Style], size: Size):
    """Horizontal bars with their numbers; one group per x when there are several."""
    wide = size.name == "wide"
    rows: list[tuple[float | str, Series | None, Summary | None]] = []
    for x in result.xs:
        if len(result.xs) > 1:
            rows.append((x, None, None))
        rows += [
            (x, series, summarize(point.samples))
            for series in result.series
            if (point := series.at(x)) is not None and point.samples
        ]
    step = 22 if wide else 36
    places, height = [], 0.0
    for _, series, _ in rows:
        height += (28 if places else 20) + (0 if wide else 6) if series is None else step
        places.append(height - (6 if wide else 12) if series is None else height - step / 2)
    most = 42 if wide else 54  # Longer names are cut in the drawing; the table below has them in full.
    longest = max(min(len(series.name), most) for _, series, _ in rows if series is not None)
    left = min(290, 26 + longest * 0.58 * size.font) if wide else 10
    figure, axes = _axes(size, height + 60, left, 34, 26, right=26)
    axes.set_ylim(height, 0)
    log = _wants_log(result)
    values = [summary for _, _, summary in rows if summary is not None]
    if log:
        axes.set_xscale("log")
        low, high = min(s.q1 for s in values), max(s.q3 for s in values)
        axes.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.2)
        _plain_log(axes.xaxis)
    else:
        low, high = min([0.0, *(s.q1 for s in values)]), max([0.0, *(s.q3 for s in values)])
        axes.set_xlim(low, high + ((high - low) or 1) * (0.12 if wide else 0.24))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6 if wide else 4))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: compact(value)))
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    for (x, series, summary), y in zip(rows, places):
        if series is None:
            title = x if isinstance(x, str) else f"{result.x_name} {compact(x)}"
            figure.text(
                8 / size.width,
                1 - (34 + y + 3) / (height + 60),
                title,
                fontsize=size.font,
                color=FG,
                fontweight="bold",
            )
            continue
        _one_bar(axes, series, summary, styles[series.name], y if wide else y + 8, log)
        place = (left - 8, 34 + y + 4) if wide else (left, 34 + y - 5)
        figure.text(
            place[0] / size.width,
            1 - place[1] / (height + 60),
            series.name if len(series.name) <= most else series.name[: most - 1] + "…",
            fontsize=size.font,
            ha="right" if wide else "left",
            color=FG,
            fontweight="bold" if series.role == "ours" else "normal",
        )
        axes.annotate(
            number(summary.median),
            (summary.q3, y if wide else y + 8),
            (6, -4),
            textcoords="offset points",
            fontsize=size.font,
            color=FG,
            fontweight="bold" if series.role == "ours" else "normal",
        )
    figure.text(
        8 / size.width, 1 - 14 / (height + 60), _y_title(result, log), fontsize=size.font, color=MUTED
    )
    return figure


def _one_bar(axes, series: Series, summary: Summary, style: Style, y: float, log: bool) -> None:
    thick = 13 if series.role == "ours" else 9
    hollow = bool(series.failed) or series.role == "limit"
    if log:
        # A bar has no honest length on a logarithmic scale: draw the point alone.
        axes.plot(
            [summary.median],
            [y],
            marker=style.marker + style.marker[:1],
            markersize=thick * 0.75,
            color=style.color,
            markerfacecolor=BACK if hollow else style.color,
        )
    else:
        axes.barh(
            y, summary.median, height=thick, color=BACK, zorder=2
        )  # Keeps the grid from shining through.
        axes.barh(
            y,
            summary.median,
            height=thick,
            color=BACK if hollow else style.color,
            zorder=2,
            alpha=1 if hollow or series.role == "ours" else 0.6,
            edgecolor=style.color if hollow else "none",
            linewidth=1.2,
            linestyle="--",
        )
    axes.plot([summary.q1, summary.q3], [y, y], color=FG, lw=1, marker="|", markersize=5, zorder=5)
