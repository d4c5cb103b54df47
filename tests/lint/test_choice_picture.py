#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/choice_picture.py: every name in the picture is a name of the library."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import choice_picture  # noqa: E402  (found through the path above)


class ChoicePicture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def declare(self, text: str):
        header = self.root / "include/muster/all.hpp"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text, encoding="utf-8")

    def test_names_that_are_not_declared_are_reported(self):
        self.declare("template <class T> class spsc_queue;\nclass spmc_queue_base;\nint xmalloc(int);\n"
                     "// lanes, class lanes, lanes()\n")
        missing = choice_picture.unknown_names(self.root)
        self.assertNotIn("spsc_queue", missing)
        self.assertNotIn("xmalloc", missing)
        self.assertIn("spmc_queue", missing)
        self.assertIn("lanes", missing)
        with self.assertRaisesRegex(SystemExit, "does not declare .*lanes"):
            choice_picture.draw(self.root)

    def test_all_names_of_this_library_are_declared(self):
        self.assertEqual(choice_picture.unknown_names(ROOT), [])

    def test_each_case_and_name_is_drawn(self):
        picture = choice_picture.draw(ROOT)
        for problem in choice_picture.PROBLEMS:
            for case, names in problem.cases:
                self.assertIn(f">{case}<", picture)
                self.assertIn(f">{names}<", picture)


if __name__ == "__main__":
    unittest.main()
