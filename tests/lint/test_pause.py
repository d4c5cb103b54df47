# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""tools/pause.py stops and continues the program that it runs, and returns its exit status."""

import subprocess
import sys
import unittest
from pathlib import Path

PAUSE = Path(__file__).resolve().parents[2] / "tools" / "pause.py"

# Counts its own steps for a given time; a pause is a step that takes longer than any scheduler's.
STEPS = """
import subprocess, sys, time
if len(sys.argv) > 1:
    sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""
WATCH = """
import sys, time
longest, last = 0, time.monotonic()
for step in range(100000):
    time.sleep(0.001)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
    if longest > 0.3:
        sys.exit(7)
sys.exit(0)
"""


def run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-B", str(PAUSE), "--seed", "1", *command], text=True, capture_output=True
    )


class Pause(unittest.TestCase):
    def test_stops_what_the_command_starts(self) -> None:
        done = run(sys.executable, "-c", STEPS, WATCH)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, r"[1-9]\d* pauses, .* seed 1")

    def test_passes_the_exit_status_on(self) -> None:
        self.assertEqual(run("true").returncode, 0)
        self.assertEqual(run("false").returncode, 1)

    def test_names_the_mistake_in_the_command(self) -> None:
        self.assertIn("name a command to run", run().stderr)
        absent = run("no-such-program")
        self.assertEqual(absent.returncode, 2)
        self.assertIn("cannot run 'no-such-program'", absent.stderr)


if __name__ == "__main__":
    unittest.main()
