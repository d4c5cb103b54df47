# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of report/: pages are made from result files with known answers and then read again.

  /usr/bin/python3 -m unittest discover -s tests/report
"""

from __future__ import annotations

import copy
import json
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sample import around, document, series  # noqa: E402 - found only from here on

REPORT = Path(__file__).resolve().parents[2] / "report"


class Page(HTMLParser):
    """Collects what the tests ask about: ids, references, loads and the text that readers see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            elif key in ("href", "xlink:href") and value.startswith("#"):
                self.references.append(value[1:])
            elif key in ("src", "srcset", "data", "poster", "action") or (key == "href" and tag != "a"):
                self.loads.append(f"{tag} {key}={value}")
            self.references += re.findall(r"url\(#([^)]*)\)", value or "")
        if tag in ("script", "iframe", "object", "embed", "img"):
            self.loads.append(tag)

    def handle_data(self, data):
        if self.lasttag != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    pages: dict[str, tuple[str, str]] = {}  # What was made before, since a run takes two seconds.

    def make(self, *documents, names=None, status=0, fresh=False):
        """Run the report on the documents (or on raw text) and give its page, or its errors."""
        key = json.dumps([documents, names])
        if not fresh and key in self.pages:
            self.html, self.markdown = self.pages[key]
            return Page(self.html)
        inputs = self.folder / "in"
        inputs.mkdir(exist_ok=True)
        for i, one in enumerate(documents):
            name = names[i] if names else f"result{i}.json"
            (inputs / name).write_text(one if isinstance(one, str) else json.dumps(one), encoding="utf-8")
        run = subprocess.run(
            [sys.executable, str(REPORT / "make.py"), str(inputs), "--out", str(self.folder / "out")],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, status, run.stderr)
        if status:
            return run.stderr
        self.html = (self.folder / "out" / "index.html").read_text(encoding="utf-8")
        self.markdown = (self.folder / "out" / "report.md").read_text(encoding="utf-8")
        self.pages[key] = (self.html, self.markdown)
        return Page(self.html)


