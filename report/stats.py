# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The statistics of the report: medians, quartiles and bootstrap intervals, never a best-of."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
SEED = 20240229  # Fixed, so that the same files always give the same page.

# Nanoseconds of one operation are factor / value for rates and factor * value for times.
RATES = {"ops/s": 1e9, "kops/s": 1e6, "mops/s": 1e3, "gops/s": 1.0, "mops": 1e3}
TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Summary:
    n: int
    median: float
    q1: float
    q3: float

    @property
    def iqr(self) -> float:
        return self.q3 - self.q1


def resampled_medians(samples: list[float], stream: int = 0) -> np.ndarray:
    """Medians of `RESAMPLES` draws with replacement; different streams are independent of each other."""
    values = np.asarray(samples, dtype=float)
    generator = np.random.default_rng([SEED, stream])
    rows = max(1, 2_000_000 // len(values))  # Bounds the memory when a point has very many samples.
    parts = []
    for start in range(0, RESAMPLES, rows):
        draw = generator.integers(0, len(values), (min(rows, RESAMPLES - start), len(values)))
        parts.append(np.median(values[draw], axis=1))
    return np.concatenate(parts)


def interval(medians: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


def summarize(samples: list[float]) -> Summary:
    return _summary(tuple(samples))


@functools.cache
def _summary(samples: tuple[float, ...]) -> Summary:
    """As np.percentile, which takes longer to call than the few samples take."""
    ordered = sorted(samples)

    def quantile(part: float) -> float:
        place = part * (len(ordered) - 1)
        below = math.floor(place)
        return ordered[below] + (place - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])

    return Summary(len(ordered), quantile(0.5), quantile(0.25), quantile(0.75))


def ratio_interval(top: list[float], bottom: list[float]) -> tuple[float, float] | None:
    """The 95 % interval of median(top) / median(bottom); None if there are too few samples."""
    if min(len(top), len(bottom)) < 2:
        return None
    divisor = resampled_medians(bottom, 2)
    if np.any(divisor <= 0):
        return None
    return interval(resampled_medians(top, 1) / divisor)


def to_ns(value: float, unit: str) -> float | None:
    """Nanoseconds per operation of a rate or a time; None when the unit is neither."""
    unit = unit.strip().lower().replace("μ", "µ")
    if unit in RATES:
        return RATES[unit] / value if value > 0 else None
    for suffix in ("/op", " per op", " per operation"):
        unit = unit.removesuffix(suffix)
    return value * TIMES[unit] if unit in TIMES else None


def number(value: float | None) -> str:
    """Three significant digits, no exponent for the sizes that occur here."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995 or value == 0:
        return f"{value:.2f}" if value else "0"
    return f"{value:#.3g}" if size >= 1e-4 else f"{value:.1e}"


def shown(summary: Summary, unit: str) -> str:
    """A median; of a time that is not above zero, which only a difference can be, how far it may be off."""
    if summary.median <= 0 and unit in TIMES:
        return f"below the noise (±{number(max(summary.q3 - summary.median, summary.median - summary.q1))})"
    return number(summary.median)


def place(x: float | str) -> str:
    """An x as it stands in tables."""
    return x if isinstance(x, str) else f"{x:,.0f}" if float(x).is_integer() else f"{x:g}"
