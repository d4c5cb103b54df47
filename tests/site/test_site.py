#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/site: the checks of names and links must fail where something is wrong, on small trees made here."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))
sys.dont_write_bytecode = True

import headers  # noqa: E402  (found through the path above)
import links  # noqa: E402
import make  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

try:
    from clang import cindex  # noqa: F401
    HAS_CLANG = True
except ImportError:
    HAS_CLANG = False


class Tree(unittest.TestCase):
    """A folder for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


CONFIG = """#pragma once
#define MUSTER_ABI v0
#define MUSTER_HOT [[gnu::always_inline]] inline
"""
BASE = """#pragma once
#include <muster/base/config.hpp>
namespace muster::inline MUSTER_ABI {
namespace detail { struct hidden {}; template <class T> concept small = sizeof(T) < 9; }
template <class Queue>
class operations {
 public:
  /// Appends an item.
  void push(int item);
  void push(long item);
  /// As push, with a time limit.
  void push_for(int item, int time);
  void push_until(int item, int when);
 protected:
  void secret();
};
}
"""
HEADER = """// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// good.hpp: a queue of numbers.
//
// Order      FIFO.
// Use it     where numbers wait. See other_queue
//            for more.
#pragma once
#include <muster/base/config.hpp>
#include <muster/queue/detail/operations.hpp>
namespace muster::inline MUSTER_ABI {
/// A colour.
enum class colour {
  red,   // as blood
  blue,  ///< as the sky
};
/// Has a page.
template <class T = int>
class good : public operations<good<T>> {
 public:
  using value_type = T;
  /// Its nested class.
  class part;
  good() = default;
  good(const good&) = delete;
  ~good();
  /// Calls something, with `limit` items at most.
  template <detail::small U>
  [[nodiscard]] MUSTER_HOT detail::hidden call(U&& with, int limit = 3) {
    return {};
  }
  int field = 1;  ///< a number
  static constexpr int first = 1, second = 2;  // two numbers
 private:
  int own_ = 0;
  void hidden_();
};
template <class T>
class good<T>::part {
 public:
  /// The size.
  int size() const { return 1; }
};
}
"""


@unittest.skipUnless(HAS_CLANG, "python3-clang-19 is missing, which reads the headers")
class Names(Tree):
    def setUp(self):
        super().setUp()
        self.write("include/muster/base/config.hpp", CONFIG)
        self.write("include/muster/queue/detail/operations.hpp", BASE)

    def read(self, text: str = HEADER) -> list[headers.Entity]:
        self.write("include/muster/queue/good.hpp", text)
        include = self.root / "include"
        return headers.Reader(include).read(headers.public_headers(include))

    def faults(self, text: str) -> list[str]:
        return make.name_faults(self.root.resolve(), self.read(text))

    def member(self, name: str) -> headers.Entity:
        return next(each for each in self.read()[1].members if each.name == name)

    def test_what_has_comments_passes(self):
        self.assertEqual(self.faults(HEADER), [])

    def test_private_and_detail_names_are_not_public(self):
        names = [each.name for entity in self.read() for each in (entity, *entity.members)]
        for name in ("hidden", "own_", "hidden_", "secret", "operations", "small"):
            self.assertNotIn(name, names)
        self.assertEqual(headers.public_headers(self.root / "include"), ["queue/good.hpp"])

    def test_inherited_members_belong_to_the_class(self):
        self.assertEqual(self.member("push").base, "operations")
        self.assertEqual(self.member("push").qualified, "good::push")

    def test_a_name_without_a_comment_fails_with_file_line_and_name(self):
        without = {
            "  /// Calls something, with `limit` items at most.\n": "good::call",
            "  ///< a number": "good::field",
            "/// A colour.\n": "colour",
            "   // as blood": "colour::red",
            "  /// The size.\n": "good::part::size",
            "  /// Its nested class.\n": "good::part",
        }
        for comment, name in without.items():
            text = HEADER.replace(comment, "")
            self.assertNotEqual(text, HEADER)
            faults = self.faults(text)
            self.assertEqual(len(faults), 1, faults)
            self.assertRegex(faults[0], rf"^include/muster/queue/good.hpp:\d+: the public name {name} has no comment")
            line = int(faults[0].split(":")[1])
            self.assertIn(name.split("::")[-1], text.splitlines()[line - 1])

    def test_the_sheet_describes_the_class_of_the_header_only(self):
        self.assertEqual(self.faults(HEADER.replace("/// Has a page.\n", "")), [])
        other = HEADER.replace("/// A colour.", "class another {};\n/// A colour.")
        self.assertEqual(len(self.faults(other)), 1)

    def test_a_comment_covers_overloads_and_until_but_no_other_name(self):
        def inherited(text: str) -> list[str]:
            self.write("include/muster/queue/detail/operations.hpp", text)
            return self.faults(HEADER)

        self.assertEqual(inherited(BASE), [])
        self.assertEqual(len(inherited(BASE.replace("void push_until", "void push_later"))), 1)
        self.assertEqual(len(inherited(BASE.replace("  /// Appends an item.\n", ""))), 2)  # both overloads

    def test_a_macro_without_a_comment_fails(self):
        macro = "#define MUSTER_GOOD(x) (x)\n"
        self.assertEqual(len(self.faults(HEADER + macro)), 1)
        self.assertEqual(self.faults(f"{HEADER}/// Good.\n{macro}"), [])
        self.assertEqual(self.faults(f"{HEADER}{macro}#undef MUSTER_GOOD\n"), [])

    def test_signatures_have_no_macros_and_no_names_of_detail(self):
        self.assertEqual(self.member("call").signature,
                         "template <class U> [[nodiscard]] auto call(U&& with, int limit = 3)")
        self.assertEqual(self.member("first").signature, "static constexpr int first = 1")
        self.assertEqual(self.member("second").signature, "static constexpr int second = 2")
        for entity in self.read()[1].members:
            self.assertNotRegex(entity.signature, r"MUSTER_|detail::|gnu::")

    def test_a_header_that_does_not_compile_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "cannot read the headers"):
            self.read(HEADER + "int = 3;\n")

    def test_pages_show_sheet_comment_signature_and_contract(self):
        self.write("include/muster/queue/policy.hpp", "// SPDX\n// SPDX\n//\n// policy.hpp: a policy.\n#pragma once\n"
                   "namespace muster {\n/// See good.hpp and docs/contracts/queue.md.\nstruct policy {\n"
                   "  static constexpr int first = 1, second = 2;\n};\n}\n")
        self.write("docs/contracts/queue.md", "# Queues\n\n## good: numbers\n\n| operation | progress |\n|---|---|\n"
                                              "| `push` | lock-free |\n| `call` | blocks |\n\n## other\n\n"
                                              "| operation | progress |\n|---|---|\n| `call` | never |\n\n"
                                              "## All queues\n\n| operation | progress |\n|---|---|\n"
                                              "| `push_for` | waits |\n")
        writer = reference.Writer(self.read(), self.root, pages.slug)
        page = writer.pages()["reference/queue/good-hpp"]
        self.assertIn("Order\n: FIFO.", page)
        self.assertIn("Use it\n: where numbers wait. See `other_queue`\n  for more.", page)
        self.assertIn("Calls something, with `limit` items at most.", page)
        self.assertIn("auto call(U&& with, int limit = 3);", page)
        self.assertIn("[`call`](/contracts/queue.md#good-numbers): *progress* blocks", page)
        self.assertNotIn("never", page)
        self.assertIn("\nstatic constexpr int second = 2;\n```", writer.pages()["reference/queue/policy-hpp"])
        self.assertIn("See [`good.hpp`](/reference/queue/good-hpp.md) and [`docs/contracts/queue.md`]"
                      "(/contracts/queue.md).", writer.pages()["reference/queue/policy-hpp"])
        self.assertIn("[`push_for`](/contracts/queue.md#all-queues): *progress* waits", page)
        self.assertEqual(page.count("\n### push\n"), 1)  # overloads together


class Markdown(Tree):
    PAGE = "# Title\n\nText with [a\nlink](docs/guide/queue.md#how-it-works), and [code](src/a.cpp).\n"

    def setUp(self):
        super().setUp()
        self.write("README.md", self.PAGE)
        self.write("docs/guide/queue.md", "# Queue\n\n## How `it` works?\n\n[back](../../README.md#title)\n")
        self.write("src/a.cpp", "// SPDX\n//\n// a.cpp: does *it*. And more.\nint main() {}\n")

    def site(self) -> pages.Site:
        site = pages.Site(self.root)
        for name in site.files:
            if name.endswith(".md") and pages.home_of(name):
                site.add_markdown(name)
        site.add_sources()
        return site

    def faults(self, text: str) -> list[str]:
        self.write("README.md", text)
        return [str(fault) for fault in self.site().faults]

    def test_links_lead_to_pages_of_the_site(self):
        site = self.site()
        self.assertEqual(site.faults, [])
        self.assertIn("[a\nlink](/guide/queue.md#how-it-works)", site.pages["index"])
        self.assertIn("[code](/source/src/a.cpp.md)", site.pages["index"])
        self.assertIn("[back](/index.md#title)", site.pages["guide/queue"])
        self.assertIn("int main() {}", site.pages["source/src/a.cpp"])

    def test_a_dead_link_fails_with_page_line_and_link(self):
        self.assertEqual(self.faults(self.PAGE.replace("src/a.cpp", "src/b.cpp")),
                         ["README.md:4: dead link: there is no 'src/b.cpp' (src/b.cpp)"])
        self.assertEqual(len(self.faults(self.PAGE.replace("guide/queue", "guide/stack"))), 1)
        self.assertEqual(len(self.faults(self.PAGE + "[up](../outside.md)\n")), 1)

    def test_a_dead_anchor_fails(self):
        faults = self.faults(self.PAGE.replace("how-it-works", "how-it-fails"))
        self.assertEqual(len(faults), 1)
        self.assertTrue(faults[0].startswith("README.md:3: dead link: 'docs/guide/queue.md' has no heading"), faults)
        self.assertEqual(len(self.faults(self.PAGE + "[down](#below)\n")), 1)

    def test_code_is_no_link(self):
        text = self.PAGE + "\n```cpp\n[x](nowhere)\n```\n\n`[](nowhere)` and `a` [x](docs/guide/queue.md) `b`\n"
        self.assertEqual(self.faults(text), [])
        self.assertIn("`a` [x](/guide/queue.md) `b`", self.site().pages["index"])

    def test_a_link_to_a_folder_lists_it(self):
        self.assertEqual(self.faults(self.PAGE + "[all](src)\n"), [])
        self.assertIn("* [`a.cpp`](/source/src/a.cpp.md): does \\*it\\*.", self.site().pages["source/src/index"])

    def test_a_large_file_is_copied(self):
        self.write("src/large.json", "1" * (pages.LARGEST_PAGE + 1))
        self.assertEqual(self.faults(self.PAGE + "[data](src/large.json)\n"), [])
        self.assertIn("source/src/large.json", self.site().copies)

    def test_anchors_are_those_of_the_headings(self):
        self.assertEqual(pages.anchors_of("# A `b`, c\n\n## A b c\n\n## a b c\n\n```sh\n# no heading\n```\n"),
                         {"a-b-c", "a-b-c-1", "a-b-c-2"})


class Finished(Tree):
    """The check of rendered pages."""

    PAGE = ('<html><head><link rel="stylesheet" href="s.css"><script src="s.js"></script></head><body id="top1">'
            '<a href="sub/other.html#there">x</a><a href="#top1">y</a><img src="p.svg"></body></html>')

    def setUp(self):
        super().setUp()
        self.write("index.html", self.PAGE)
        self.write("sub/other.html", '<h1 id="there">a</h1><a href="../index.html">back</a>'
                                     '<a href="https://example.org/">out</a><a href="mailto:a@b">mail</a>')
        for name in ("s.css", "s.js", "p.svg"):
            self.write(name, "")

    def falsified(self, old: str, new: str) -> list[str]:
        self.assertIn(old, self.PAGE)
        self.write("index.html", self.PAGE.replace(old, new))
        return links.faults(self.root)

    def test_a_right_site_passes(self):
        self.assertEqual(links.faults(self.root), [])
        self.assertEqual(links.faults(Path(os.path.relpath(self.root))), [])

    def test_a_dead_link_fails_with_page_and_link(self):
        self.assertEqual(self.falsified("sub/other.html#there", "sub/gone.html"),
                         ["index.html:1: dead link: sub/gone.html"])

    def test_a_dead_anchor_fails(self):
        self.assertEqual(self.falsified("#there", "#gone"), [
            "index.html:1: dead link: sub/other.html#gone: that page has no such anchor"])
        self.assertEqual(len(self.falsified("#top1\"", "#gone\"")), 1)

    def test_a_missing_picture_style_or_script_fails(self):
        for name in ("s.css", "s.js", "p.svg"):
            self.assertEqual(len(self.falsified(name, f"gone/{name}")), 1, name)

    def test_a_load_from_the_network_fails(self):
        self.assertEqual(self.falsified("s.js", "https://example.org/s.js"),
                         ["index.html:1: loads from the network: https://example.org/s.js"])
        self.assertEqual(len(self.falsified("s.css", "//example.org/s.css")), 1)

    def test_a_style_that_loads_from_the_network_fails(self):
        self.write("s.css", "a { background: url(data:image/png;base64,AA) } b { background: url('p.svg') }")
        self.assertEqual(links.faults(self.root), [])
        for text in ("a { src: url(https://example.org/f.woff) }", "@import '//example.org/s.css';"):
            self.write("s.css", text)
            self.assertEqual(len(links.faults(self.root)), 1, text)

    def test_code_that_the_highlighter_does_not_understand_fails(self):
        self.write("index.html", self.PAGE.replace("<img", '<pre><span class="o err">#</span></pre><img'))
        self.assertEqual(links.faults(self.root),
                         ["index.html:1: this code is not of the language that its block names"])

    def test_a_link_out_of_the_site_fails(self):
        self.assertEqual(len(self.falsified("sub/other.html#there", "../")), 1)

    def test_an_empty_site_fails(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertEqual(len(links.faults(Path(empty))), 1)


class Sheets(unittest.TestCase):
    def test_rows_intro_and_the_rest(self):
        sheet = reference.sheet_of("""// SPDX
// SPDX
//
// a.hpp: first sentence.
//
// Order      FIFO,
//            always.
// Exceptions those of f.
// Trust, filters   as b.
// fork(2)    a child has none.
//
// Order must be kept. This is prose.
#pragma once""".splitlines())
        self.assertEqual(sheet.intro, "first sentence.")
        self.assertEqual(sheet.rows, [("Order", "FIFO,\nalways."), ("Exceptions", "those of f."),
                                      ("Trust, filters", "as b."), ("fork(2)", "a child has none.")])
        self.assertEqual(sheet.more, ["Order must be kept. This is prose."])


if __name__ == "__main__":
    unittest.main()
