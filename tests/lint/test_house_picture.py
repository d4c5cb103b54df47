#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/house_picture.py, on a small tree made for each test."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

import house_picture  # noqa: E402  (found through the path above)


class HousePicture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("include/muster/base/sync.hpp", "#ifdef MUSTER_MODEL\n#include <muster_model/sync.hpp>\n#endif\n")
        self.write("include/muster/queue/ring.hpp", "#include <muster/base/sync.hpp>\n#include <atomic>\n")
        self.write("include/muster/queue.hpp", "// and so can queue/late.hpp\n#include <muster/queue/ring.hpp>\n")
        self.write("seams/muster_model/sync.hpp", "")
        self.write("tests/ring_test.cpp", '#include <muster/queue.hpp>\n#include "support/own.hpp"\n')
        self.write("tests/support/own.hpp", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_tool(self, action):
        with contextlib.redirect_stdout(io.StringIO()):
            return house_picture.main([action, "--root", str(self.root)])

    def test_edges(self):
        self.assertEqual(house_picture.edges(self.root),
                         {("queue", "base"), ("base", "seams"), ("tests", house_picture.LIBRARY)})

    def test_a_file_of_the_same_name_in_the_own_room_comes_first(self):
        self.write("bench/support/own.hpp", "")
        self.assertNotIn(("tests", "bench"), house_picture.edges(self.root))

    def test_public_headers_are_those_that_the_umbrella_names(self):
        self.write("include/muster/queue/detail/cell.hpp", "")
        self.assertEqual(house_picture.public_headers(self.root, "queue"), ["late", "ring"])

    def test_a_box_that_is_too_low_for_its_headers_is_an_error(self):
        lines = "".join(f"#include <muster/queue/part{number}.hpp>\n" for number in range(40))
        self.write("include/muster/queue.hpp", lines)
        with self.assertRaisesRegex(SystemExit, "the box of queue is [0-9]+ too low"):
            self.run_tool("--write")

    def test_a_new_edge_makes_the_picture_stale(self):
        self.assertEqual(self.run_tool("--check"), 1)
        self.assertEqual(self.run_tool("--write"), 0)
        self.assertEqual(self.run_tool("--check"), 0)
        self.write("include/muster/queue/detail/cell.hpp", "#include <muster/base/sync.hpp>\n")
        self.assertEqual(self.run_tool("--check"), 0)
        self.write("tests/other_test.cpp", '#include "muster_model/sync.hpp"\n')
        self.assertEqual(self.run_tool("--check"), 1)

    def test_an_edge_without_a_route_is_drawn(self):
        self.write("include/muster/fork/pool.hpp", "#include <muster/queue/ring.hpp>\n")
        self.assertIn("fork includes queue", house_picture.draw(self.root))


if __name__ == "__main__":
    unittest.main()