class PageTest(ReportTest):
    def test_page_loads_nothing(self):
        page = self.make(document())
        self.assertEqual(page.loads, [])
        self.assertNotRegex(
            self.html, r"(?i)@import|url\(\s*['\"]?(?!#)|<script|<link|javascript:|\bon\w+=\""
        )
        self.assertNotRegex(self.html, r"https?://")

    def test_ids_are_unique_and_every_reference_is_met(self):
        page = self.make(document())
        self.assertGreater(len(page.ids), 50)
        self.assertEqual(sorted(page.ids), sorted(set(page.ids)))
        self.assertEqual(set(page.references) - set(page.ids), set())

    def test_every_median_is_shown_in_both_versions(self):
        page = self.make(document())
        for result in document()["results"]:
            for one in result["series"]:
                for point in one["points"]:
                    median = f"{statistics.median(point['samples']):.3g}"
                    self.assertRegex(page.text, rf"\b{re.escape(median)}", f"{one['name']} at {point['x']}")
                    self.assertRegex(self.markdown, rf"{re.escape(one['name'])}.*\b{re.escape(median)}")

    def test_charts_exist_for_wide_and_narrow_windows_and_take_the_scheme_of_the_page(self):
        self.make(document())
        self.assertEqual(self.html.count('class="chart wide"><svg'), 3)
        self.assertEqual(self.html.count('class="chart narrow"><svg'), 3)
        charts = "".join(re.findall(r'class="chart.*?</svg>', self.html, re.S))
        self.assertEqual(
            re.findall(r"#[0-9a-f]{6}\b", charts), [], "a colour that does not follow the scheme"
        )
        self.assertIn("prefers-color-scheme: dark", self.html)

    def test_failed_series_are_shown_with_their_reason(self):
        page = self.make(document())
        self.assertIn("failed: item 7 came twice", page.text)
        self.assertIn("failed: does not end", page.text)
        self.assertIn("98.6", page.text)
        self.assertIn("broken failed: item 7 came twice", self.markdown)

    def test_text_of_the_file_is_not_markup(self):
        page = self.make(document())
        self.assertIn("<b>n</b> consumers & one producer", page.text)

    def test_first_page_has_nanoseconds_and_the_best_peer(self):
        page = self.make(document())
        head = page.text[: page.text.index("Threats to validity")]
        # 1000 / 48.3 and 1000 / 30.7 for ours; 1000 / 32.2 and 1000 / 20.1 for the best peers.
        for shown in (
            "20.7",
            "32.6",
            "31.1 ring A",
            "49.8 ring B",
            "best peer: slow",
            "71.9",
            "g++ 12.2",
            "1.2.3",
        ):
            self.assertIn(shown, head)
        self.assertNotIn("10.1", head.split("Queue size")[0], "a failed peer must not be the best")

    def test_threats_follow_from_the_data(self):
        text = self.make(document()).text
        for threat in (
            "says “KVM”",
            "Only 2 cores",
            "governor is unknown",
            "queue/fan-out at 8",
            "do not say whether threads were pinned",
            "fewer than 10 samples",
            "short profile",
        ):
            self.assertIn(threat, text)
        told = document()
        told["pinned"] = False
        self.assertIn("Threads were not pinned", self.make(told).text)
        told["pinned"] = True
        self.assertNotIn("whether threads were pinned", self.make(told).text)
        calm = document()
        calm["machine"] = {
            "cpu": "Example",
            "cores": 64,
            "kernel": "6.1",
            "governor": "performance",
            "virtual": False,
        }
        calm["profile"] = "full"
        text = self.make(calm).text
        for threat in (
            "virtual machine",
            "Only 2 cores",
            "governor is unknown",
            "More threads than",
            "short profile",
        ):
            self.assertNotIn(threat, text)

    def test_same_input_gives_the_same_page(self):
        self.make(document(), fresh=True)
        first = self.html
        self.make(document(), fresh=True)
        self.assertEqual(first, self.html)

    def test_newest_result_of_an_experiment_is_kept_and_the_others_are_counted(self):
        old = document()
        old["date"] = "2026-11-20T07:00:00Z"
        old["results"] = old["results"][:1]
        old["results"][0]["series"][0] = series("spmc pop", "ours", {2: around(7.77), 8: around(6.66)})
        page = self.make(old, document(), names=["z-old.json", "a-new.json"])
        self.assertNotIn("7.77", page.text)
        self.assertIn("1 older result ", page.text)
        other = copy.deepcopy(old)
        other["machine"]["cpu"] = "Another"
        page = self.make(other, document(), names=["z-old.json", "a-new.json"])
        self.assertIn("7.77", page.text, "results of another machine are not replaced")


class VerdictTest(ReportTest):
    def judged(self, page, text):
        """The badge in front of a verdict."""
        found = re.search(r"(reached|missed|not judged) " + re.escape(text), page.text)
        self.assertIsNotNone(found, f"no verdict “{text}” in the page")
        return found[1]

    def test_higher_is_better(self):
        page = self.make(document())
        self.assertEqual(
            self.judged(page, "spmc pop at 2 consumers: 1.50 × the best peer (ring A)"), "reached"
        )
        self.assertEqual(
            self.judged(page, "spmc pop at 8 consumers: 1.53 × the best peer (ring B)"), "missed"
        )
        self.assertIn("needed at least 1.7 ×, 10 % short", page.text)
        self.assertEqual(self.judged(page, "spmc pop at 2 consumers: 0.667 × the cost of ring A"), "reached")

    def test_lower_is_better(self):
        page = self.make(document())
        self.assertEqual(self.judged(page, "try_pop: 1.40 × the cost of pop"), "reached")
        self.assertEqual(self.judged(page, "try_pop: 2.40 × the best peer (slow)"), "reached")
        changed = document()
        changed["results"][1]["bars"][0]["at_most"] = 1.25
        changed["results"][1]["bars"][1]["at_least"] = 3.0
        page = self.make(changed)
        self.assertEqual(self.judged(page, "try_pop: 1.40 × the cost of pop"), "missed")
        self.assertIn("needed at most 1.25 ×, 12 % too much", page.text)
        self.assertEqual(self.judged(page, "try_pop: 2.40 × the best peer (slow)"), "missed")

    def test_what_was_not_checked_decides_nothing(self):
        page = self.make(document())
        self.assertEqual(
            self.judged(page, "spmc pop at 2 consumers: no checked result of broken"), "not judged"
        )
        self.assertEqual(self.judged(page, "pop: no checked baseline"), "not judged")
        self.assertIn("4 of 7 bars reached", page.text)
        wrong = document()
        wrong["results"][0]["series"][0]["points"][0]["checked"] = False
        page = self.make(wrong)
        self.assertEqual(self.judged(page, "spmc pop at 2 consumers: does not count"), "missed")
        self.assertIn("failed: results failed the check at 2", page.text)

    def test_word_for_a_paper_figure(self):
        page = self.make(document())
        self.assertIn("not reproduced the machine has no shared L2", page.text)


