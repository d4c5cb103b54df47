# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""A result file whose medians, ratios and verdicts are easy to compute by hand."""

from __future__ import annotations


def series(name: str, role: str, points: dict, **more) -> dict:
    return {
        "name": name,
        "role": role,
        **more,
        "points": [{"x": x, "samples": list(samples), "checked": True} for x, samples in points.items()],
    }


def around(middle: float) -> list[float]:
    """Five samples with a known median and quartiles one per cent away from it."""
    return [middle * factor for factor in (0.97, 0.99, 1.0, 1.01, 1.05)]


def document() -> dict:
    """Throughput by consumers, time by name, and a figure of a paper; every verdict is known by hand."""
    fan_out = {
        "experiment": "queue/fan-out",
        "part": "queue",
        "title": "One producer, many consumers",
        "setting": "<b>n</b> consumers & one producer, pinned",
        "x": {"name": "consumers", "unit": "", "scale": "log2"},
        "y": {"name": "throughput", "unit": "Mops/s", "better": "higher"},
        "series": [
            series("spmc_queue", "ours", {2: around(48.3), 8: around(30.7)}, note="default layout"),
            series("ring A", "peer", {2: around(32.2), 8: around(12.9)}),
            series("ring B", "peer", {2: around(24.6), 8: around(20.1)}),
            series("broken", "peer", {2: around(99.4), 8: around(98.6)}, failed="item 7 came twice"),
            series("fetch-add", "limit", {2: around(120.5), 8: around(110.5)}),
        ],
    }
    cost = {
        "experiment": "combine/uncontended",
        "part": "combine",
        "x": {"name": "case", "scale": "category"},
        "y": {"name": "time", "unit": "ns", "better": "lower"},
        "later_key": [1],
        "series": [
            series("std::mutex", "peer", {"1 thread alone": around(21.4)}),
            series("osci", "ours", {"1 thread alone": around(29.96)}),
            series("spin lock", "baseline", {"1 thread alone": around(71.9)}),
            series("psim", "ours", {"1 thread alone": around(83.1)}),
            {"name": "never ran", "role": "peer", "failed": "does not end", "points": []},
        ],
    }
    figure = {
        "experiment": "ffq/fig3-queue-size",
        "part": "queue",
        "source": "ffq, Figure 3",
        "title": "Queue size",
        "x": {"name": "capacity", "unit": "items", "scale": "log2"},
        "y": {"name": "throughput", "unit": "Mops/s", "better": "higher"},
        "series": [series("FFQ^s as printed", "paper", {4**k: around(10.15 + k) for k in range(1, 11)})],
    }
    return {
        "schema": 2,
        "complete": True,
        "profile": "quick",
        "date": "2026-11-21T07:00:00Z",
        "command": "muster-bench run queue/fan-out",
        "units": 2,
        "machine": {"cpu": "Example KVM processor", "cores": 2, "kernel": "6.1", "governor": "unknown"},
        "build": {"commit": "abc1234", "compiler": "g++ 12.2", "flags": "-O3", "peers": {"ring": "1.2.3"}},
        "missing": [{"name": "xenium", "reason": "not installed (apt-get install libxenium-dev)"}],
        "results": [fan_out, cost, figure],
    }
