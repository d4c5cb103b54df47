# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the parts of report/ that need no page: the statistics and the look of the series."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "report")]
import numpy  # noqa: E402 - the modules of the report are found only from here on
import load  # noqa: E402
import stats  # noqa: E402
import styles  # noqa: E402
from sample import document, series  # noqa: E402


class StatisticsTest(unittest.TestCase):
    def test_summary(self):
        summary = stats.summarize([5.0, 1.0, 4.0, 2.0, 3.0])
        self.assertEqual(
            (summary.n, summary.median, summary.q1, summary.q3, summary.iqr), (5, 3.0, 2.0, 4.0, 2.0)
        )
        self.assertEqual(stats.summarize([7.0]).iqr, 0)

    def test_a_difference_below_the_noise_is_called_that(self):
        self.assertEqual(stats.shown(stats.summarize([-1.5, -1.0, 0.5]), "ns"), "below the noise (±0.750)")
        self.assertEqual(stats.shown(stats.summarize([1.5, 1.0, 2.0]), "ns"), "1.50")
        self.assertEqual(stats.shown(stats.summarize([0.0]), "thefts"), "0")

    def test_interval_holds_the_true_median_about_as_often_as_it_says(self):
        generator = numpy.random.default_rng(1)
        held = sum(
            low <= 10.0 <= high
            for low, high in (
                stats.interval(stats.resampled_medians(list(generator.normal(10.0, 1.0, 25))))
                for _ in range(300)
            )
        )
        self.assertTrue(270 <= held <= 297, f"{held} of 300")

    def test_nanoseconds(self):
        self.assertEqual(stats.to_ns(50.0, "Mops/s"), 20.0)
        self.assertEqual(stats.to_ns(12.5, "ns/op"), 12.5)
        self.assertEqual(stats.to_ns(2.0, "µs"), 2000.0)
        self.assertIsNone(stats.to_ns(3.0, "misses"))

    def test_numbers_have_three_digits(self):
        shown = [stats.number(value) for value in (0, 0.01234, 0.99999, 9.996, 12.34, 99.96, 1234.5, None)]
        self.assertEqual(shown, ["0", "0.0123", "1.00", "10.0", "12.3", "100", "1,234", "–"])


class StyleTest(unittest.TestCase):
    def test_series_of_one_chart_never_look_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "many.json"
            wide = document()
            wide["results"] = wide["results"][:1]
            wide["results"][0]["series"] += [series(f"peer {i}", "peer", {2: [1.0]}) for i in range(25)]
            path.write_text(json.dumps(wide), encoding="utf-8")
            looks = styles.assign(load.read_file(path)[0])
        self.assertEqual(len(looks), 30)
        self.assertEqual(len({(look.variable, tuple(look.marker)) for look in looks.values()}), len(looks))


if __name__ == "__main__":
    unittest.main()
