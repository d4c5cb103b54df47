#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests word-count from outside: what it prints and how it exits, on small trees whose words are counted here again.

Usage: test_program.py PATH-OF-WORD-COUNT [unittest options]
"""

import collections
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
METHODS = ("serial", "mutex", "spmc")


def run(*args, program=None, **more):
    """Runs word-count. A program that hangs fails the test instead of the whole run."""
    return subprocess.run([program or PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120,
                          check=False, **more)


def counts_of(output):
    """The printed table as a Counter."""
    return collections.Counter({word: int(count) for count, word in re.findall(r"^ *(\d+)  (\w+)$", output, re.M)})


def totals_of(output):
    """(files, bytes, words, distinct words) as printed."""
    found = re.search(r"^(\d+) files, (\d+) bytes, (\d+) words, (\d+) distinct words$", output, re.M)
    return tuple(map(int, found.groups()))


class Tree(unittest.TestCase):
    """A directory to fill, and an independent count of what is put into it."""

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="word-count-")
        self.addCleanup(shutil.rmtree, self.root)
        self.expected = collections.Counter()
        self.files = self.bytes = 0

    def write(self, name, content):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        self.files += 1
        self.bytes += len(content)
        words = re.findall(rb"[A-Za-z0-9_]+", content)
        self.expected.update(word.lower().decode("ascii") for word in words)

    def check(self, result, status=0):
        """The result is complete and right: every word of the tree with its count."""
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(counts_of(result.stdout), self.expected)
        expected_totals = (self.files, self.bytes, sum(self.expected.values()), len(self.expected))
        self.assertEqual(totals_of(result.stdout), expected_totals)

    def check_all_methods(self, *options, status=0):
        for method in METHODS:
            with self.subTest(method=method, options=options):
                self.check(run(self.root, "--queue", method, "--top", 10**9, *options), status)
        with self.subTest(method="compare", options=options):
            result = run(self.root, "--queue", "compare", "--repeat", 2, "--top", 10**9, *options)
            self.check(result, status)
            for method in METHODS:
                self.assertRegex(result.stdout, rf"(?m)^{method} .*\d x$")

    def fill(self):
        """Many small files in nested directories, two large ones, and files without words."""
        chance = random.Random(7)
        vocabulary = [f"Word_{i}" for i in range(3000)]
        for i in range(120):
            words = chance.choices(vocabulary, k=chance.randrange(300))
            self.write(f"d{i % 7}/e{i % 3}/f{i}", chance.choice([" ", "\n", "; "]).join(words).encode())
        for i in range(2):
            self.write(f"large{i}", "\n".join(chance.choices(vocabulary, k=60000)).encode())
        self.write("empty", b"")
        self.write("no words", b" .\n" * 100)
        self.write("name\nwith a newline", b"newline")


class Results(Tree):
    def test_every_method_counts_every_word(self):
        self.fill()
        self.check_all_methods()

    def test_any_number_of_counters(self):
        self.fill()
        for counters in (1, 3, 40, 100):
            for method in ("mutex", "spmc"):
                with self.subTest(method=method, counters=counters):
                    self.check(run(self.root, "--queue", method, "--counters", counters, "--top", 10**9))

    def test_words_at_the_border_of_a_chunk(self):
        # Seen from a chunk of 16 bytes, the words begin and end at every distance from its border; some are longer.
        self.write("slide", b" ".join(b"x" * n for n in range(1, 60)))
        self.write("exact", b"0123456789abcde 0123456789abcdef 0123456789abcdefg")
        self.write("one word", b"y" * 1000)
        for chunk in (1, 2, 15, 16, 17, 64):
            self.check_all_methods("--chunk", chunk)

    def test_binary_files(self):
        chance = random.Random(11)
        self.write("random", chance.randbytes(300_000))
        self.write("zeros", bytes(100_000))
        self.write("zeros in words", b"one\0two\0\0three")
        self.write("not ascii", "Größe naïve 数 _ ａ".encode() + b"\xff\xfe")
        self.check_all_methods()

    def test_empty_directory(self):
        self.check_all_methods()

    def test_top_prints_the_most_frequent_words_in_order(self):
        self.write("f", b"b b b a a c c d")
        result = run(self.root, "--top", 3)
        self.assertEqual(re.findall(r"^ *(\d+)  (\w+)$", result.stdout, re.M), [("3", "b"), ("2", "a"), ("2", "c")])

    def test_links_are_not_followed_and_special_files_not_opened(self):
        self.write("d/file", b"once")
        os.symlink("file", os.path.join(self.root, "d", "link to a file"))
        os.symlink("..", os.path.join(self.root, "d", "link to the parent: a loop"))
        os.symlink("missing", os.path.join(self.root, "d", "link to nothing"))
        os.mkfifo(os.path.join(self.root, "d", "fifo"))  # Opening it would wait forever for a writer.
        self.check_all_methods()
        self.assertIn("3 symbolic links; 1 FIFOs, sockets and devices", run(self.root).stdout)


class Failures(Tree):
    def test_missing_directory(self):
        result = run(os.path.join(self.root, "missing"))
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertRegex(result.stderr, r"missing: No such file or directory; give a directory\n$")

    def test_file_instead_of_a_directory(self):
        self.write("file", b"word")
        result = run(os.path.join(self.root, "file"))
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertRegex(result.stderr, r"file: is not a directory; give a directory\n$")

    def test_directory_that_is_a_link_to_itself(self):
        loop = os.path.join(self.root, "loop")
        os.symlink("loop", loop)
        result = run(loop)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("symbolic links", result.stderr)

    def test_bad_options(self):
        for options in (["--counters", "0"], ["--counters", "many"], ["--counters", "-1"], ["--queue", "stack"],
                        ["--repeat", "0"], ["--chunk", "0"], ["--top", "-1"], ["--top"], ["--no-such-option"],
                        ["another", "directory"]):
            with self.subTest(options=options):
                result = run(self.root, *options)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(options[0], result.stderr)  # The message names what is wrong.

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--queue", result.stdout)

    def make_too_deep(self, start="", levels=18):
        """A directory whose path is longer than the kernel takes: not even root can read it by its path, though it can
        read a file without permissions. It is made and removed step by step from inside."""
        name = "deep" * 60
        home = os.getcwd()
        os.chdir(os.path.join(self.root, start))
        try:
            for _ in range(levels):
                os.mkdir(name)
                os.chdir(name)
        finally:
            os.chdir(home)

    def test_what_cannot_be_read_is_named_and_the_rest_is_counted(self):
        self.fill()
        self.make_too_deep()
        self.check_all_methods(status=3)
        result = run(self.root)
        self.assertIn("1 files or directories could not be read", result.stderr)
        self.assertIn("deepdeep", result.stderr)
        self.assertIn("File name too long", result.stderr)

    def test_files_and_directories_without_permission(self):
        for i in range(8):
            path = os.path.join(self.root, f"secret{i}")
            os.mkdir(path) if i == 0 else open(path, "wb").close()
            os.chmod(path, 0)
        self.write("open", b"word")
        os.chmod(self.root, 0o755)
        program, unprivileged = PROGRAM, {}
        if os.geteuid() == 0:
            # Root reads everything, so the program runs as an unprivileged user, from where that user can start it.
            place = tempfile.mkdtemp(prefix="word-count-")
            self.addCleanup(shutil.rmtree, place)
            os.chmod(place, 0o755)
            program = shutil.copy(PROGRAM, place)
            unprivileged = {"user": 65534, "group": 65534, "extra_groups": []}
        result = run(self.root, "--queue", "spmc", program=program, **unprivileged)
        self.check(result, status=3)
        self.assertIn("8 files or directories could not be read", result.stderr)
        self.assertEqual(result.stderr.count("Permission denied"), 5)  # the first few
        self.assertIn("and more", result.stderr)

    def test_names_cannot_control_the_terminal(self):
        os.makedirs(os.path.join(self.root, "\x1b[31m\n"))
        self.make_too_deep(start="\x1b[31m\n")
        result = run(self.root)
        self.assertEqual(result.returncode, 3)
        self.assertIn("?[31m?/deepdeep", result.stderr)
        self.assertNotIn("\x1b", result.stderr)

    def test_a_result_that_cannot_be_written_is_a_failure(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full here")
        self.write("file", b"word")
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, self.root], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                    check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("could not be written", result.stderr)

    def test_out_of_memory_ends_with_a_message(self):
        if os.environ.get("WORD_COUNT_SANITIZED"):
            self.skipTest("sanitizers reserve more address space than the limit of this test")
        # A word is never cut, so its chunk doubles until it fits: 256 MiB here, and the limit is 300 for everything.
        with open(os.path.join(self.root, "word"), "wb") as file:
            for _ in range(160):
                file.write(b"w" * 1_000_000)
        limit = 300 << 20
        for method in METHODS:
            with self.subTest(method=method):
                result = run(self.root, "--queue", method, "--counters", 2,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn("out of memory", result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
