# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the one judge: each bar and each sentence of bench/bars.toml is met and just missed by made-up results, and
by the committed ones with their samples scaled; and what is said of files that are wrong.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "report")]
import bars  # noqa: E402 - the modules of the report are found only from here on
import claims  # noqa: E402
import load  # noqa: E402
import verdict  # noqa: E402
from sample import around, document, series  # noqa: E402

A_LITTLE = 1e-6


class Made:
    """A run with a single chart for each suffix, whose series have one sample at each x."""

    def __init__(self, experiment: str, y_name: str, better: str) -> None:
        self.experiment, self.y_name, self.better = experiment, y_name, better
        self.charts: dict[str, dict[str, dict]] = {"": {}}

    def put(self, name: str, x: object, value: float, charts: tuple[str, ...] = ("",)) -> None:
        for suffix in charts:
            self.charts.setdefault(suffix, {}).setdefault(name, {})[x] = value / len(charts)

    def result(self) -> load.Result:
        run = load.Run(Path("made.json"), {}, {"compiler": "GNU 12"}, "full", "", "", 2, True, True, {})
        for suffix, rows in self.charts.items():
            lines = []
            for name, points in rows.items():
                role = name.split("role ")[-1] if name.startswith("role ") else "baseline"
                made = [load.Point(x, [value], True, [], None) for x, value in points.items()]
                lines.append(load.Series(name, role, "", "", False, made))
            run.charts[self.experiment + suffix] = load.Result(
                run,
                self.experiment + suffix,
                "queue",
                "",
                "",
                "",
                "x",
                "",
                "category",
                self.y_name,
                "",
                self.better,
                lines,
            )
        return run.charts[self.experiment]


def run_of(units: int = 2, profile: str = "full") -> SimpleNamespace:
    return SimpleNamespace(units=units, profile=profile, build={"compiler": "GNU 12"})


def all_entries(kind: str):
    for experiment, entry in bars.table().items():
        y_names = {one.get("y", "") for one in entry.get(kind, [])}
        for y_name in sorted(y_names):
            for one in bars.entries(experiment, kind, run_of(), y_name):
                if one.get("y", "") == y_name:
                    yield experiment, y_name, one


