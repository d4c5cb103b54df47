#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests order-book from outside: what it prints and how it exits. The orders are matched here again, by a slow engine
that has nothing in common with the one of the program.

Usage: test_program.py PATH-OF-ORDER-BOOK [unittest options]
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "orders.csv")
LINE = re.compile(r"^(sequential|std::mutex|muster::osci)"
                  r" +(\d+) +(\d+) +([\d.]+) ms +([\d.]+) M   ([0-9a-f]{16})$", re.M)


def run(*args):
    """Runs order-book. A program that hangs fails the test instead of the whole run."""
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)


def totals_of(output):
    """(orders, accounts, instruments, trades, shares, ticks, cancelled, left) as printed."""
    found = re.search(r"^(\d+) orders of (\d+) accounts for (\d+) instruments\n(\d+) trades of (\d+) shares for (\d+) "
                      r"ticks; (\d+) shares cancelled; (\d+) orders are left in the books$", output, re.M)
    return tuple(map(int, found.groups()))


def expected_totals(text):
    """The same, by looking at all waiting orders each time."""
    rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
    waiting = {}  # number: [instrument, side, price, quantity]
    accounts, instruments = set(), set()
    trades = shares = ticks = cancelled = 0
    for number, row in enumerate(rows, 1):
        if row[0] == "cancel":
            cancelled += waiting.pop(int(row[1]), (0, 0, 0, 0))[3]
            continue
        kind, side, instrument, account = row[:4]
        left = int(row[4])
        limit = int(row[5]) if kind == "limit" else None
        accounts.add(account)
        instruments.add(instrument)
        sign = 1 if side == "buy" else -1
        while left > 0:
            others = [(sign * o[2], n) for n, o in waiting.items() if o[0] == instrument and o[1] != side]
            if not others:
                break
            best = waiting[min(others)[1]]
            if limit is not None and sign * best[2] > sign * limit:
                break
            quantity = min(left, best[3])
            trades, shares, ticks = trades + 1, shares + quantity, ticks + quantity * best[2]
            left -= quantity
            best[3] -= quantity
            if best[3] == 0:
                del waiting[min(others)[1]]
        if left > 0 and limit is not None:
            waiting[number] = [instrument, side, limit, left]
    return (len(rows), len(accounts), len(instruments), trades, shares, ticks, cancelled, len(waiting))


