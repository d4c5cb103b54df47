#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/lint.py. A small good library passes; each edit that breaks one rule gives exactly that finding."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINT = ROOT / "tools" / "lint.py"
sys.path.insert(0, str(LINT.parent))
sys.dont_write_bytecode = True

import lint  # noqa: E402  (found through the path above)

SPDX = "// SPDX-FileCopyright" + "Text: the muster authors\n// SPDX-License-" + "Identifier: Apache-2.0\n"

BELL = SPDX + """
#pragma once

#include <muster/base/arch.hpp>

#include <linux/futex.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

inline void ring_bell(bell& b) {
  // (1) release: pairs with mailbox.hpp (4).
  b.word.store(1, std::memory_order_release);
  asm volatile("" ::: "memory");
}
"""

MAILBOX = SPDX + """//
// mailbox.hpp: a place for one letter.
//
// Cost       send and receive: O(1), one read-modify-write
//            each.
#pragma once

#include <muster/base/bell.hpp>
#include <muster/queue/status.hpp>
#include <muster/version.hpp>

#include <atomic>

// A comment may speak of std::atomic, volatile and #if.
inline const char* text = "volatile std::atomic // (9) acquire: pairs with (8)";
inline const char* raw = R"x(thread_local " asm)x";
inline constexpr int million = 1'000'000;

/* (7) acquire: a label is a line comment, so this is none. */

inline bool send(mailbox& m) {
  // (1) acquire: pairs with (3). The argument continues
  // for a line.
  if (m.state.load(std::memory_order_acquire) != 0) return false;
  // Case (1): a numbered case is no label.
  m.count.store(2, std::memory_order_relaxed);
  m.state.store(1, std::memory_order_release);  // (2) release: pairs with (3), and that is all
  return true;
}

inline bool receive(mailbox& m) {
  // (3) acq_rel, or acquire when it fails: pairs with (1), (2)
  // and, as an acquire, with (5).
  int full = 1;
  return m.state.compare_exchange_strong(full, 0, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
}

inline void listen(mailbox& m, std::memory_order order) {
  // (4) acquire: pairs with base/bell.hpp (1).
  m.bell.word.load(std::memory_order_acquire);
  // (5) heavy_fence: pairs with (3), as (1) does: a reason with (2).
  sync::heavy_fence();
  // (6) seq_cst: alone, because it only counts.
  m.count.fetch_add(1, std::memory_order_seq_cst);
  m.count.load(order);
  m.bell.word.load(std::memory_order_acquire);  // (4)
  // (2), (5): two in one comment.
  m.state.store(0, std::memory_order_release), sync::heavy_fence(1);
}
"""

LIBRARY = {"base/bell.hpp": BELL, "base/arch.hpp": SPDX, "queue/mailbox.hpp": MAILBOX, "queue/status.hpp": SPDX}


