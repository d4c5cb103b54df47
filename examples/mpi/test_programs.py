#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The programs with ranks of MPI find what one thread finds, however many ranks there are.

    test_programs.py MPIEXEC HEAT_MPI UTS_MPI
"""

import os
import re
import subprocess
import sys
import unittest

MPIEXEC, HEAT, UTS = sys.argv[1:4]
# More ranks than processors, and in a container: of Open MPI, which others ignore.
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def run(ranks, program, *arguments):
    return subprocess.run([MPIEXEC, "-n", str(ranks), program, *map(str, arguments)], env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=250)


class Programs(unittest.TestCase):
    def test_the_plate_is_the_same_with_any_ranks(self):
        for ranks, rows in ((1, 37), (2, 37), (4, 37), (4, 4), (3, 5)):
            with self.subTest(ranks=ranks, rows=rows):
                done = run(ranks, HEAT, "--rows", rows, "--columns", 50, "--steps", 60, "--workers", 2)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, rf"{ranks} ranks of 2 workers .*the same plate\n")

    def test_the_tree_is_the_same_with_any_ranks(self):
        found = set()
        for ranks, batch in ((1, 2000), (2, 2000), (4, 50), (3, 1)):
            with self.subTest(ranks=ranks, batch=batch):
                done = run(ranks, UTS, "--roots", 300, "--seed", 7, "--batch", batch, "--workers", 2)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("the same counts", done.stdout)
                found.add(re.match(r"(.*?):", done.stdout).group(1))
        self.assertEqual(len(found), 1, found)

    def test_ranks_get_work_of_others(self):
        done = run(2, UTS, "--batch", 100, "--workers", 1)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(int(re.search(r"with (\d+) thefts", done.stdout).group(1)), 0, done.stdout)

    def test_wrong_arguments_are_named(self):
        for program, arguments, told in (
            (HEAT, ["--rows", 1], "number of ranks, 2"),
            (HEAT, ["--columns", 1], "columns"),
            (UTS, ["--roots", 0], "roots"),
            (UTS, ["--branch", 2], "--branch"),
        ):
            with self.subTest(arguments):
                done = run(2, program, *arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(told, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