class BarsTest(unittest.TestCase):
    def state(
        self, experiment: str, y_name: str, better: str, bar: bars.Bar, times_as_good: float, noisy=False
    ) -> str:
        made = Made(experiment, y_name, better)
        other = f"role {bar.against}" if bar.against in bars.ROLES else bar.against
        made.put(other, bar.x_against, 100.0)
        for condition in bar.only_if:
            if condition["series"] != bar.ours or condition["x"] != bar.x_against:
                made.put(condition["series"], condition["x"], condition["at_most"] * (2.0 if noisy else 0.5))
        made.put(bar.ours, bar.x, 100.0 * (times_as_good if better == "higher" else 1 / times_as_good) + bar.plus)
        return verdict.judge(made.result(), bar).state

    def test_each_bar_is_reached_and_just_missed(self):
        tested = 0
        for experiment in bars.table():
            for y_name in {one.get("y", "") for one in bars.table()[experiment].get("bars", [])}:
                for bar in bars.bars_of(experiment, run_of()):
                    if bar.y not in ("", y_name):
                        continue
                    good = bar.limit if bar.at_least else 1 / bar.limit
                    for better in ("higher", "lower"):
                        with self.subTest(f"{experiment}: {bar.ours} at {bar.x}, {better}"):
                            reached = self.state(experiment, y_name, better, bar, good * (1 + A_LITTLE))
                            missed = self.state(experiment, y_name, better, bar, good * (1 - A_LITTLE))
                            self.assertEqual((reached, missed), (verdict.REACHED, verdict.MISSED))
                            tested += 1
        self.assertGreater(tested, 2 * 120)

    def test_a_condition_that_is_not_met_leaves_the_bar_open(self):
        conditional = [
            (experiment, bar)
            for experiment in bars.table()
            for bar in bars.bars_of(experiment, run_of())
            if bar.only_if
        ]
        self.assertGreater(len(conditional), 3)
        for experiment, bar in conditional:
            self.assertEqual(
                self.state(experiment, "", "lower", bar, 100, noisy=True), verdict.OPEN, bar.ours
            )

    def test_missing_data_are_named(self):
        made = Made("queue/fan-out", "", "higher")
        made.put("spmc_queue", 2, 1.0)
        text = verdict.judge_all(made.result())[0].text
        self.assertIn("no checked peer was measured there", text)
        text = next(j.text for j in verdict.judge_all(made.result()) if j.bar.ours == "spmc_queue pop_n(8)")
        self.assertIn("there is no such series: it was not measured", text)

    def test_another_unit_leaves_bars_and_sentences_open(self):
        made = Made("xmalloc/fig2-throughput", "memory operations per request", "lower")
        made.put("coalescing, 16 FIFOs", 32, 1.0)
        made.put("upstream alone", 32, 10.0)
        made.put("CUDA malloc", 32, 10.0)
        judged = {(j.bar.ours, j.bar.against): j for j in verdict.judge_all(made.result())}
        found = judged["coalescing, 16 FIFOs by multiprocessor", "CUDA malloc"]
        self.assertEqual(found.state, verdict.OPEN)
        self.assertIn("about the time per object; here the memory operations per request were counted", found.text)
        self.assertEqual(judged["coalescing, 16 FIFOs", "upstream alone"].state, verdict.REACHED)
        self.assertEqual(claims.verdict(made.result()).word, claims.NOT_JUDGED)

    def test_each_is_a_bar_wherever_ours_is(self):
        made = Made("fork/sort", "", "lower")
        for x in ("sorted", "reversed"):
            made.put("muster, 1 worker", x, 1.0)
            made.put("std::sort", x, 2.0 if x == "sorted" else 0.5)
        made.put("std::sort", "elsewhere", 1.0)
        judged = {j.bar.x: j for j in verdict.judge_all(made.result()) if j.bar.ours == "muster, 1 worker"}
        states = {x: j.state for x, j in judged.items()}
        self.assertEqual(states, {"sorted": verdict.REACHED, "reversed": verdict.MISSED})
        absent = [j for j in verdict.judge_all(made.result()) if j.bar.ours == "muster, 2 workers"]
        self.assertEqual([j.state for j in absent], [verdict.OPEN] * 2)

    def test_what_ours_may_cost_besides(self):
        made = Made("fork/loops", "", "lower")
        made.put("plain calls", "for 10", 4.0)
        for cost, state in ((11.0, verdict.REACHED), (11.001, verdict.MISSED)):  # 1.5 times 4, and 5
            made.put("muster, 1 worker", "for 10", cost)
            found = next(j for j in verdict.judge_all(made.result()) if j.bar.x == "for 10")
            self.assertEqual(found.state, state)
            self.assertIn("needed at most 1.5 × and 5, which the ratio leaves out", found.text)

    def test_a_limit_for_clang(self):
        bar = bars.bars_of(
            "fork/overhead", SimpleNamespace(units=2, profile="full", build={"compiler": "Clang 19"})
        )[0]
        self.assertEqual((bar.ours, bar.limit), ("muster", 2.4))

    def test_a_value_of_the_table_is_a_line_of_the_chart(self):
        """Also if the file has another: the table is the only place."""
        lines = [series("muster", "ours", {"fib": [3.9], "fib(42)": [5.0]}), series("4 ns", "limit", {"fib": [3.0]})]
        chart = {"experiment": "fork/overhead-fork", "part": "fork", "x": {"name": "program"}, "series": lines}
        content = document() | {"results": [chart | {"y": {"name": "time per fork", "better": "lower"}}]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "made.json"
            path.write_text(json.dumps(content), encoding="utf-8")
            found = load.read_file(path)[0][0]
        self.assertEqual([(p.x, p.samples) for p in found.named("4 ns").points], [("fib", [4.0]), ("fib(42)", [4.0])])
        self.assertEqual(len(found.series), 2)
        self.assertEqual(verdict.judge_all(found)[0].state, verdict.REACHED)

    def test_a_difference_below_the_noise_is_called_that(self):
        made = Made("fork/overhead-fork", "", "lower")
        made.put("4 ns", "fib", 4.0)
        made.put("muster", "fib", -1.03)
        found = verdict.judge_all(made.result())[0]
        self.assertEqual(found.state, verdict.REACHED)
        self.assertIn("below the noise", found.text)


class SentenceTest(unittest.TestCase):
    @staticmethod
    def made(experiment: str, y_name: str, sentence: dict, ratio: float) -> load.Result:
        made = Made(experiment, y_name, "higher")
        charts = tuple(sentence.get("charts", [""]))
        x = sentence["x"]
        places = x if isinstance(x, list) else [1] if x in ("each", "best") else [x]
        other_x = sentence.get("x_over")
        over = sentence["over"]
        names = [over] if over not in ("best", "worst") else sentence["among"]
        for place in places:
            at = place if other_x in (None, "best") else other_x
            if over == sentence["series"] and other_x == "best":
                at = "elsewhere"
            for i, name in enumerate(names):
                made.put(name, at, 100.0 if i == 0 else 50.0 if over == "best" else 200.0, charts)
            made.put(sentence["series"], "further" if x == "best" else place, 100.0 * ratio, charts)
        for condition in sentence.get("only_if", []):
            made.put(condition["series"], condition["x"], condition["at_most"] * 0.5)
        return made.result()

    def holds(self, *what) -> bool | None:
        return claims.judge_sentence(self.made(*what), what[2]).holds

    def test_each_ratio_holds_within_its_range_only(self):
        sides = 0
        for experiment, y_name, sentence in all_entries("paper"):
            if "order" in sentence:
                continue
            least, most = [*sentence["within"], math.inf][:2]
            # The best of a series over all x is never below its value at one x.
            above_one = sentence["x"] == "best" and sentence["over"] == sentence["series"]
            below_one = sentence.get("x_over") == "best" and sentence["over"] == sentence["series"]
            for limit, inside, outside in (
                (least, 1 + A_LITTLE, 1 - A_LITTLE),
                (most, 1 - A_LITTLE, 1 + A_LITTLE),
            ):
                if limit in (0, math.inf) or (above_one and limit <= 1) or (below_one and limit >= 1):
                    continue
                with self.subTest(f"{experiment}: {sentence['says']}, {limit}"):
                    self.assertIs(self.holds(experiment, y_name, sentence, limit * inside), True)
                    self.assertIs(self.holds(experiment, y_name, sentence, limit * outside), False)
                    sides += 1
            self.assertTrue(least > 0 or most < math.inf, f"{experiment}: {sentence['says']} can never fail")
            if "factor" in sentence:
                self.assertTrue(least <= sentence["factor"] <= most, f"{experiment}: {sentence['says']}")
        self.assertGreater(sides, 70)

    def test_each_order_breaks_where_two_change_places(self):
        orders = 0
        for experiment, y_name, sentence in all_entries("paper"):
            for changed in range(1, len(sentence.get("order", []))):
                for better in ("higher", "lower"):
                    for factor, holds in (
                        (claims.NOISE * (1 - A_LITTLE), True),
                        (claims.NOISE * (1 + A_LITTLE), False),
                    ):
                        made, value = Made(experiment, y_name, better), 1e6
                        for i, item in enumerate(sentence["order"]):
                            name, _, at = item.partition(" @ ")
                            grown = factor if i == changed else 0.5 if i else 1
                            value = value * grown if better == "higher" else value / grown
                            made.put(name, float(at) if at else sentence["x"], value)
                        for condition in sentence.get("only_if", []):
                            made.put(condition["series"], condition["x"], 0.0)
                        with self.subTest(f"{experiment}: {sentence['order'][changed]}, {better}"):
                            self.assertIs(claims.judge_sentence(made.result(), sentence).holds, holds)
                orders += 1
        self.assertGreater(orders, 25)

    def test_the_verdict_needs_every_sentence(self):
        made = Made("osci/fig2-fibers", "", "higher")
        name = "osci, 2 carriers"
        for x, value in ((1, 1.0), (4, 3.8), (8, 6.2), (32, 10.0), (64, 10.5), (128, 9.9)):
            made.put(name, x, value)
        self.assertEqual(claims.verdict(made.result()).word, claims.REPRODUCED)
        made.put(name, 8, 2.0)  # the order is still the paper's, the factor is not
        found = claims.verdict(made.result())
        self.assertEqual(found.word, claims.PARTLY)
        self.assertIn("Not here: 8 fibers have over 6 times", found.why)
        del made.charts[""][name][128]
        self.assertIn("was not measured at", claims.verdict(made.result()).why)
        made.charts[""].clear()
        made.put("other", 1, 1.0)
        found = claims.verdict(made.result())
        self.assertEqual(found.word, claims.NOT_JUDGED)
        self.assertIn("osci, 2 carriers is absent: it was not measured", found.why)


class CommittedTest(unittest.TestCase):
    """The recorded results, with the samples of one series scaled until each verdict changes."""

    @staticmethod
    def scaled(result: load.Result, name: str, factor: float) -> None:
        for point in result.named(name).points:
            point.samples = [sample * factor for sample in point.samples]

    def test_each_judged_bar_can_be_turned_round(self):
        results, problems = load.read_all([ROOT / "bench" / "results"])
        self.assertEqual([one for one in problems if "left out" in one], [])
        turned = 0
        for result in results:
            for bar in result.bars:
                before = verdict.judge(result, bar)
                if before.state == verdict.OPEN or before.ratio is None or before.ratio <= 0:
                    continue
                if bar.against == bar.ours:
                    continue  # scaled together, they keep their ratio
                better = before.ratio if bar.at_least else 1 / before.ratio
                wanted = (bar.limit if bar.at_least else 1 / bar.limit) / better
                wanted *= 1 - 1e-9 if before.state == verdict.REACHED else 1 + 1e-9
                changed = copy.deepcopy(result)
                self.scaled(changed, bar.ours, wanted if result.better == "higher" else 1 / wanted)
                after = verdict.judge(changed, bar)
                self.assertEqual(
                    {before.state, after.state},
                    {verdict.REACHED, verdict.MISSED},
                    f"{result.run.path.name}: {before.text} -> {after.text}",
                )
                turned += 1
        self.assertGreater(turned, 150)

    def test_a_verdict_changes_with_the_series_that_it_is_about(self):
        changed_words = 0
        results, _ = load.read_all([ROOT / "bench" / "results"])
        for result in results:
            before = claims.verdict(result)
            for sentence, told in zip(result.sentences, before.sentences):
                if told.holds is None or "order" in sentence or sentence["series"] == sentence["over"]:
                    continue
                points = claims._points(
                    [
                        result.run.charts[result.experiment + suffix]
                        for suffix in sentence.get("charts", [""])
                    ],
                    sentence["series"],
                )
                if not all(
                    points[x]
                    for x in points
                    if x in (sentence["x"] if isinstance(sentence["x"], list) else points)
                ):
                    continue  # scaled, nothing is still nothing
                found = set()
                for factor in (1e-3, 1e3):
                    run = copy.deepcopy(result.run)
                    for suffix in sentence.get("charts", [""]):
                        self.scaled(run.charts[result.experiment + suffix], sentence["series"], factor)
                    found.add(claims.judge_sentence(run.charts[result.experiment], sentence).holds)
                self.assertIn(
                    False, found, f"{result.experiment}: {sentence['says']} holds whatever is measured"
                )
                changed_words += 1
        self.assertGreater(changed_words, 30)


class FalsifiedFileTest(unittest.TestCase):
    """For every experiment a file whose verdict changes when the samples of a series in the file are changed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "falsified.json"

    def states(self, content: dict, experiment: str) -> list[object]:
        """The states of all bars and sentences of an experiment that are judged, read from a file."""
        self.path.write_text(json.dumps(content), encoding="utf-8")
        states: list[object] = []
        for result in load.read_file(self.path)[0]:
            if result.experiment == experiment:
                states += [judgement.state for judgement in verdict.judge_all(result)]
                states += [sentence.holds for sentence in claims.verdict(result).sentences]
        return [one for one in states if one not in (verdict.OPEN, None)]

    @staticmethod
    def recorded(experiment: str, documents: list[dict]) -> list[dict]:
        """The committed files that have the experiment, with it and the charts of the same runs only."""
        return [
            one | {"results": [r for r in one["results"] if r["experiment"].startswith(experiment)]}
            for one in documents
            if any(r["experiment"] == experiment for r in one["results"])
        ]

    @staticmethod
    def made(experiment: str) -> list[dict]:
        """A file for each quantity, in which every series that the table names has the same median everywhere."""
        entry = bars.table()[experiment]
        y_names = {one.get("y", "time") for one in [*entry.get("bars", []), *entry.get("paper", [])]}
        files = []
        for y_name in sorted(y_names):
            found = [
                one
                for kind in ("bars", "paper")
                for one in bars.entries(experiment, kind, run_of(), y_name)
            ]
            xs, suffixes = {1}, {""}
            for one in found:
                for key in ("x", "x_over", "x_against"):
                    xs |= set(one[key] if isinstance(one.get(key), list) else [one.get(key, 1)])
                suffixes |= set(one.get("charts", ()))
                xs |= {float(item.split(" @ ")[1]) for item in one.get("order", ()) if " @ " in item}
            places = {x: [100.0] * 3 for x in xs - {"best", "each"}}
            roles = {one.get("against", "peer") for one in found if "ours" in one} & set(bars.ROLES)
            names = set().union(*(bars.names_of(one) for one in found))
            lines = [series(name, "limit", places) for name in sorted(names)]
            lines += [series(f"a {role}", role, places) for role in sorted(roles)]
            chart = {
                "part": "queue",
                "x": {"name": "x", "scale": "category"},
                "y": {"name": y_name, "better": "lower"},
                "series": lines,
            }
            files.append(
                document()
                | {"profile": "full", "results": [chart | {"experiment": experiment + s} for s in sorted(suffixes)]}
            )
        return files

    def changes(self, experiment: str, files: list[dict]) -> bool:
        """True if a verdict changes with all points of a series, or with one."""
        named = set().union(
            *(
                bars.names_of(one)
                for kind in ("bars", "paper")
                for one in bars.table()[experiment].get(kind, [])
            )
        )
        for content in files:
            before = self.states(content, experiment)
            lines = [line for r in content["results"] for line in r["series"]] if before else []
            names = sorted({line["name"] for line in lines}, key=lambda name: (name not in named, name))
            places = [*dict.fromkeys(point["x"] for line in lines for point in line["points"])]
            for factors in ((1e-3, 1e3), [2 ** (k / 2) for k in range(-8, 9)]):
                for where in ([None], places):
                    for what in itertools.product(names, where, factors):
                        if self.states(self.falsified(content, *what), experiment) != before:
                            return True
        return False

    @staticmethod
    def falsified(content: dict, name: str, place: object, factor: float) -> dict:
        changed = copy.deepcopy(content)
        for line in (s for r in changed["results"] for s in r["series"] if s["name"] == name):
            for point in line["points"]:
                if place in (None, point["x"]):
                    point["samples"] = [factor * sample for sample in point["samples"]]
        return changed

    def test_every_experiment(self):
        files = sorted((ROOT / "bench" / "results").glob("*.json"))
        documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        recorded = set()
        for experiment, entry in bars.table().items():
            if not (entry.get("bars") or entry.get("paper")):
                continue
            with self.subTest(experiment):
                if self.changes(experiment, self.recorded(experiment, documents)):
                    recorded.add(experiment)
                    continue
                self.assertTrue(self.changes(experiment, self.made(experiment)), "no falsified file changes it")
        self.assertLessEqual({"ffq/fig7-syscalls", "ffq/fig7-syscalls-latency", "syscall/getppid"}, recorded)
        self.assertGreater(len(recorded), 30)


class TableTest(unittest.TestCase):
    def test_every_figure_and_table_of_the_papers_has_an_experiment(self):
        papers = bars.read()["papers"]
        self.assertEqual(sorted(papers), ["ffq", "osci", "return-barriers", "xmalloc"])
        for paper, figures in papers.items():
            for figure, where in figures.items():
                if isinstance(where, str) and where.startswith("none: "):  # with the reason
                    self.assertGreater(len(where), 20)
                    continue
                for experiment in [where] if isinstance(where, str) else where:
                    with self.subTest(f"{paper}, {figure}"):
                        self.assertTrue(
                            bars.table().get(experiment, {}).get("paper"), f"{experiment} has no sentence"
                        )

    def test_mistakes_are_named(self):
        for entry, told in (
            ({"bars": [{"ours": "a", "x": 1}]}, "either at_least or at_most"),
            ({"bars": [{"ours": "a", "x": 1, "at_most": 1, "at_lest": 2}]}, "no key ['at_lest']"),
            ({"bars": [{"x": 1, "at_most": 1}]}, "needs ours and x"),
            (
                {"paper": [{"says": "so", "series": "a", "x": 1, "over": "b"}]},
                "needs series, x, over, within",
            ),
            (
                {"paper": [{"says": "so", "series": "a", "x": 1, "over": "best", "within": [1]}]},
                "needs among",
            ),
            (
                {"paper": [{"says": "so", "order": ["a"], "x": 1, "only_if": [{"series": "a"}]}]},
                "a condition needs",
            ),
            ({"clam": "so"}, "no key ['clam']"),
        ):
            with self.subTest(told), self.assertRaisesRegex(bars.BadTable, told.replace("[", r"\[")):
                bars.check("queue/x", entry)

    def test_placeholders(self):
        table = {
            "a/b": {
                "bars": [
                    {"ours": "n, {workers} workers", "x": "{units}", "against": "{half}→{half}", "at_most": 1}
                ]
            }
        }
        with mock.patch.object(bars, "table", lambda: table):
            found = bars.bars_of("a/b", run_of(units=6))
        self.assertEqual(
            [(bar.ours, bar.x, bar.against) for bar in found],
            [("n, 2 workers", 6, "12→12"), ("n, 4 workers", 6, "12→12"), ("n, 6 workers", 6, "12→12")],
        )


class BadFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "bad.json"

    def read(self, content: object) -> tuple[dict[str, load.Result], list[str]]:
        self.path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        results, problems = load.read_file(self.path)
        for problem in problems:
            self.assertIn("bad.json: ", problem)
        # The sample has only what its tests need; what bars.toml names beside it is no mistake of the file.
        return {r.experiment: r for r in results}, [one for one in problems if " lacks " not in one]

    def one(self, change, *told) -> dict[str, load.Result]:
        """The results of a changed document, whose only problem must contain each of the texts `told`."""
        changed = document()
        change(changed)
        results, problems = self.read(changed)
        self.assertEqual(len(problems), 1, problems)
        for text in told:
            self.assertIn(text, problems[0])
        return results

    def test_a_right_file_has_no_problem(self):
        results, problems = self.read(document())
        self.assertEqual((len(results), problems), (3, []))

    def test_a_file_that_is_cut_off(self):
        results, problems = self.read(json.dumps(document())[:-40])
        self.assertEqual(results, {})
        self.assertIn("is not JSON, or was cut off", problems[0])
        results = self.one(
            lambda d: d.update(complete=False), "the run was cut off; 3 charts of it are shown"
        )
        self.assertEqual(len(results), 3)

    def test_a_file_that_is_no_text(self):
        self.path.write_bytes(json.dumps(document()).encode() + b"\xff")
        results, problems = load.read_file(self.path)
        self.assertEqual((results, len(problems)), ([], 1))
        self.assertIn("bad.json: is not text in UTF-8", problems[0])

    def test_another_schema(self):
        self.assertEqual(self.one(lambda d: d.update(schema=1), "has schema 1, and this report reads 2"), {})
        self.assertEqual(self.read("[]")[0], {})

    def test_points_left_out_for_lack_of_time_are_named(self):
        self.one(
            lambda d: d.update(left_out=[{"experiment": "fork/peers", "reason": "no time"}]),
            "fork/peers was not run: no time",
        )

    def test_a_series_that_is_missing(self):
        changed = document()
        del changed["results"][0]["series"][0]
        self.path.write_text(json.dumps(changed), encoding="utf-8")
        _, problems = load.read_file(self.path)
        self.assertTrue(
            any("queue/fan-out lacks 'spmc_queue'" in one and "it was not measured" in one for one in problems)
        )

    def test_a_peer_that_is_not_installed_is_named_with_its_package(self):
        changed = document()
        changed["results"][0]["experiment"] = "queue/slow-consumer-p99"
        self.path.write_text(json.dumps(changed), encoding="utf-8")
        _, problems = load.read_file(self.path)
        self.assertTrue(
            any("vyukov" in one and "apt-get install libxenium-dev" in one for one in problems), problems
        )

    def test_samples_that_are_no_numbers(self):
        def sample(d):
            return d["results"][0]["series"][1]["points"][0]

        where = "queue/fan-out, ring A, 2"
        for samples, told in (
            ([math.nan], "not a number that can be measured"),
            ([1.0, "2"], "is not of type 'number'"),
            ([None], "number"),
            ([10**400], "not a number that can be measured"),
        ):
            results = self.one(
                lambda d: sample(d).update(samples=samples), where, told, "the point is left out"
            )
            self.assertEqual([point.x for point in results["queue/fan-out"].named("ring A").points], [8])
            self.assertEqual(len(results), 3, "the rest is shown")
        results = self.one(lambda d: sample(d).update(samples=[]), where, "has no samples")
        self.assertIsNone(verdict.value_at(results["queue/fan-out"], "ring A", 2))

    def test_zero_is_no_ratio(self):
        changed = document()
        changed["results"][1]["series"][0]["points"][0]["samples"] = [0, 0, 0]
        results, _ = self.read(changed)
        texts = [j.text for j in verdict.judge_all(results["combine/uncontended"])]
        self.assertTrue(any("a median is not above zero, there is no ratio" in text for text in texts), texts)

    def test_the_smallest_part_is_left_out(self):
        results = self.one(
            lambda d: d["results"][0]["series"][1].update(role="rival"), "ring A", "'rival'", "the series"
        )
        self.assertIsNone(results["queue/fan-out"].named("ring A"))
        results = self.one(
            lambda d: d["results"][1]["y"].pop("better"), "combine/uncontended", "'better'", "the experiment"
        )
        self.assertEqual(sorted(results), ["ffq/fig3-queue-size", "queue/fan-out"])
        results = self.one(lambda d: d.pop("units"), "'units' is a required property", "the file is left out")
        self.assertEqual(results, {})

    def test_duplicates(self):
        def points(d):
            return d["results"][0]["series"][1]["points"]

        self.one(lambda d: points(d).append(points(d)[0]), "ring A, 2", "is there twice")
        self.one(
            lambda d: d["results"][0]["series"].append(series("ring A", "peer", {2: [1.0]})),
            "ring A",
            "twice",
        )
        self.one(lambda d: d["results"].append(d["results"][1]), "combine/uncontended", "is there twice")

    def test_results_of_another_machine_stand_beside_each_other(self):
        other = document()
        other["machine"]["cpu"] = "Another"
        self.path.write_text(json.dumps(other), encoding="utf-8")
        here = self.path.with_name("here.json")
        here.write_text(json.dumps(document()), encoding="utf-8")
        results, _ = load.read_all([self.path.parent])
        self.assertEqual(len(load.merge(results)), 6)

    def test_the_smoke_profile_is_not_judged(self):
        changed = document()
        changed["profile"] = "smoke"
        results, _ = self.read(changed)
        for result in results.values():
            self.assertEqual({j.state for j in verdict.judge_all(result)} | {verdict.OPEN}, {verdict.OPEN})
        self.assertEqual(claims.verdict(results["ffq/fig3-queue-size"]).word, claims.NOT_JUDGED)


class ProgramTest(unittest.TestCase):
    def run_judge(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-B", str(ROOT / "report" / "judge.py"), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    def test_says_the_same_as_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "one.json"
            path.write_text(json.dumps(document()), encoding="utf-8")
            done = self.run_judge(str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            results, _ = load.read_file(path)
            for result in results:
                for judgement in verdict.judge_all(result):
                    self.assertIn(judgement.text, done.stdout)
                self.assertIn(claims.verdict(result).why, done.stdout)
            self.assertIn("queue/fan-out lacks", done.stderr)
            self.assertEqual(
                self.run_judge("--check", str(path)).returncode, 1, "a series of the table is not there"
            )
        committed = ROOT / "bench" / "results"
        done = self.run_judge(str(committed))
        self.assertEqual(done.returncode, 0, done.stderr)
        results, _ = load.read_all([committed])
        merged = load.merge(results)
        self.assertGreater(len(merged), 60)
        for result in merged:
            for judgement in verdict.judge_all(result):
                self.assertIn(judgement.text, done.stdout, result.experiment)
            self.assertIn(claims.verdict(result).why, done.stdout, result.experiment)
        absent = self.run_judge("/nonexistent.json")
        self.assertEqual(absent.returncode, 2)
        self.assertIn("there is no such file", absent.stderr)


if __name__ == "__main__":
    unittest.main()
