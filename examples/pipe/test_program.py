#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests pipe-send and pipe-receive from outside: what arrives, and what they say when one of them is killed.

Usage: test_program.py PATH-OF-PIPE-SEND PATH-OF-PIPE-RECEIVE [unittest options]
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SEND = RECEIVE = ""


class Pipe(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="muster-pipe-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.root)
        self.queue, self.out = self.path("queue"), self.path("out")

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def received(self):
        with open(self.out, "rb") as file:
            return file.read()

    def start(self, *args):
        process = subprocess.Popen(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def send(self, path, *options):
        return self.start(SEND, path, self.queue, *options)

    def receive(self, *options):
        return self.start(RECEIVE, self.queue, self.out, *options)

    def end(self, process, status=0):
        """The output of the process. A process that hangs fails the test instead of the whole run."""
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, errors)
        return output if status == 0 else errors

    def await_true(self, condition):
        until = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), until, "nothing has happened for a minute")
            time.sleep(0.01)

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)


class Transfers(Pipe):
    def check(self, content, *options):
        path = self.write("in", content)
        for first in ("sender", "receiver"):
            with self.subTest(size=len(content), first=first, options=options):
                if first == "sender":
                    sender = self.send(path, *options)
                    self.await_true(lambda: os.path.exists(self.queue))
                    receiver = self.receive()
                else:
                    receiver = self.receive()
                    sender = self.send(path, *options)
                sent, got = self.end(sender), self.end(receiver)
                self.assertEqual(self.received(), content)
                digests = [re.search(rf"{len(content)} bytes.* digest ([0-9a-f]{{32}})$", text, re.M)
                           for text in (sent, got)]
                self.assertEqual(digests[0].group(1), digests[1].group(1))
                self.assertFalse(os.path.exists(self.queue))

    def test_files_of_any_size(self):
        chance = random.Random(3)
        for size in (0, 1, 4063, 4064, 4065, 3_000_001):
            self.check(chance.randbytes(size))

    def test_a_queue_of_one_piece(self):
        self.check(random.Random(4).randbytes(100_000), "--capacity", 1)

    def test_what_was_in_the_file_before_is_gone(self):
        self.write("out", b"x" * 10_000)
        self.check(b"new")


class Deaths(Pipe):
    def begin(self, content):
        """A sender that has sent `content` and waits for more, from a FIFO; and the FIFO's other end."""
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        sender = self.send(fifo)
        into = open(fifo, "wb", buffering=0)
        self.addCleanup(into.close)
        into.write(content)
        self.await_true(lambda: os.path.exists(self.queue))
        return sender, into

    def test_a_receiver_that_is_killed_is_followed_by_another(self):
        sender, into = self.begin(b"before ")
        for text in (b"and ", b"between "):
            receiver = self.receive()
            self.await_true(lambda: os.path.exists(self.out) and self.received().endswith(b" "))
            size = len(self.received())
            into.write(text)
            self.await_true(lambda size=size: len(self.received()) > size)
            self.kill(receiver)
        into.write(b"after")
        into.close()
        receiver = self.receive()
        self.end(sender)
        self.end(receiver)
        self.assertEqual(self.received(), b"before and between after")

    def test_a_sender_that_is_killed_is_noticed_and_what_it_sent_arrives(self):
        sender, _ = self.begin(b"all that was sent")
        receiver = self.receive()
        self.await_true(lambda: os.path.exists(self.out) and self.received())
        self.kill(sender)
        self.assertRegex(self.end(receiver, 1), rf"the sender, process {sender.pid}, has died")
        self.assertEqual(self.received(), b"all that was sent")
        self.assertFalse(os.path.exists(self.queue))

    def test_there_is_one_receiver_at_a_time(self):
        sender, into = self.begin(b"text")
        receiver = self.receive()
        self.await_true(lambda: os.path.exists(self.out))
        self.assertIn("there is a consumer, in process", self.end(self.receive(), 1))
        into.close()
        self.end(sender)
        self.end(receiver)
        self.assertEqual(self.received(), b"text")

    def test_a_sender_says_that_no_receiver_exists(self):
        sender = self.send(self.write("in", b"x" * 100_000), "--capacity", 2)
        self.assertEqual(sender.stderr.readline(), "pipe-send: waiting for pipe-receive\n")
        self.end(self.receive())
        self.end(sender)
        self.assertEqual(self.received(), b"x" * 100_000)


class Failures(Pipe):
    def fails(self, args, text, status=1):
        self.assertRegex(self.end(self.start(*args), status), text)

    def test_files_that_cannot_be_read_leave_nothing_behind(self):
        self.fails([SEND, self.path("missing"), self.queue], "missing cannot be opened: No such file")
        self.fails([SEND, self.root, self.queue], "cannot be read: Is a directory")
        self.assertEqual(os.listdir(self.root), [])

    def test_a_queue_that_is_there_already(self):
        path = self.write("in", b"text")
        self.end(self.send(path))
        self.fails([SEND, path, self.queue], "it already exists; open it, or delete it")

    def test_a_queue_that_is_missing_or_something_else(self):
        self.fails([RECEIVE, self.queue, self.out, "--wait", 0], "No such file")
        self.write("queue", b"something else" * 1000)
        self.fails([RECEIVE, self.queue, self.out], "this is not a muster queue")
        self.assertFalse(os.path.exists(self.out))

    def test_a_full_disk_costs_nothing_that_was_sent(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full here")
        sender = self.send(self.write("in", b"text"))
        self.end(sender)
        self.fails([RECEIVE, self.queue, "/dev/full"], "cannot be written: No space left on device")
        self.assertTrue(os.path.exists(self.queue))

    def test_bad_options(self):
        for args in ([SEND], [SEND, "a"], [SEND, "a", "b", "--capacity", "0"], [RECEIVE], [RECEIVE, "a", "b", "--no"],
                     [RECEIVE, "a", "b", "--wait", "-1"]):
            with self.subTest(args=args):
                self.fails(args, ".", 2)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    SEND, RECEIVE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main(verbosity=1)