class BadFileTest(ReportTest):
    def refused(self, bad, *told):
        error = self.make(bad, names=["bad.json"], status=2)
        self.assertEqual(len(error.strip().splitlines()), 1, error)
        for text in ("bad.json", *told):
            self.assertIn(text, error)
        self.assertFalse((self.folder / "out").exists())

    def changed(self, change):
        bad = document()
        change(bad)
        return bad

    def test_not_json(self):
        self.refused('{"schema": 1,', "not JSON")

    def test_wrong_schema(self):
        self.refused(self.changed(lambda d: d.update(schema=2)), "'schema'", "2")

    def test_missing_keys_are_named(self):
        result = "results[1]"
        for path, owner in (
            ("schema", lambda d: d),
            ("results", lambda d: d),
            (f"{result}.experiment", lambda d: d["results"][1]),
            (f"{result}.x.name", lambda d: d["results"][1]["x"]),
            (f"{result}.y.better", lambda d: d["results"][1]["y"]),
            (f"{result}.series[0].role", lambda d: d["results"][1]["series"][0]),
            (f"{result}.series[0].points[0].samples", lambda d: d["results"][1]["series"][0]["points"][0]),
            (f"{result}.bars[2].against", lambda d: d["results"][1]["bars"][2]),
            (f"{result}.bars[0].at_least", lambda d: d["results"][1]["bars"][0]),
        ):
            with self.subTest(path):
                key = {"at_least": "at_most"}.get(path.split(".")[-1], path.split(".")[-1])
                self.refused(self.changed(lambda d: owner(d).pop(key)), f"'{path}'", "missing")

    def test_wrong_values_are_named(self):
        def point(d):
            return d["results"][0]["series"][1]["points"][0]

        place = "results[0].series[1].points[0]"
        self.refused(self.changed(lambda d: point(d).update(samples=[])), f"{place}.samples", "empty")
        self.refused(
            self.changed(lambda d: point(d).update(samples=[1.0, "2"])), f"{place}.samples", "numbers"
        )
        self.refused(
            self.changed(lambda d: point(d).update(samples=[float("nan")])), f"{place}.samples", "finite"
        )
        self.refused(self.changed(lambda d: point(d).update(checked="yes")), f"{place}.checked", "bool")
        self.refused(
            self.changed(lambda d: d["results"][0]["series"][1].update(role="rival")), "role", "rival"
        )
        self.refused(
            self.changed(lambda d: d["results"][0]["series"][1].update(name="ring B")), "results[0].series"
        )

    def test_no_results_and_no_file(self):
        self.refused([], "top level")
        error = self.make(self.changed(lambda d: d.update(results=[])), names=["bad.json"], status=2)
        self.assertIn("muster-bench run", error)
        run = subprocess.run(
            [sys.executable, str(REPORT / "make.py"), str(self.folder / "nowhere.json")],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 2)
        self.assertIn("nowhere.json", run.stderr)

    def test_missing_package_gives_the_line_that_installs_it(self):
        run = subprocess.run(
            [sys.executable, "-I", "-S", str(REPORT / "make.py")], capture_output=True, text=True, check=False
        )
        self.assertEqual(run.returncode, 2)
        self.assertIn("apt-get install python3-jinja2 python3-matplotlib python3-numpy", run.stderr)


if __name__ == "__main__":
    unittest.main()