class Files(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="order-book-")
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, content, name="orders.csv"):
        path = os.path.join(self.root, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def check(self, result, text, rows):
        """Totals and all rows are printed: [(method, threads, fibers)], with one digest."""
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(totals_of(result.stdout), expected_totals(text))
        lines = LINE.findall(result.stdout)
        self.assertEqual([(method, int(threads), int(fibers)) for method, threads, fibers, *_ in lines], rows)
        self.assertEqual(len({line[-1] for line in lines}), 1, result.stdout)


def table(threads, fibers):
    rows = [("sequential", 1, 1), ("std::mutex", threads, 1), ("muster::osci", threads, 1)]
    return rows + ([("muster::osci", threads, fibers)] if fibers != 1 else [])


class Results(Files):
    def test_the_file_of_the_repository(self):
        with open(EXAMPLE, encoding="utf-8") as file:
            text = file.read()
        result = run(EXAMPLE, "--threads", 2, "--fibers", 4)
        self.check(result, text, table(2, 4))
        self.assertEqual(totals_of(result.stdout), (13, 5, 2, 5, 185, 181155, 63, 1))

    def test_random_orders(self):
        for seed in range(5):
            chance, lines, limits = random.Random(seed), [], []
            for number in range(1, 801):
                what = chance.choice(["limit"] * 6 + ["market"] + ["cancel"] * 2 * bool(limits))
                if what == "cancel":
                    lines.append(f"cancel,{chance.choice(limits)}")
                    continue
                line = f"{what},{chance.choice(['buy', 'sell'])},i{chance.randrange(9)},a{chance.randrange(9)}"
                line += f",{chance.randint(1, 9)}"
                if what == "limit":
                    line += f",{chance.randint(1, 9)}"
                    limits.append(number)
                lines.append(line)
            text = "\n".join(lines)
            for threads, fibers in ((1, 1), (2, 3), (4, 16)):
                with self.subTest(seed=seed, threads=threads, fibers=fibers):
                    result = run(self.write(text), "--threads", threads, "--fibers", fibers, "--repeat", 1)
                    self.check(result, text, table(threads, fibers))

    def test_orders_derived_from_a_real_file(self):
        source = os.path.join(HERE, "exchange.hpp")
        written = os.path.join(self.root, "derived.csv")
        result = run("--derive", source, "--write", written, "--instruments", 7)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        with open(written, encoding="ascii") as file:
            text = file.read()
        options = ("--threads", 2, "--fibers", 3, "--repeat", 2)
        direct = run("--derive", source, "--instruments", 7, *options)
        self.check(direct, text, table(2, 3))
        self.assertEqual(totals_of(direct.stdout)[0], os.path.getsize(source) // 4)
        self.assertEqual(totals_of(direct.stdout)[2], 7)
        again = run(written, *options)
        self.assertEqual(LINE.findall(direct.stdout)[0][-1], LINE.findall(again.stdout)[0][-1])
        few = run("--derive", source, "--orders", 10, "--repeat", 1)
        self.assertEqual(totals_of(few.stdout)[0], 10)

    def test_line_ends_comments_and_names(self):
        text = "# comment\r\n\r\nlimit,buy,Größe é,\x01,1,1\r\nlimit,sell,Größe é,b c,1,1"
        result = run(self.write(text), "--repeat", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(totals_of(result.stdout), (2, 2, 1, 1, 1, 1, 0, 0))


class Failures(Files):
    def refused(self, message, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(message, result.stderr)

    def test_files_that_cannot_be_used(self):
        self.refused("missing.csv: cannot be opened: No such file", os.path.join(self.root, "missing.csv"))
        self.refused("cannot be read: Is a directory", self.root)
        self.refused("there is no order in it", self.write(""))
        self.refused("there is no order in it", self.write("# only this\n\n"))
        self.refused("too short for one order", "--derive", self.write("abc"))
        self.refused("cannot be opened", "--derive", EXAMPLE, "--write", os.path.join(self.root, "no", "such", "place"))
        if os.path.exists("/dev/full"):
            self.refused("cannot be written", "--derive", EXAMPLE, "--write", "/dev/full")

    def test_lines_that_are_no_orders(self):
        good = "limit,buy,i,a,1,1\n"
        for line, message in (("hold,buy,i,a,1", "the action"), ("limit,long,i,a,1,1", "the side"),
                              ("limit,buy,,a,1,1", "the instrument is empty"), ("limit", "the side is missing"),
                              ("limit,buy,i,a,1", "the price is missing"), ("market,buy,i,a,1,1", "too many fields"),
                              ("limit,buy,i,a,0,1", "the quantity"), ("limit,buy,i,a,1,1x", "the price"),
                              ("limit,buy,i,a,-1,1", "the quantity"), ("limit,buy,i,a,1,1000001", "the price"),
                              ("limit,buy,i,a,99999999999999999999,1", "the quantity"), ("cancel,", "is empty"),
                              ("cancel,2", "not an earlier limit order"), ("cancel,9", "not an earlier limit order"),
                              ("cancel,0", "the order to cancel"), ("cancel,1,1", "too many fields"),
                              ("\x00\xff", "the action")):
            with self.subTest(line=line):
                self.refused("orders.csv:3: the " if "many" not in message else ":3: the line has too many",
                             self.write("#\n" + good + line + "\n"))
                self.refused(message, self.write(good + line))

    def test_bad_options(self):
        for options in (["--threads", "0"], ["--threads", "two"], ["--threads", "-1"], ["--fibers", "0"],
                        ["--fibers", "100000"], ["--repeat", "0"], ["--repeat"], ["--instruments", "3"],
                        ["--write", "x"], ["--derive", "--orders", "0"], ["--derive", "--instruments", "0"],
                        ["--derive", "--orders", "99999999999"], ["--no-such-option"], ["another"]):
            with self.subTest(options=options):
                self.refused(options[-1 if len(options) == 1 else -2], EXAMPLE, *options)
        self.refused("FILE", "--threads", "2")

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("--derive", "--fibers", "cancel,NUMBER"):
            self.assertIn(word, result.stdout)

    def test_a_result_that_cannot_be_written_is_a_failure(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full here")
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, EXAMPLE], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                    check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("could not be written", result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
