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

    pages: dict[str, tuple[str, str]] = {}  # Pages that earlier tests made, because a run takes a second.

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
        error = self.run_make(inputs, status)
        if status:
            return error
        self.html = quoted((self.folder / "out" / "index.html").read_text(encoding="utf-8"))
        self.markdown = (self.folder / "out" / "report.md").read_text(encoding="utf-8")
        self.pages[key] = (self.html, self.markdown)
        return Page(self.html)

    def run_make(self, inputs: Path, status: int = 0) -> str:
        run = subprocess.run(
            [sys.executable, str(REPORT / "make.py"), str(inputs), "--out", str(self.folder / "out")],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stderr

    def make_of(self, inputs: Path) -> Page:
        self.run_make(inputs)
        self.html = quoted((self.folder / "out" / "index.html").read_text(encoding="utf-8"))
        return Page(self.html)


def quoted(page: str) -> str:
    """With the quotes around attributes that the page leaves out."""
    return re.sub(r"<[a-z][^<>]*>", lambda tag: re.sub(r"""=([^\s"'=<>`]+)(?=[\s>])""", r'="\1"', tag[0]), page)


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
        self.assertGreater(len(page.ids), 10)
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

    def test_charts_have_words_and_take_the_colours_of_the_page(self):
        self.make(document())
        charts = re.findall(r'<div class="chart"><svg.*?</svg>', self.html, re.S)
        self.assertEqual(len(charts), 4, "three experiments, and the picture of the part queue")
        for chart in charts:
            self.assertRegex(chart, r'role="img"><title>[^<]+</title><desc>[^<]+</desc>')
            self.assertEqual(
                re.findall(r"#[0-9a-f]{6}\b", chart), [], "a colour that does not follow the scheme"
            )
        self.assertIn("prefers-color-scheme: dark", self.html)

    def test_charts_draw_each_point_once(self):
        self.make(document())
        chart = re.search(r'<article id="ffq-fig3-queue-size">.*?<svg.*?</svg>', self.html, re.S)[0]
        self.assertEqual(chart.count("<use "), 10)
        self.assertEqual(len(re.findall(r'<path d="M[^"]*"', chart)[0].split("L")), 10)

    def test_nothing_is_wider_than_a_phone_but_what_scrolls(self):
        """Charts scale, tables scroll by themselves; nothing else has a width of its own."""
        self.make(document())
        self.assertNotRegex(self.html, r"<(div|p|section|figure|img)[^>]* (width|style)=")
        for table in re.finditer(r"<table class=\"(fast|numbers)\"", self.html):
            self.assertIn('<div class="scroll', self.html[table.start() - 60 : table.start()])
        self.assertIn("max-width: 620px", self.html)

    def test_failed_series_are_shown_with_their_reason(self):
        page = self.make(document())
        self.assertIn("failed: item 7 came twice", page.text)
        self.assertIn("failed: does not end", page.text)
        self.assertIn("98.6", page.text)
        self.assertIn("broken failed: item 7 came twice", self.markdown)

    def test_text_of_the_file_is_not_markup(self):
        page = self.make(document())
        self.assertIn("<b>n</b> consumers & one producer", page.text)

    def test_each_part_has_a_picture_and_a_sentence_or_the_command_that_makes_them(self):
        page = self.make(document())
        head = page.text[: page.text.index("Bars that are missed")]
        self.assertIn(
            "queue One producer feeds eight consumers: spmc_queue moves 30.7 Mops/s, 1.53 times the best peer "
            "(ring B, 20.1).",
            head,
        )
        for part, command in (
            ("combine", "osci/fig3-techniques"),
            ("fork", "fork/overhead"),
            ("gpu", "xmalloc/fig2-throughput"),
            ("syscall", "syscall/getppid"),
            ("simulated", "osci/fig3-simulated"),
        ):
            self.assertIn(f"{part} No results yet: ./dev bench {command} makes some.", head)

    def test_the_committed_results_give_every_part_its_sentence_and_what_it_misses(self):
        page = self.make_of(REPORT.parent / "bench" / "results")
        head = page.text[: page.text.index("Bars that are missed")]
        self.assertNotIn("No results yet", head)
        self.assertNotRegex(head, r"\bNone\b|–\s*times")
        listed = page.text[page.text.index("Bars that are missed") : page.text.index("could not be judged")]
        missed, *of_parts = [int(n) for n in re.findall(r"bars? reached (\d+) missed", head)]
        self.assertEqual(missed, sum(of_parts))
        self.assertEqual(missed, listed.count("needed at ") + listed.count("does not count"))
        self.assertEqual(set(page.references) - set(page.ids), set())

    def test_missed_bars_stand_before_the_charts(self):
        page = self.make(document())
        first = page.text[: page.text.index("All charts")]
        self.assertIn("spmc_queue at 8 consumers: 1.53 × the best peer (ring B)", first)
        self.assertIn("could not be judged", first)

    def test_a_bar_missed_within_the_noise_says_so_on_the_first_page(self):
        def first_page(samples):
            one = document()
            next(s for s in one["results"][0]["series"] if s["name"] == "spmc_queue")["points"][1]["samples"] = samples
            page = self.make(one)
            listed = page.text.index("Bars that are missed")
            missed = page.text.index("spmc_queue at 8 consumers", listed)
            return page.text[:listed], page.text[missed : page.text.index("% short", missed) + 30]

        tile, bar = first_page([30.7, 30.7, 30.7, 30.7, 30.7])
        self.assertNotIn("within the noise", tile + bar)
        tile, bar = first_page([20.0, 30.7, 30.7, 60.0, 90.0])
        self.assertIn("1 of them within the noise", tile)
        self.assertIn("within the noise", bar)

    def test_first_page_has_nanoseconds_and_the_best_peer(self):
        page = self.make(document())
        head = page.text[page.text.index("Nanoseconds per operation") : page.text.index("All charts")]
        # 1000 / 48.3 and 1000 / 30.7 for ours; 1000 / 32.2 and 1000 / 20.1 for the best peers.
        for told in ("20.7", "32.6", "31.1 ring A", "49.8 ring B", "best peer: std::mutex", "30.0"):
            self.assertIn(told, head)
        self.assertNotIn("10.1", head, "a failed peer must not be the best")

    def test_machine_and_build_are_shown(self):
        page = self.make(document())
        for told in ("Example KVM processor", "g++ 12.2", "1.2.3", "abc1234"):
            self.assertIn(told, page.text)

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

    def test_what_is_simulated_says_so(self):
        told = document()
        told["results"][0]["part"] = "simulated"
        self.assertIn("simulated, not measured", self.make(told).text)
        self.assertNotIn("simulated, not measured", self.make(document()).text)

    def test_same_input_gives_the_same_page(self):
        self.make(document(), fresh=True)
        first = self.html
        self.make(document(), fresh=True)
        self.assertEqual(first, self.html)

    def test_one_result_of_an_experiment_is_kept_and_the_others_are_counted(self):
        old = document()
        old["date"] = "2026-11-20T07:00:00Z"
        old["results"] = old["results"][:1]
        old["results"][0]["series"][0] = series("spmc_queue", "ours", {2: around(7.77), 8: around(6.66)})
        page = self.make(old, document(), names=["z-old.json", "a-new.json"])
        self.assertNotIn("7.77", page.text)
        self.assertIn("1 older or shorter result ", page.text)
        old["profile"] = "full"
        page = self.make(old, document(), names=["z-old.json", "a-new.json"])
        self.assertIn("7.77", page.text, "the full profile says more than a newer quick one")
        other = copy.deepcopy(old)
        other["machine"]["cpu"] = "Another"
        page = self.make(other, document(), names=["z-old.json", "a-new.json"])
        self.assertIn("7.77", page.text, "results of another machine are not replaced")

    def test_a_sentence_compares_with_a_third_series(self):
        told = document()
        made = {"sandbox, two processors": 490.0, "seccomp notification": 9800.0, "native, two processors": 245.0}
        told["results"].append(
            {
                "experiment": "syscall/getppid",
                "part": "syscall",
                "x": {"name": "fibers", "scale": "log2"},
                "y": {"name": "time of a call", "unit": "ns", "better": "lower"},
                "series": [
                    series(name, "ours" if value == 490 else "baseline", {1: [value] * 3})
                    for name, value in made.items()
                ],
            }
        )
        text = self.make(told).text
        self.assertIn(
            "made outside in 490 ns, 20.0 times as fast as by seccomp notification (9,800); without a sandbox the "
            "call takes 245.",
            text,
        )

    def test_a_page_of_all_committed_results_has_at_most_two_megabytes(self):
        page = self.make_of(REPORT.parent / "bench" / "results")
        self.assertLessEqual((self.folder / "out" / "index.html").stat().st_size, 2_000_000)
        self.assertIn("reproduced", page.text)

    def test_the_error_of_a_file_is_named_and_the_rest_shown(self):
        page = self.make(document(), '{"schema": 2,', names=["good.json", "bad.json"])
        self.assertIn("bad.json: is not JSON, or was cut off", page.text)
        self.assertIn("One producer, many consumers", page.text)


class VerdictTest(ReportTest):
    def judged(self, page, text):
        """The badge in front of a verdict."""
        found = re.search(r"(reached|missed|not judged) " + re.escape(text), page.text)
        self.assertIsNotNone(found, f"no verdict “{text}” in the page")
        return found[1]

    def test_bars(self):
        page = self.make(document())
        self.assertEqual(
            self.judged(page, "spmc_queue at 2 consumers: 1.50 × the best peer (ring A)"), "missed"
        )
        self.assertEqual(
            self.judged(page, "spmc_queue at 8 consumers: 1.53 × the best peer (ring B)"), "missed"
        )
        self.assertIn("needed at least 2 ×, 24 % short", page.text)
        self.assertEqual(self.judged(page, "osci: 1.40 × the cost of std::mutex"), "missed")
        self.assertIn("needed at most 1 ×, 40 % too much", page.text)
        self.assertEqual(self.judged(page, "osci: 0.417 × the cost of spin lock"), "reached")
        self.assertEqual(self.judged(page, "spmc_queue pop_n(8) at"[:19]), "not judged")

    def test_what_was_not_checked_decides_nothing(self):
        wrong = document()
        wrong["results"][0]["series"][0]["points"][0]["checked"] = False
        page = self.make(wrong)
        self.assertEqual(self.judged(page, "spmc_queue at 2 consumers: does not count"), "missed")
        self.assertIn("failed: results failed the check at 2", page.text)

    def test_verdict_on_a_paper_figure(self):
        page = self.make(document())
        self.assertIn("partly reproduced Here, too: throughput rises from 4 entries to 64 k", page.text)
        self.assertIn("Not here: ", page.text)


class BadInputTest(ReportTest):
    def test_nothing_to_show(self):
        for bad in ('{"schema": 2,', document() | {"results": []}, document() | {"schema": 7}):
            error = self.make(bad, names=["bad.json"], status=2)
            self.assertIn("muster-bench run", error)
            self.assertFalse((self.folder / "out").exists())

    def test_no_file(self):
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
        self.assertIn("apt-get install python3-jinja2 python3-jsonschema python3-numpy", run.stderr)


if __name__ == "__main__":
    unittest.main()
