# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The README's picture shows the committed results."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "report"))

import parts_picture  # noqa: E402  (the path first)


class PictureTest(unittest.TestCase):
    def test_it_is_that_of_the_committed_results(self):
        done = subprocess.run(
            [sys.executable, str(ROOT / "report" / "parts_picture.py"), "--check"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_another_picture_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / "parts.svg"
            other.write_text(parts_picture.draw().replace("Queues", "Rows"), encoding="utf-8")
            kept, parts_picture.PICTURE = parts_picture.PICTURE, other
            self.addCleanup(setattr, parts_picture, "PICTURE", kept)
            given, sys.argv = sys.argv, ["parts_picture.py", "--check"]
            self.addCleanup(setattr, sys, "argv", given)
            self.assertEqual(parts_picture.main(), 1)

    def test_each_part_has_a_card_with_its_sentence(self):
        drawn = parts_picture.draw()
        for name in parts_picture.NAMES.values():
            self.assertIn(f">{name}</text>", drawn)
        self.assertEqual(drawn.count('class="card"'), len(parts_picture.NAMES))
        self.assertGreaterEqual(drawn.count('class="other"'), len(parts_picture.NAMES))


if __name__ == "__main__":
    unittest.main()
