#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the library as single files: muster-PART.hpp holds <muster/PART.hpp> and everything that it includes.

Each header of the library becomes a section with a guard of its own, so any number of these files can be included in
one program, in any order. Errors and debuggers name the line in the single file, where the text is. The files depend
on nothing but the headers: the same headers give the same bytes.

Usage: tools/single_header.py DIRECTORY [FILE...]     writes the named files, or all of them
       tools/single_header.py --list                  prints the files, and the headers that each stands for
       tools/single_header.py --contents FILE         prints the headers whose text is in one of them
"""

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"

# The files, and the headers that a program would include instead. Headers that a part's umbrella leaves out for the
# sake of compile time have files of their own.
FILES = {
    "muster.hpp": ("muster/muster.hpp",),
    "muster-queue.hpp": ("muster/queue.hpp",),
    "muster-queue-select.hpp": ("muster/queue/select.hpp",),
    "muster-queue-notify_fd.hpp": ("muster/queue/notify_fd.hpp",),
    "muster-queue-async.hpp": ("muster/queue/async.hpp",),
    "muster-queue-shared.hpp": ("muster/queue/shared.hpp", "muster/queue/shared_bytes.hpp",
                                "muster/queue/shared_info.hpp"),
    "muster-fiber.hpp": ("muster/fiber.hpp",),
    "muster-combine.hpp": ("muster/combine.hpp",),
    "muster-fork.hpp": ("muster/fork.hpp",),
    "muster-gpu.hpp": ("muster/gpu.hpp",),
    "muster-syscall.hpp": ("muster/syscall.hpp",),
}
# In each of them, before its own.
ALWAYS = ("muster/base/config.hpp", "muster/version.hpp")

OURS = re.compile(r"^\s*#\s*include\s*<(muster/[^>]+)>")
OPENS = re.compile(r"^\s*#\s*if")
CLOSES = re.compile(r"^\s*#\s*endif")
ONCE = re.compile(r"^\s*#\s*pragma\s+once\s*$")


class Problem(Exception):
    """A mistake in the headers, worded for the user."""


def text_of(header: str) -> str:
    path = INCLUDE / header
    if not path.is_file():
        raise Problem(f"there is no header include/{header}")
    return path.read_text(encoding="utf-8")


def guard_of(header: str) -> str:
    return "MUSTER_SINGLE_" + re.sub(r"\W", "_", header.removeprefix("muster/")).upper()


def digest() -> str:
    """Of all headers, so that files of two versions are not mixed in one source file."""
    sums = hashlib.sha256()
    for path in sorted(INCLUDE.rglob("*")):
        if path.suffix in (".hpp", ".cuh"):
            sums.update(f"{path.relative_to(INCLUDE)}\n".encode() + path.read_bytes())
    return "0x" + sums.hexdigest()[:8]


def version() -> str:
    numbers = re.findall(r"^#define MUSTER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text_of("muster/version.hpp"), re.M)
    if len(numbers) != 3:
        raise Problem("include/muster/version.hpp does not define the three numbers of the version")
    return ".".join(numbers)


class Writer:
    def __init__(self, seen: set[str]) -> None:
        self.lines: list[str] = []
        self.seen = seen  # headers whose text every later line sees

    def section(self, header: str, above: tuple[str, ...]) -> None:
        """The text of a header, after the headers that it includes."""
        if header in self.seen:
            return
        if header in above:
            raise Problem(f"headers include each other: {' > '.join((*above, header))}")
        guard = guard_of(header)
        body: list[str] = []
        depth = 0
        once = False
        for line in text_of(header).splitlines():
            if ONCE.match(line):
                once = True
                continue
            if CLOSES.match(line):
                depth -= 1
            found = OURS.match(line)
            if found is None:
                body.append(line)
            elif depth == 0:
                self.section(found[1], (*above, header))
            else:
                # Under a condition the text stays where it is, and what comes after the condition cannot rely on it.
                inner = Writer(set(self.seen))
                inner.section(found[1], (*above, header))
                body += inner.lines
            if OPENS.match(line):
                depth += 1
        self.seen.add(header)
        if not once:
            raise Problem(f"include/{header} has no #pragma once")
        self.lines += ["", f"// ---- {header} ----", f"#ifndef {guard}", f"#define {guard}", *squeezed(body),
                       f"#endif  // {guard}"]


def squeezed(lines: list[str]) -> list[str]:
    """Without the empty lines that the includes leave behind."""
    result: list[str] = []
    for line in lines:
        if line or (result and result[-1]):
            result.append(line)
    return result


def sections(name: str) -> list[str]:
    writer = Writer(set())
    for header in (*ALWAYS, *FILES[name]):
        writer.section(header, ())
    return writer.lines


def contents(name: str) -> list[str]:
    return sorted(set(re.findall(r"^// ---- (\S+) ----$", "\n".join(sections(name)), re.M)))


def single(name: str) -> str:
    instead = ", ".join(f"<{header}>" for header in FILES[name])
    mine = digest()
    head = f"""\
// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// {name}: muster {version()} in one file, in place of {instead}.
// Made by tools/single_header.py from the headers under include; change those, not this file. It can be included
// beside other single files of the same version, but not beside <muster/...>.
#pragma once

#if defined(MUSTER_SINGLE) && MUSTER_SINGLE != {mine}
#error "{name} and an earlier muster-*.hpp are from different versions: take all from the same one"
#endif
#if defined(MUSTER_CHECK) && !defined(MUSTER_SINGLE)
#error "{name} comes after a header <muster/...>: include either the single files or those"
#endif"""
    # After the sections: base/config.hpp refuses to be included by itself from here on.
    tail = f"""
#if !defined(MUSTER_SINGLE)
#define MUSTER_SINGLE {mine}
#endif"""
    return "\n".join((head, *sections(name), tail)) + "\n"


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["--list"]:
            for name, headers in FILES.items():
                print(f"{name:<28}{', '.join(headers)}")
            return 0
        if len(arguments) == 2 and arguments[0] == "--contents" and arguments[1] in FILES:
            print("\n".join(contents(arguments[1])))
            return 0
        unknown = [name for name in arguments[1:] if name not in FILES]
        if not arguments or arguments[0].startswith("-") or unknown:
            if unknown:
                print(f"single_header.py: unknown file {unknown[0]}; the files are: {', '.join(FILES)}",
                      file=sys.stderr)
            print("usage: tools/single_header.py DIRECTORY [FILE...] | --list | --contents FILE", file=sys.stderr)
            return 2
        out = Path(arguments[0])
        out.mkdir(parents=True, exist_ok=True)
        for name in arguments[1:] or FILES:
            (out / name).write_text(single(name), encoding="utf-8")
            print(out / name)
        return 0
    except (Problem, OSError) as problem:
        print(f"single_header.py: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
