# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""One colour and one marker per series, the same on the whole page and in both colour schemes.

The colours are chosen so that every two of them stay apart for normal sight, protanopia, deuteranopia and
tritanopia, and each has a contrast of at least 3 to 1 with its background. The marker tells series apart
where the colours run out, and without any colour in print.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from load import ROLES, Result

# (light scheme, dark scheme); the page uses them as the variables --s0, --s1 and so on.
PALETTE = [
    ("#6965da", "#a7d5f4"),
    ("#ef5d71", "#e099a2"),
    ("#316453", "#368967"),
    ("#a07600", "#b6c758"),
    ("#499fb7", "#3a9de5"),
    ("#682300", "#c5580f"),
    ("#4e1d7f", "#955aa8"),
]
# Inks that are not series.
INK = {
    "fg": ("#1d2127", "#e4e7eb"),
    "muted": ("#5f6772", "#9aa3ae"),
    "grid": ("#e2e5e9", "#2b3038"),
    "limit": ("#858c96", "#868e99"),
    "bg": ("#fefefe", "#14171c"),
}
LIMIT_DASHES = [(6, 3), (6, 2, 1.5, 2), (1.5, 2), (10, 3)]


def _polygon(corners: int, turn: float = 0.0, inner: float = 1.0) -> list[tuple[float, float]]:
    """A regular polygon, or a star when inner is less than one; y points up."""
    steps = corners if inner == 1.0 else 2 * corners
    ring = []
    for i in range(steps):
        angle = math.pi / 2 + math.radians(turn) + 2 * math.pi * i / steps
        size = inner if i % 2 and inner != 1.0 else 1.0
        ring.append((round(size * math.cos(angle), 4), round(size * math.sin(angle), 4)))
    return ring


MARKERS = [
    _polygon(24),
    _polygon(4, 45),
    _polygon(3),
    _polygon(4),
    _polygon(3, 180),
    _polygon(5),
    _polygon(5, 0, 0.45),
    _polygon(4, 0, 0.4),
    _polygon(4, 45, 0.4),
    _polygon(3, 90),
    _polygon(3, 270),
]
SOLID_MARKERS = 6  # The first ones stay visible on the thick lines of ours.


@dataclass(frozen=True)
class Style:
    variable: str  # the variable of the page that holds the colour
    marker: list[tuple[float, float]]
    dashes: tuple[float, ...] | None

    @property
    def symbol(self) -> str:
        """The id of the marker among the symbols of the page."""
        return f"m{MARKERS.index(self.marker)}"

    @property
    def dash_array(self) -> str:
        return " ".join(f"{length:g}" for length in self.dashes) if self.dashes else ""


def assign(results: list[Result]) -> dict[str, Style]:
    """Give every series name of the page its look.

    A name takes the colour, and then the marker, that its neighbours in any chart use least, so that two
    series in one chart share a colour only when there are more of them than colours.
    """
    roles: dict[str, str] = {}
    neighbours: dict[str, set[str]] = {}
    for result in results:
        names = {series.name for series in result.series}
        for series in result.series:
            roles[series.name] = min(roles.get(series.name, series.role), series.role, key=ROLES.index)
            neighbours.setdefault(series.name, set()).update(names - {series.name})
    colors: dict[str, int] = {}
    markers: dict[str, int] = {}
    styles: dict[str, Style] = {}
    for name in sorted(roles, key=lambda name: ROLES.index(roles[name])):
        role = roles[name]
        near = [other for other in neighbours[name] if other in markers]
        shapes = SOLID_MARKERS if role == "ours" else len(MARKERS)
        uses = [markers[other] for other in near]
        markers[name] = min(range(shapes), key=lambda m: (uses.count(m), list(markers.values()).count(m), m))
        marker = MARKERS[markers[name]]
        if role == "limit":
            # A limit is a grey line: it takes no colour away from the series.
            dashes = LIMIT_DASHES[sum(roles[other] == "limit" for other in styles) % len(LIMIT_DASHES)]
            styles[name] = Style("--limit", marker, dashes)
            continue
        cost = [0] * len(PALETTE)
        for other in near:
            # A neighbour of ours counts double: where colours run out, the others share theirs first.
            if other in colors:
                cost[colors[other]] += 2 if roles[other] == "ours" else 1
        color = colors[name] = cost.index(min(cost))
        styles[name] = Style(f"--s{color}", marker, None)
    return styles


def variables() -> dict[str, dict[str, str]]:
    """The values of all variables in the light and in the dark scheme."""
    named = {**{f"s{i}": pair for i, pair in enumerate(PALETTE)}, **INK}
    return {
        scheme: {name: pair[i] for name, pair in named.items()} for i, scheme in enumerate(("light", "dark"))
    }


def symbols() -> dict[str, str]:
    """The outlines of all markers, around the origin."""
    return {
        f"m{i}": " ".join(f"{4.2 * x:.1f},{-4.2 * y:.1f}" for x, y in marker) for i, marker in enumerate(MARKERS)
    }
