#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests find-text from outside: what it prints and how it exits, compared with the grep and the sort of the system.

Usage: test_program.py PATH-OF-FIND-TEXT [unittest options]
"""

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
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAIN = {**os.environ, "LC_ALL": "C"}
TABLE = re.compile(r"all results are equal; medians of (\d+) runs each\n\nmethod +workers +time +speed\n"
                   r"serial +1 +[\d.]+ ms +1.00 x\nmuster +1 +[\d.]+ ms +[\d.]+ x\n"
                   r"muster +(\d+) +[\d.]+ ms +[\d.]+ x\n\n(.*)\n")


def execute(*command, **more):
    """Runs a program. One that hangs fails the test instead of the whole run."""
    return subprocess.run(command, capture_output=True, timeout=120, check=False, env=PLAIN, **more)


def run(*args, program=None, **more):
    return execute(program or PROGRAM, *[arg if isinstance(arg, bytes) else str(arg) for arg in args], **more)


def records(output):
    """The output of count or grep with -Z: [(name, lines)]. A name may contain anything but a zero byte."""
    found = re.findall(rb"([^\0]+)\0(\d+)\n", output)
    assert b"".join(b"%s\0%s\n" % record for record in found) == output, output
    return found


def grep(pattern, directory, **more):
    """The same from grep: its exit status, and its records in an order of their own."""
    result = execute("grep", "-arcFZ", "-e", pattern, directory, **more)
    return result.returncode, sorted(records(result.stdout))


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="find-text-")
        self.addCleanup(shutil.rmtree, self.root)

    def path(self, *names):
        return os.path.join(os.fsencode(self.root), *names)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def fill(self):
        """Everything that a tree may contain, except what cannot be read."""
        chance = random.Random(5)
        self.write(b"empty", b"")
        self.write(b"only line ends", b"\n" * 1000)
        self.write(b"no end", b"one ab\ntwo ab")
        self.write(b"only pattern", b"ab")
        self.write(b"twice in a line", b"ababab ab\n\nab\n")
        self.write(b"returns", b"ab\r\nx\r\r\nab\r\n")
        self.write(b"zeros", b"ab\0ab\nx\0\0\nab\0\n\0")
        self.write(b"random", chance.randbytes(300_000))
        self.write(b"not utf-8", b"\xff\xfe ab \xc3\n\xffab\xff\n")
        self.write(b"one line", b"x" * 1_000_000 + b"ab" + b"x" * 100_000 + b"ab")
        self.write(b"long lines", b"\n".join((b"y" * chance.randrange(9000)) + b"ab" * (i % 2) for i in range(200)))
        self.write(b"dense", b"".join(chance.choices([b"a", b"b", b"\n"], k=50_000)))
        for name in (b"a space", b"a\nline end", b":7", b"-r", b"*", b"\xff\xfe", b"\x1b[31m", b".hidden", b"n" * 255):
            self.write(name, b"ab\n")
            self.write(b"in " + name[:200] + b"/" + name, b"x\nab\nab")
        for i in range(150):
            lines = chance.choices([b"ab", b"a", b"b", b"xabx", b"", b"abc"], k=chance.randrange(100))
            self.write(b"d%d/e%d/f%d" % (i % 7, i % 3, i), b"\n".join(lines))
        self.write(b"/".join([b"deep"] * 600) + b"/down", b"ab\n")
        os.makedirs(self.path(b"nothing/in/it"))
        for name, target in ((b"file", b"no end"), (b"loop", b"loop"), (b"parent", b".."), (b"dangling", b"gone"),
                             (b"directory", b"d1")):
            os.symlink(target, self.path(b"d0", b"link to " + name))
        os.mkfifo(self.path(b"d0", b"fifo"))  # Opening it would wait forever for a writer.

    def check(self, pattern, directory=None, workers=(1, 2, 5), options=()):
        """The records are those of grep, in the order of the names; the status is that of grep. Returns them."""
        directory = directory or self.root
        status, expected = grep(pattern, directory)
        for number in workers:
            result = run("count", "-Z", "--workers", number, *options, "--", pattern, directory)
            self.assertEqual((result.returncode, result.stderr), (status, b""))
            self.assertEqual(sorted(records(result.stdout)), expected)
            again = run("count", "-Z", "--workers", number, *options, "--", pattern, directory)
            self.assertEqual(again.stdout, result.stdout)
        return expected

    def as_unprivileged(self):
        """(program, options for run): root reads everything, so the program must run as an unprivileged user, from
        a place where that user can start it."""
        os.chmod(self.root, 0o755)
        if os.geteuid() != 0:
            return PROGRAM, {}
        place = tempfile.mkdtemp(prefix="find-text-")
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        return shutil.copy(PROGRAM, place), {"user": 65534, "group": 65534, "extra_groups": []}


class Count(Tree):
    def test_the_sources_of_this_repository(self):
        for part in ("include", "examples", "tests", "tools"):
            for pattern in ("muster", "std::", "e", "the", "this pattern is in no file but " + "one"):
                with self.subTest(part=part, pattern=pattern):
                    self.check(pattern, os.path.join(REPOSITORY, part), workers=(2,))
        self.assertGreater(len(self.check("muster", os.path.join(REPOSITORY, "include"))), 10)

    def test_every_kind_of_file(self):
        self.fill()
        for pattern in (b"ab", b"a", b"bab", b"\r", b"\xff", b"x" * 5000 + b"ab", b"-r", b"++", b"in no file"):
            with self.subTest(pattern=pattern):
                self.check(pattern)
        counts = dict(self.check(b"ab"))
        for name, lines in ((b"empty", b"0"), (b"no end", b"2"), (b"zeros", b"2"), (b"a\nline end", b"1"),
                            (b"d0/link to file", None), (b"d0/fifo", None)):
            self.assertEqual(counts.get(self.path(name)), lines, name)

    def test_pieces_of_any_size(self):
        for name, content in ((b"slide", b"\n".join(b"x" * n + b"abc" for n in range(40))), (b"exact", b"ab\nab\nab\n"),
                              (b"long", b"abcabc" * 300), (b"ends", b"\n\nabc\n\n\nabc\n\n")):
            self.write(name, content)
        for piece in (1, 2, 3, 4, 15, 16, 17, 64, 1800, 1 << 30):
            for pattern in ("a", "abc", "cab", "xabc", "abc" * 500):
                with self.subTest(piece=piece, pattern=pattern[:9]):
                    self.check(pattern, workers=(2,), options=("--piece", piece))

    def test_a_large_file_alone(self):
        chance = random.Random(6)
        words = [b"w%d" % i for i in range(2000)]
        lines = (b" ".join(chance.choices(words, k=chance.randrange(20))) for _ in range(300_000))
        self.write(b"large", b"\n".join(lines))
        self.assertGreater(os.path.getsize(self.path(b"large")), 10_000_000)
        for pattern in (b"w", b"w123", b"w1 w", b"w99 w99"):
            with self.subTest(pattern=pattern):
                self.check(pattern)

    def test_names_are_printed_as_grep_prints_them(self):
        self.write(b"d/file", b"ab")
        for directory in ("d", "d/", "./d", ".", "d/../d"):
            with self.subTest(directory=directory):
                result = run("count", "ab", directory, cwd=self.root)
                self.assertEqual(result.stdout, execute("grep", "-arcF", "ab", directory, cwd=self.root).stdout)
                self.assertEqual(result.returncode, 0)
        os.symlink("d", self.path(b"link"))  # one that is asked for is followed
        self.assertEqual(run("count", "ab", "link", cwd=self.root).stdout, b"link/file:1\n")

    def test_files_come_in_the_order_of_their_bytes_and_before_directories(self):
        for name in (b"b", b"a/z", b"a/y", b"\xff", b"A", b"a b", b"a.b/c"):
            self.write(name, b"")
        result = run("count", "-Z", "x", ".", cwd=self.root)
        self.assertEqual(result.returncode, 1)
        self.assertEqual([name for name, _ in records(result.stdout)],
                         [b"./A", b"./a b", b"./b", b"./\xff", b"./a/y", b"./a/z", b"./a.b/c"])

    def test_patterns_that_look_like_options_or_commands(self):
        self.write(b"f", b"sort\ncount\n[x]\n\"q\"\na,b\n{}\n\\n\n'\n")
        for pattern in ("sort", "count", "[x]", '"q"', "a,b", "{}", "\\n", "'"):
            with self.subTest(pattern=pattern):
                self.assertEqual(run("count", pattern, ".", cwd=self.root).stdout, b"./f:1\n")
                self.check(pattern, workers=(2,))

    def test_compare(self):
        self.fill()
        result = run("count", "ab", self.root, "--compare", "--workers", 3, "--repeat", 2, "--piece", 1000)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        repeats, workers, totals = TABLE.fullmatch(result.stdout.decode()).groups()
        expected = grep("ab", self.root)[1]
        size = sum(os.path.getsize(name) for name, _ in expected)
        self.assertEqual((repeats, workers), ("2", "3"))
        lines = sum(int(number) for _, number in expected)
        self.assertEqual(totals, f"{len(expected)} files, {size} bytes, {lines} matching lines")
        self.assertEqual(run("count", "in no file", self.root, "--compare", "--repeat", 1).returncode, 1)


class Sort(Tree):
    def check(self, content, *options):
        path = self.write(b"to sort", content)
        expected = execute("sort", path).stdout
        for workers in (1, 2, 5):
            result = run("sort", path, "--workers", workers, *options)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertTrue(result.stdout == expected, "the lines are not those of sort")  # too many to be printed
        return expected

    def test_real_files(self):
        for name in ("README.md", "CONTRIBUTING.md", "tools/lint.py", "examples/find-text/main.cpp"):
            with self.subTest(name=name), open(os.path.join(REPOSITORY, name), "rb") as file:
                self.check(file.read())

    def test_lines_of_every_kind(self):
        chance = random.Random(8)
        for content in (b"", b"\n", b"\n\n", b"a", b"b\na", b"b\na\n", b"a\r\na\nA\r\n", b"b\0c\nb\0\nb\nb\0a\n",
                        b"\xff\n~\n", b"ab\na\nabc\n", b"x" * 1_000_000 + b"\n" + b"x" * 999_999,
                        chance.randbytes(500_000), b"same\n" * 100_000):
            with self.subTest(begins=content[:20]):
                self.check(content)
        self.assertEqual(self.check(b"b\na"), b"a\nb\n")

    def test_a_large_file(self):
        chance = random.Random(9)
        self.check(b"\n".join(b"%x %s" % (chance.getrandbits(chance.randrange(60)), b"z" * (i % 30))
                              for i in range(300_000)))

    def test_what_is_no_regular_file(self):
        result = run("sort", "/dev/stdin", input=b"b\nc\na" * 50_000)
        self.assertEqual(result.stdout, execute("sort", input=b"b\nc\na" * 50_000).stdout)

    def test_compare(self):
        path = self.write(b"f", b"b\na\nc\n" * 100_000)
        result = run("sort", "--compare", path, "--workers", 2)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(TABLE.fullmatch(result.stdout.decode()).groups(), ("5", "2", "300000 lines, 600000 bytes"))


class Failures(Tree):
    def refused(self, message, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(message, result.stderr.decode())

    def test_what_cannot_be_searched_or_sorted(self):
        file = self.write(b"file", b"ab")
        os.symlink("loop", self.path(b"loop"))
        self.refused("missing: No such file or directory; give a directory", "count", "x", self.path(b"missing"))
        self.refused("file: Is not a directory; give a directory", "count", "x", file)
        self.refused("symbolic links; give a directory", "count", "x", self.path(b"loop"))
        self.refused("missing: No such file or directory; give a file", "sort", self.path(b"missing"))
        self.refused("Is a directory; give a file", "sort", self.root)

    def test_bad_usage(self):
        self.refused("PATTERN: is empty, which every line contains; give some text", "count", "", self.root)
        self.refused("PATTERN: contains a line end", "count", "a\nb", self.root)
        self.refused("PATTERN", "count")
        self.refused("DIR", "count", "x")
        self.refused("FILE", "sort")
        self.refused("subcommand")
        for options in (["--workers", "0"], ["--workers", "two"], ["--workers", "-1"], ["--workers", "100000"],
                        ["--piece", "0"], ["--compare", "--repeat", "0"], ["--repeat", "3"], ["--no-such-option"],
                        ["another"]):
            with self.subTest(options=options):
                self.refused(options[-1 if len(options) == 1 else -2], "count", "x", self.root, *options)

    def test_help(self):
        self.assertIn(b"count", run("--help").stdout)
        for command in ("count", "sort"):
            result = run(command, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn(b"--workers", result.stdout)

    def test_without_permission_the_rest_is_counted(self):
        self.fill()
        for i in range(8):
            path = self.path(b"d1", b"secret%d" % i)
            os.mkdir(path) if i == 0 else self.write(b"d1/secret%d" % i, b"ab")
            os.chmod(path, 0)
        program, unprivileged = self.as_unprivileged()
        status, expected = grep("ab", self.root, **unprivileged)
        self.assertEqual(status, 2)
        self.assertGreater(len(expected), 100)
        for options in ([], ["--piece", "10"]):
            result = run("count", "-Z", "ab", self.root, *options, program=program, **unprivileged)
            self.assertEqual((result.returncode, sorted(records(result.stdout))), (2, expected))
            complaints = result.stderr.decode().splitlines()
            self.assertEqual(len(complaints), 8)
            for i in range(8):
                self.assertIn(f"find-text: {self.root}/d1/secret{i}: Permission denied", complaints)
        compared = run("count", "ab", self.root, "--compare", "--repeat", 1, program=program, **unprivileged)
        self.assertEqual((compared.returncode, compared.stderr.count(b"Permission denied")), (2, 8))
        result = run("sort", self.path(b"d1/secret1"), program=program, **unprivileged)
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(b"secret1: Permission denied; give a file", result.stderr)

    def test_a_path_that_is_too_long_is_named_and_cannot_control_the_terminal(self):
        self.write(b"file", b"ab")
        name, home = b"\x1b[31m\n" + b"deep" * 60, os.getcwd()
        os.chdir(self.root)
        try:
            for _ in range(18):  # step by step from inside, as it is removed
                os.mkdir(name)
                os.chdir(name)
        finally:
            os.chdir(home)
        result = run("count", "ab", self.root)
        self.assertEqual((result.returncode, result.stdout), (2, self.path(b"file") + b":1\n"))
        self.assertRegex(result.stderr, rb"\?\[31m\?deepdeep.*: File name too long\n$")
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertNotIn(b"\x1b", result.stderr)

    def test_a_result_that_cannot_be_written_is_a_failure(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full here")
        file = self.write(b"file", b"ab\n" * 100_000)
        for args in (["count", "ab", self.root], ["sort", file], ["sort", "--compare", file]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                result = subprocess.run([PROGRAM, *args], stdout=full, stderr=subprocess.PIPE, timeout=120, check=False)
                self.assertEqual(result.returncode, 2)
                self.assertIn(b"could not be written", result.stderr)

    def test_out_of_memory_ends_with_a_message(self):
        if os.environ.get("FIND_TEXT_SANITIZED"):
            self.skipTest("sanitizers reserve more address space than the limit of this test")
        with open(self.path(b"sparse"), "wb") as file:
            file.truncate(1 << 30)
        limit = 600 << 20
        for args in (["sort", self.path(b"sparse")], ["count", "ab", self.root, "--piece", 1 << 30, "--workers", 2]):
            with self.subTest(args=args):
                result = run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                self.assertEqual((result.returncode, result.stdout), (2, b""))
                self.assertIn(b"out of memory", result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
