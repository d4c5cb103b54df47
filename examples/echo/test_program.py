#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests the server echo from outside, as its clients: what they receive, and how it ends.

Usage: test_program.py PATH-OF-ECHO [unittest options]
"""

import random
import socket
import subprocess
import sys
import threading
import unittest

ECHO = ""


class Echo(unittest.TestCase):
    def start(self, *options):
        process = subprocess.Popen([ECHO, *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        word, port = process.stdout.readline().split()
        self.assertEqual(word, "port")
        self.port = int(port)
        return process

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(made.close)
        return made

    def end(self, process, status=0):
        _, errors = process.communicate(timeout=60)  # ends its input
        self.assertEqual(process.returncode, status, errors)

    def ask(self, client, lines):
        client.sendall("".join(line + "\n" for line in lines).encode())

    def answers(self, client, count):
        with client.makefile("r", newline="\n") as file:
            return [file.readline().rstrip("\n") for _ in range(count)]

    def test_a_line_comes_back(self):
        server = self.start()
        client = self.connect()
        self.ask(client, ["hello"])
        self.assertEqual(self.answers(client, 1), ["HELLO"])
        self.end(server)

    def test_answers_come_in_the_order_of_the_requests(self):
        server = self.start("--workers", 4)
        client = self.connect()
        lines = [f"line {i}" for i in range(500)]
        self.ask(client, lines)
        self.assertEqual(self.answers(client, len(lines)), [line.upper() for line in lines])
        self.end(server)

    def test_many_clients_at_once(self):
        server = self.start()
        failures = []

        def one(number):
            try:
                rest = random.Random(number)
                client = self.connect()
                for turn in range(20):
                    lines = [f"{number} {turn} {i} " + "x" * rest.randrange(2000) for i in range(rest.randrange(1, 8))]
                    self.ask(client, lines)
                    if self.answers(client, len(lines)) != [line.upper() for line in lines]:
                        failures.append(number)
            except OSError as error:
                failures.append(error)

        clients = [threading.Thread(target=one, args=(number,)) for number in range(40)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        self.end(server)

    def test_clients_that_leave(self):
        server = self.start()
        for turn in range(50):
            client = self.connect()
            self.ask(client, ["left behind"] * (turn % 3))
            client.close()
        client = self.connect()
        self.ask(client, ["still there"])
        self.assertEqual(self.answers(client, 1), ["STILL THERE"])
        self.end(server)

    def test_a_client_that_finishes_gets_its_answers(self):
        server = self.start()
        client = self.connect()
        self.ask(client, ["a", "b", "c"])
        client.shutdown(socket.SHUT_WR)
        with client.makefile("r") as file:
            self.assertEqual(file.read(), "A\nB\nC\n")
        self.end(server)

    def test_an_endless_line_is_refused(self):
        server = self.start()
        client = self.connect()
        try:
            client.sendall(b"x" * 200000)
            self.assertEqual(client.recv(1), b"")
        except ConnectionError:
            pass
        self.end(server)

    def test_the_end_of_the_input_ends_the_server(self):
        server = self.start()
        idle = self.connect()
        self.end(server)
        try:
            self.assertEqual(idle.recv(1), b"")
        except ConnectionError:
            pass

    def test_a_port_in_use_is_reported(self):
        self.start()
        second = subprocess.run([ECHO, "--port", str(self.port)], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=60, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn("bind", second.stderr)


if __name__ == "__main__":
    ECHO = sys.argv.pop(1)
    unittest.main()
