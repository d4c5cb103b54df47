#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/embed_examples.py, on a small tree made for each test."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

import embed_examples  # noqa: E402  (found through the path above)

EXAMPLE = """\
#include <cstdio>
// [whole]
int main() {
  // [greet]
  if (true)
    std::puts("hello");

  std::puts("again");
  // [/greet]
}
// [/whole]
"""

GREET = ["if (true)", '  std::puts("hello");', "", 'std::puts("again");']
WHOLE = ["int main() {", "  if (true)", '    std::puts("hello");', "", '  std::puts("again");', "}"]


def block(code, file="examples/a.cpp", region="greet", language="cpp"):
    return "\n".join([f"<!-- embed {file} [{region}] -->", f"```{language}", *code, "```"])


class EmbedExamples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("examples/a.cpp", EXAMPLE)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def run_tool(self, action):
        """(exit status, all that was printed)"""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = embed_examples.main([action, "--root", str(self.root)])
        return status, printed.getvalue()

    def assert_finding(self, page, *expected):
        """--check and --write both fail on the page, with all the expected texts; --write leaves the page alone."""
        self.write("README.md", page)
        for action in ("--check", "--write"):
            status, printed = self.run_tool(action)
            self.assertEqual(status, 1, printed)
            for text in expected:
                self.assertIn(text, printed)
            self.assertEqual(self.read("README.md"), page)

    def test_equal_copies_pass(self):
        page = f"# Title\n\n{block(GREET)}\n\ntext\n\n{block(WHOLE, region='whole')}\n"
        self.write("README.md", page)
        self.write("docs/guide/queue.md", block(GREET) + "\n")
        status, printed = self.run_tool("--check")
        self.assertEqual((status, printed), (0, "3 code blocks in 2 pages are equal to their examples\n"))

    def test_regions_of_python_are_delimited_by_its_comments(self):
        self.write("examples/a.py", "import x\n# [call]\nx.f()\n# [/call]\n")
        self.write("docs/guide/page.md", block(["x.f()"], "examples/a.py", "call", "python") + "\n")
        self.assertEqual(self.run_tool("--check")[0], 0)

    def test_a_difference_fails_shows_itself_and_is_repaired(self):
        for code in ([], GREET[:-1], GREET + ["more"], [" " + GREET[0], *GREET[1:]]):
            with self.subTest(code=code):
                self.write("docs/guide/queue.md", f"before\n{block(code)}\nafter")
                before = self.read("docs/guide/queue.md")
                status, printed = self.run_tool("--check")
                self.assertEqual(status, 1)
                self.assertIn("docs/guide/queue.md: differs from the examples", printed)
                self.assertIn("@@", printed)
                self.assertEqual(self.read("docs/guide/queue.md"), before)  # --check writes nothing
                self.assertEqual(self.run_tool("--write")[0], 0)
                self.assertEqual(self.read("docs/guide/queue.md"), f"before\n{block(GREET)}\nafter")
                self.assertEqual(self.run_tool("--check")[0], 0)

    def test_a_change_of_the_example_is_noticed(self):
        self.write("README.md", block(GREET))
        self.assertEqual(self.run_tool("--check")[0], 0)
        self.write("examples/a.cpp", EXAMPLE.replace("again", "once more"))
        self.assertEqual(self.run_tool("--check")[0], 1)

    def test_mistakes_in_pages(self):
        self.assert_finding(block(GREET, file="examples/b.cpp"), "README.md:1: there is no file examples/b.cpp")
        self.assert_finding(block(GREET, region="other"), "README.md:1: examples/a.cpp has no region [other]")
        self.assert_finding("\n<!-- embed examples/a.cpp [greet] -->\ntext\n", "README.md:2:", "must open a code block")
        self.assert_finding("<!-- embed examples/a.cpp [greet] -->", "must open a code block")
        self.assert_finding("<!-- embed examples/a.cpp greet -->\n", "write an embed marker as")
        self.assert_finding(block(GREET)[:-3], "README.md:1: the code block is not closed")
        self.assert_finding("```cpp\nint x;\n```\n", "README.md:1: a C++ block without an embed marker")

    def test_mistakes_in_examples(self):
        page = block(GREET)
        for example, expected in (
                ("// [greet]\nint x;\n", "the region [greet] is not closed"),
                ("// [greet]\nint x;\n// [/greet]\n// [greet]\nint y;\n// [/greet]\n",
                 "a.cpp:4: the region [greet] is opened a second time"),
                ("// [/greet]\n", "a.cpp:1: [/greet] closes a region that is not open"),
                ("// [greet]\n\n// [/greet]\n", "the region [greet] is empty")):
            with self.subTest(example=example):
                self.write("examples/a.cpp", example)
                self.assert_finding(page, expected)

    def test_other_languages_need_no_marker_and_their_content_is_left_alone(self):
        self.write("README.md", "```sh\n./dev demo\n```\n\n````\n```cpp\nshown, not code\n```\n````\n")
        self.assertEqual(self.run_tool("--check")[0], 0)

    def test_a_tree_without_pages_is_a_mistake(self):
        status, printed = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn("neither README.md nor docs/guide", printed)


if __name__ == "__main__":
    unittest.main()
