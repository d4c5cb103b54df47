#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Mutants of meaning: changes to the headers that make the library do something else than it says, each of which the
fast tests must notice. (Those of memory order are the model checker's: tests/model/*mutants*, tests/regression.)

mutants.py --check              whether each can be made in include
mutants.py --list               one line for each: its name, its header, and the test that is run against it
mutants.py [OPTION]... [NAME]   makes each mutant (or those whose name begins with NAME), compiles the test with it,
                                runs it, and says whether it has been noticed. Ends with the score; exit status 1: a
                                mutant survives that no reason is given for, or one is noticed although there is one
  --trusting                    does not try the tests without a mutant first
  --jobs N                      so many at once (2)
  --scratch DIRECTORY           for what is compiled (build/meaning)
"""

import argparse
import concurrent.futures
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    name: str         # begins with the part
    header: str       # below include, or below bench
    before: str       # occurs once in it; or several such texts, each with its own in `after`
    after: str
    test: str         # tests/TEST_test.cpp, as unit/queue or gpu/xmc
    only: str = "*"   # of its cases, as --gtest_filter says
    reason: str = ""  # why no test needs to notice; it is run all the same
    all_kinds: bool = False  # the typed test is compiled with all its types, and not with a few


ROOT = Path(__file__).resolve().parents[2]
LISTS = ("queues", "combine", "fork", "gpu", "syscall")
LIMIT_S = 60  # a test that hangs has noticed; unchanged, each takes a few seconds, and is given ten times as long


def all_mutants() -> list[Mutant]:
    found = []
    for part in LISTS:
        spec = importlib.util.spec_from_file_location(f"mutants_of_{part}", Path(__file__).parent / f"{part}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += [Mutant(*one) for one in module.MUTANTS]
    return found


def text_of(mutant: Mutant) -> str:
    below = "bench" if mutant.header.startswith("baselines/") else "include"
    return (ROOT / below / mutant.header).read_text(encoding="utf-8")


def pieces_of(mutant: Mutant) -> list[tuple[str, str]]:
    if isinstance(mutant.before, str):
        return [(mutant.before, mutant.after)]
    return list(zip(mutant.before, mutant.after, strict=True))


def stale(mutants: list[Mutant]) -> list[str]:
    wrong = []
    names = [m.name for m in mutants]
    for m in mutants:
        for before, _ in pieces_of(m):
            if (count := text_of(m).count(before)) != 1:
                wrong.append(f"{m.name}: its text occurs {count} times in {m.header}; it must be there once")
        if m.before == m.after or names.count(m.name) != 1:
            wrong.append(f"{m.name}: changes nothing, or is there twice")
        if not (ROOT / "tests" / f"{m.test}_test.cpp").exists():
            wrong.append(f"{m.name}: there is no tests/{m.test}_test.cpp")
    return wrong


class Workshop:
    """Compiles and runs tests, with a mutant or with none."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.compiler = os.environ.get("CXX") or shutil.which("clang++-19") or "g++"
        scratch.mkdir(parents=True, exist_ok=True)

    def compile(self, directory: Path, test: str, all_kinds: bool = False) -> str:
        """Returns what the compiler says when it fails."""
        source = ROOT / "tests" / f"{test}_test.cpp"
        includes = [f"-I{p}" for p in (directory, *(ROOT / below for below in (
            "include", "bench", "tests", "tests/support", "seams", "sim/simt")))]
        command = [self.compiler, "-std=c++20", "-O0", "-g0", "-w", "-pthread", *includes, str(source)]
        if not all_kinds:
            command.append("-DMUSTER_TEST_FEW")
        if test.startswith("gpu/"):
            command += ["-DMUSTER_SIMT", *map(str, sorted((ROOT / "sim/simt/muster_simt").glob("*.cpp")))]
        command += ["-o", str(directory / "test"), "-lgtest", "-lgtest_main"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stderr

    def run(self, directory: Path, only: str, limit_s: int = LIMIT_S) -> str:
        """Returns how the test has failed, or nothing."""
        try:
            done = subprocess.run([str(directory / "test"), "--gtest_brief=1", f"--gtest_filter={only}"],
                                  capture_output=True, text=True, errors="replace", timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return f"does not end within {limit_s} s"
        if re.search(r"=\] 0 tests", done.stdout):
            sys.exit(f"mutants.py: no test is called {only}")
        if done.returncode == 0:
            return ""
        failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
        if failed:
            return failed[1].rstrip(",")
        return f"ends with {done.returncode}: " + (done.stderr.strip().splitlines() or [""])[-1][:100]

    def judge(self, mutant: Mutant) -> tuple[Mutant, str, str]:
        """The mutant, how it was noticed and how soon (nothing: not at all), and what was wrong with the trial."""
        directory = self.scratch / mutant.name
        shutil.rmtree(directory, ignore_errors=True)
        header = directory / mutant.header
        header.parent.mkdir(parents=True)
        text = text_of(mutant)
        for before, after in pieces_of(mutant):
            text = text.replace(before, after)
        header.write_text(text, encoding="utf-8")
        said = self.compile(directory, mutant.test, mutant.all_kinds)
        began = time.monotonic()
        noticed = "" if said else self.run(directory, mutant.only)
        if noticed:
            noticed += f" after {time.monotonic() - began:.1f} s"
        shutil.rmtree(directory, ignore_errors=True)
        return mutant, noticed, said

    def control(self, mutants: list[Mutant], jobs: int) -> list[str]:
        """The tests that fail without a mutant."""
        def wrong_with(program: tuple[str, bool]) -> list[str]:
            test, all_kinds = program
            directory = self.scratch / f"none-{test.replace('/', '-')}-{all_kinds}"
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            said = self.compile(directory, test, all_kinds)
            wrong = []
            for only in sorted({m.only for m in mutants if (m.test, m.all_kinds) == program}):
                if how := said or self.run(directory, only, 10 * LIMIT_S):
                    wrong.append(f"{test} ({only}) fails without a mutant: {how}")
            shutil.rmtree(directory, ignore_errors=True)
            return wrong

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            programs = sorted({(m.test, m.all_kinds) for m in mutants})
            return [one for found in pool.map(wrong_with, programs) for one in found]


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trusting", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scratch", type=Path, default=ROOT / "build" / "meaning")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    mutants = all_mutants()
    if wrong := stale(mutants):
        print("\n".join(f"tests/meaning: {one}" for one in wrong))
        return 1
    if given.check:
        return 0
    if given.names:
        mutants = [m for m in mutants if any(m.name.startswith(name) for name in given.names)]
    if given.list:
        for m in mutants:
            print(m.name, m.header, f"{m.test}_test.cpp", m.only)
        return 0

    workshop = Workshop(given.scratch)
    wrong = [] if given.trusting else workshop.control(mutants, given.jobs)
    killed = excused = 0
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        began = time.monotonic()
        for m, noticed, said in pool.map(workshop.judge, mutants):
            verdict = f"noticed by {noticed}" if noticed else f"survives: {m.reason}" if m.reason else "SURVIVES"
            if said:
                verdict = "does not compile: " + said.strip().splitlines()[0][:200]
                wrong.append(f"{m.name} {verdict}")
            elif noticed and m.reason:
                wrong.append(f"{m.name} is noticed by {noticed}, so it needs no reason")
            elif not noticed and not m.reason:
                wrong.append(f"{m.name} is noticed by no test")
            killed += bool(noticed)
            excused += not noticed and bool(m.reason)
            print(f"{time.monotonic() - began:6.0f} s  {m.name}: {verdict}", flush=True)
    for one in wrong:
        print(f"tests/meaning: {one}")
    print(f"mutants of meaning: noticed {killed} of {len(mutants) - excused}; {excused} change nothing promised")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
