#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a command while the processes that it starts are stopped and continued at random, as a busy machine, a debugger
or a virtual machine's host stops them. No test may fail because of that.

    tools/pause.py [--seed N] ctest --preset test --parallel 6

Half of the pauses stop every process at once, the others a single one, for 10 ms to 3 s. The command itself keeps
running, and so does a test runner's own clock. A process that a debugger controls is left alone, and so is its
debugger: a stop would be an event of the program under test. Exit status: the command's.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SHORTEST, LONGEST = 0.01, 3.0  # seconds: of a pause, and between two


def status_of(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status; empty when the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def processes_below(root: int) -> set[int]:
    """The running descendants of a process that no debugger controls and that are no debugger."""
    fields = {int(entry): status_of(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    children: dict[int, list[int]] = {}
    for pid, field in fields.items():
        children.setdefault(int(field.get("PPid", 0)), []).append(pid)
    tracers = {int(field.get("TracerPid", 0)) for field in fields.values()}
    found: set[int] = set()
    unseen = [root]
    while unseen:
        for child in children.get(unseen.pop(), []):
            unseen.append(child)
            state = fields[child].get("State", "").strip()[:1]
            if state in "RSD" and int(fields[child].get("TracerPid", 0)) == 0 and child not in tracers:
                found.add(child)
    return found


def send(pids: set[int], what: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)


def some_time(chance: random.Random) -> float:
    """Short times are as likely as long ones on a logarithmic scale."""
    return math.exp(chance.uniform(math.log(SHORTEST), math.log(LONGEST)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command whose processes are stopped at random.")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="of the pauses")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run, with its arguments")
    given = parser.parse_args()
    if not given.command:
        parser.error("name a command to run, such as: ctest --preset test --parallel 6")
    chance = random.Random(given.seed)
    try:
        running = subprocess.Popen(given.command)
    except OSError as error:
        print(f"pause.py: cannot run '{given.command[0]}': {error.strerror}", file=sys.stderr)
        return 2
    pauses, paused = 0, 0.0
    while running.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            running.wait(some_time(chance))
            break
        stopped = processes_below(running.pid)
        if stopped and chance.random() < 0.5:
            stopped = {chance.choice(sorted(stopped))}
        length = some_time(chance)
        try:
            send(stopped, signal.SIGSTOP)
            time.sleep(length)
        finally:
            send(stopped, signal.SIGCONT)
        pauses, paused = pauses + 1, paused + length
    print(f"pause.py: {pauses} pauses, {paused:.0f} s in all, seed {given.seed}", file=sys.stderr)
    return running.returncode


if __name__ == "__main__":
    sys.exit(main())