class Lint(unittest.TestCase):
    def findings(self, files: dict[str, str]) -> list[lint.Finding]:
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return lint.lint(Path(root))

    def edited(self, name: str, old: str, new: str) -> list[lint.Finding]:
        library = dict(LIBRARY)
        self.assertEqual(library[name].count(old), 1, f"{old!r} must occur once in {name}")
        library[name] = library[name].replace(old, new)
        return self.findings({"include/muster/" + key: text for key, text in library.items()})

    def breaks(self, rule: str, says: str, old: str, new: str, name: str = "queue/mailbox.hpp", count: int = 1) -> None:
        """The edit must give `count` findings, all of `rule`, one of which says `says`."""
        findings = self.edited(name, old, new)
        shown = "\n".join(map(str, findings))
        self.assertEqual(len(findings), count, shown)
        self.assertEqual({finding.rule for finding in findings}, {rule}, shown)
        self.assertIn(says, shown)

    def test_the_good_library_passes(self) -> None:
        self.assertEqual(self.findings({"include/muster/" + key: text for key, text in LIBRARY.items()}), [])

    def test_the_good_library_passes_with_a_wider_reach(self) -> None:
        self.assertEqual(self.edited("queue/mailbox.hpp", "  int full = 1;", "  int full = 1;\n  int a;"), [])

    def test_seam(self) -> None:
        for raw in ("std::atomic<int> a", "std :: atomic_flag a", "volatile int a", "thread_local int a", 'asm("")',
                    "std::atomic_thread_fence(o)", "__atomic_load_n(p, o)", "__sync_synchronize()"):
            with self.subTest(raw):
                self.breaks("seam", "outside base/", "  return true;", f"  {raw};\n  return true;")

    def test_seam_in_other_rooms(self) -> None:
        text = SPDX + "asm();\n"
        allowed = ("base/x.hpp", "fiber/detail/context.hpp", "fork/detail/barrier/frame.hpp", "gpu/simt.cuh",
                   "gpu/detail/simt_device.cuh")
        self.assertEqual(self.findings({"include/muster/" + name: text for name in allowed}), [])
        for name in ("queue.hpp", "fiber/stack.hpp", "fiber/detail/carrier.hpp", "fork/loops.hpp",
                     "fork/detail/call.hpp", "gpu/heap.hpp", "gpu/detail/coalesced_block.hpp"):
            with self.subTest(name):
                self.assertEqual([f.rule for f in self.findings({"include/muster/" + name: text})], ["seam"])

    def test_waits_do_not_only_yield(self) -> None:
        for raw in ("sync::yield()", "::sched_yield()", "std::this_thread::yield()"):
            with self.subTest(raw):
                text = SPDX + f"while (!done()) {raw};\n"
                self.assertEqual([f.rule for f in self.findings({"include/muster/queue/x.hpp": text})], ["wait"])
                self.assertEqual(self.findings({"include/muster/base/x.hpp": text}), [])

    def test_order_needs_a_label(self) -> None:
        self.breaks("order", "release needs a label", "  m.count.store(2, std::memory_order_relaxed);",
                    "  m.count.store(2, std::memory_order::release);")
        self.breaks("order", "acquire needs a label", "  m.count.store(2, std::memory_order_relaxed);",
                    "  int a = m.count.load(std::memory_order_acquire);")

    def test_order_label_out_of_reach(self) -> None:
        self.breaks("order", "needs a label", "  int full = 1;", "  int full = 1;\n  int a;\n  int b;")

    def test_order_of_the_label_is_the_order_of_the_operation(self) -> None:
        self.breaks("order", "does not say seq_cst", "store(1, std::memory_order_release)",
                    "store(1, std::memory_order_seq_cst)")

    def test_order_must_be_written(self) -> None:
        self.breaks("order", "without an order", "m.count.load(order)", "m.count.load()")

    def test_order_of_a_fence(self) -> None:
        self.breaks("order", "light_fence", "sync::heavy_fence()", "sync::light_fence()")

    def test_order_label_without_operation(self) -> None:
        self.breaks("order", "stands above no ordering operation", "m.count.fetch_add(1, std::memory_order_seq_cst)",
                    "m.count.fetch_add(1, std::memory_order_relaxed)")

    def test_order_partner_must_name_back(self) -> None:
        self.breaks("order", "(2) pairs with (3), which does not name (2) back", "(1), (2)\n", "(1)\n")

    def test_order_partner_must_exist(self) -> None:
        self.breaks("order", "(9), which does not exist", "pairs with (3), and", "pairs with (3, 9), and")

    def test_order_repeat(self) -> None:
        self.breaks("order", "(9) is not explained", "(2), (5): two", "(2), (5), (9): two")
        self.breaks("order", "does not say acquire", "m.bell.word.load(std::memory_order_acquire);  // (4)",
                    "m.bell.word.load(std::memory_order_acquire);  // (2)")

    def test_order_label_twice(self) -> None:
        self.breaks("order", "used twice", "(6) seq_cst", "(5) seq_cst", count=2)

    def test_order_labels_have_no_hole(self) -> None:
        self.breaks("order", "(6) is missing", "(6) seq_cst", "(7) seq_cst")

    def test_order_of_combining_baselines(self) -> None:
        text = SPDX + "m.state.store(1, std::memory_order_release);\n"
        for name, expected in (("bench/baselines/combining/x.hpp", ["order"]), ("bench/baselines/x.hpp", [])):
            self.assertEqual([f.rule for f in self.findings({name: text})], expected)

    def test_order_without_partner(self) -> None:
        self.breaks("order", "names no partner", "alone, because", "lonely, because")

    def test_order_partner_in_another_header(self) -> None:
        self.breaks("order", "does not name (4) back", "mailbox.hpp (4)", "mailbox.hpp (3)", "base/bell.hpp", count=2)
        self.breaks("order", "no labelled header", "mailbox.hpp (4)", "mailbag.hpp (4)", "base/bell.hpp", count=2)

    def test_cycle(self) -> None:
        def header(target: str) -> str:
            return SPDX + f"#pragma once\n#include <muster/{target}>\n"

        chain = {"include/muster/base/a.hpp": header("base/b.hpp"), "include/muster/base/b.hpp": header("base/c.hpp")}
        self.assertEqual(self.findings(chain | {"include/muster/base/c.hpp": header("version.hpp")}), [])
        for target in ("base/a.hpp", "base/b.hpp", "base/c.hpp"):
            with self.subTest(target):
                found = self.findings(chain | {"include/muster/base/c.hpp": header(target)})
                self.assertEqual([(f.file, f.line, f.rule) for f in found],
                                 [("include/muster/base/c.hpp", 4, "include")])
                self.assertIn(f"{target} -> ", found[0].text)

    def test_stairs(self) -> None:
        def headers(*pairs: tuple[str, str]) -> list[lint.Finding]:
            return self.findings({f"include/muster/{name}": SPDX + f"#pragma once\n#include <muster/{target}>\n"
                                  for name, target in pairs})

        up = (("fork/detail/task.hpp", "base/sync.hpp"), ("fork/detail/barrier/join.hpp", "fork/detail/task.hpp"),
              ("fork/pool.hpp", "fork/detail/barrier/join.hpp"), ("fork.hpp", "fork/pool.hpp"))
        self.assertEqual(headers(*up), [])
        down = ("fork/detail/call.hpp", "fork/pool.hpp")
        self.assertEqual([(f.file, f.line, f.rule) for f in headers(*up, down)],
                         [("include/muster/fork/detail/call.hpp", 4, "include")])
        self.assertIn("not in STAIRS", str(headers(*up, ("fork/detail/other.hpp", "base/sync.hpp"))))

    def test_include(self) -> None:
        for target in ('"status.hpp"', "<muster/combine/osci.hpp>", "<linux/futex.h>", "<unistd.h>", "<fmt/core.h>"):
            with self.subTest(target):
                self.breaks("include", target.strip('<">'), "#include <atomic>", f"#include {target}")
        self.breaks("include", "base/ may not include", "<muster/base/arch.hpp>", "<muster/queue/status.hpp>",
                    "base/bell.hpp")

    def test_sheet_has_the_cost(self) -> None:
        self.breaks("sheet", "declares `send`", "// Cost       send", "// Price      send")
        self.breaks("sheet", "no row `Cost`", "// Cost       send", "// Cost: send")
        self.breaks("sheet", "no row `Cost`", "// Cost       send and receive", "//            Cost       send")

    def test_sheet_of_headers_that_declare_something(self) -> None:
        def rules(name: str, *lines: str) -> list[str]:
            text = SPDX + "\n".join(("", *lines, ""))
            return [f.rule for f in self.findings({f"include/muster/{name}": text})]

        declarations = ("class box {", "struct box : public chest {", "class [[nodiscard]] box final {",
                        "struct box {};", "void empty(box& b);", "inline void empty(box& b) {",
                        "detail::result_of<F> empty(F&& f) {", "MUSTER_HOT auto empty(F&& f, G&& g) {",
                        "const box* find(std::span<const box> all) {")
        for line in declarations:
            with self.subTest(line):
                self.assertEqual(rules("queue/box.hpp", "template <class F>", line), ["sheet"])
                self.assertEqual(rules("queue/box.hpp", "namespace detail {", line, "}  // namespace detail"), [])
                self.assertEqual(rules("queue/box.hpp", "namespace a::b::detail {", "void f() {", "}",
                                       "}  // namespace a::b::detail", line), ["sheet"])
                for name in ("queue/detail/box.hpp", "base/box.hpp", "queue.hpp", "queue/options.hpp"):
                    self.assertEqual(rules(name, line), [])
        for line in ("class box;", "enum class colour { red };", "using box = chest;", "template <class T> class box;",
                     "inline constexpr int boxes = 3;", "friend class box;", "box::box(int size) {", "  void empty();",
                     "// class box {"):
            with self.subTest(line):
                self.assertEqual(rules("queue/box.hpp", line), [])
        for room in ("combine", "fiber", "gpu", "syscall"):
            self.assertEqual(rules(f"{room}/box.hpp", "class box {"), ["sheet"])
        self.assertEqual(rules("gpu/box.cuh", "class box {"), ["sheet"])
        self.assertEqual(rules("fork/pool.hpp", "class pool {"), ["sheet"])

    def test_headers_without_a_cost_are_there_and_have_none(self) -> None:
        for name in lint.COSTLESS:
            with self.subTest(name):
                self.assertNotRegex((ROOT / "include/muster" / name).read_text(encoding="utf-8"), r"(?m)^// Cost ")

    def test_source_conditional_compilation(self) -> None:
        for line in ("#ifdef X", "# if X", "#ifndef X", "#elif X"):
            with self.subTest(line):
                self.breaks("source", "conditional", "#include <atomic>", line)

    def test_source_spdx(self) -> None:
        for name in ("a.cpp", "b.py", "c.sh", "CMakeLists.txt", "dev", "d.cmake"):
            with self.subTest(name):
                self.assertEqual([f.rule for f in self.findings({name: "x\n"})], ["source", "source"])

    def test_source_widths(self) -> None:
        self.assertEqual(self.findings({"include/muster/base/x.hpp": SPDX + "int a;\n" * 2000}), [])
        self.assertIn("121 columns", str(self.findings({"x.cpp": SPDX + "a" * 121})))
        self.assertEqual(self.findings({"x.cpp": SPDX + "é" * 120}), [])

    def test_source_white_space(self) -> None:
        self.assertIn("white space", str(self.findings({"x.cpp": SPDX + "int a; \n"})))
        self.assertIn("a tab", str(self.findings({"x.cpp": SPDX + "\tint a;\n"})))

    def prose(self, text: str, allowed: int = 0, name: str = "docs/page.md") -> tuple[list[lint.Finding], list[str]]:
        """Findings and notes about a file with `text`, of a room that may have `allowed` phrases."""
        with tempfile.TemporaryDirectory() as root:
            table = f"# a comment\n{lint.room_of(name)} {allowed}\n"
            for path, content in {name: text, "tools/prose.txt": table}.items():
                Path(root, path).parent.mkdir(parents=True, exist_ok=True)
                Path(root, path).write_text(content, encoding="utf-8")
            notes: list[str] = []
            return lint.lint(Path(root), notes), notes

    def test_prose_counts_stilted_phrases(self) -> None:
        for text in ("It wakes no@body.", "Wh@oever comes first", "those wh@o wait", "of those th@at wait", "for ev@er",
                     "in va@in", "he goes o@n", "it is to@ld", "Wha@t it holds.", "Yes. Wha@t it has", "* Wh@o waits.",
                     "| a | Wheth@er b |"):  # the @ keeps them out of this file's own count
            text = text.replace("@", "")
            with self.subTest(text):
                findings, notes = self.prose(text + "\n")
                self.assertEqual([(f.file, f.line, f.rule) for f in findings], [("tools/prose.txt", 2, "prose")], text)
                self.assertIn("docs has 1 stilted phrases, 0 allowed", findings[0].text)
                self.assertIn("docs/page.md:1", findings[0].text)
                self.assertEqual(notes, [])

    def test_prose_leaves_plain_text_alone(self) -> None:
        for text in ("It returns what it holds, and says who and whether.", "What happens when a consumer stops?",
                     "It goes on to the next.", "```\nNo" + "body is a user\n```"):
            with self.subTest(text):
                self.assertEqual(self.prose(text + "\n"), ([], []))

    def test_prose_numbers_only_fall(self) -> None:
        line = "no" + "body, some" + "body\n"
        self.assertEqual(self.prose(line, allowed=2), ([], []))
        self.assertEqual(len(self.prose(line, allowed=1)[0]), 1)
        findings, notes = self.prose(line, allowed=3)
        self.assertEqual(findings, [])
        self.assertEqual(notes, ["tools/prose.txt:2: docs has 2 stilted phrases: lower its number from 3"])
        self.assertIn("docs has 0 stilted phrases: lower its number from 3", self.prose("", allowed=3)[1][0])

    def test_prose_counts_for_the_room(self) -> None:
        rooms = {"include/muster/queue/detail/x.hpp": "include/muster/queue",
                 "include/muster/fork.hpp": "include/muster/fork", "tests/unit/x.cpp": "tests", "x.md": "x.md"}
        for name, room in rooms.items():
            with self.subTest(name):
                findings, _ = self.prose(SPDX + "// Wheth" + "er it is.\n", name=name)
                self.assertEqual([finding.text.split(" has ")[0] for finding in findings], [room])

    def test_what_the_build_writes_is_skipped(self) -> None:
        self.assertEqual(self.findings({"build/x.cpp": "", "out/x.py": "", "notes.md": ""}), [])

    def test_exit_status_and_output(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            command = [sys.executable, str(LINT), root]
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
            Path(root, "x.cpp").write_text("int a;\n", encoding="utf-8")
            result = subprocess.run(command, capture_output=True, check=False, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn("x.cpp:1: source:", result.stdout)


if __name__ == "__main__":
    unittest.main()
