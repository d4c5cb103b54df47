#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of this project that compilers and other tools do not know. CONTRIBUTING.md explains them.

seam      the library touches atomics, volatile, thread_local and asm only in the rooms that are made for it
order     every ordering operation of the labelled rooms carries a numbered label that names its partners, and the
          partners name it back
wait      no loop of the library only yields the processor
include   a room of the library includes only the rooms below it, the standard library and, in base/, the system;
          and headers do not include each other in a cycle. In fork/, a header includes only those before it in a list
source    SPDX lines, width of lines, conditional compilation only in base/
sheet     the text on top of a public header with a structure or an algorithm has a row `Cost`
prose     no room has more phrases of a list of stilted ones than tools/prose.txt allows; the numbers only fall

Usage: tools/lint.py [ROOT]                Prints one line per finding; exit status 1 if there are any.
       tools/lint.py [ROOT] --prose ROOM   Prints where the phrases of a room are.
"""

import argparse
import itertools
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

LIBRARY = "include/muster/"

# Where the machine may be touched directly. Everything else goes through base/sync.hpp.
SEAM = ("base/", "fiber/detail/context", "fiber/detail/switch_observers", "fork/detail/barrier/", "gpu/simt",
        "gpu/detail/simt")
RAW = re.compile(
    r"\b(std\s*::\s*atomic\w*|__atomic_\w+|__sync_\w+|volatile|thread_local|asm|__asm__|__asm"
    r"|atomic_thread_fence|atomic_signal_fence)\b")

# Other rooms that each room may include. A name that ends in .hpp is one header of another room.
ROOMS = {
    "base": (),
    "queue": ("base",),
    "fiber": ("base",),
    "combine": ("base", "fiber"),
    "fork": ("base",),
    "gpu": ("base",),
    "syscall": ("base", "fiber"),
}
# Rooms in which a header includes only those before it in this list.
STAIRS = {
    "fork": tuple(f"fork/{name}.hpp" for name in (
        *(f"detail/{name}" for name in (
            "parking", "trace", "injector", "restraint", "completion", "group_count", "task", "steal_list", "watermark",
            "barrier/frame", "barrier/unwind", "barrier/records", "barrier/stack", "barrier/engine", "engine",
            "scheduler", "future_state", "joint_tasks", "one_run", "graph_node", "serial_gate", "call", "barrier/join",
            "elements")),
        "pool", "schedule", "execution", "per_worker", "fork2", "finish", "future", "task_group", "task_graph",
        "pipeline", "progress", "loops", "algorithms", "scan", "sort", "merge")),
}
# Which headers may include those of the system, of the other sides of the seam, and of what watches the switch of
# stacks; and may be compiled in several ways.
MACHINE = ("base/", "fiber/detail/context", "fiber/detail/switch_observers", "fiber/stack", "fiber/this_fiber",
           "fork/detail/barrier/", "fork/detail/engine.hpp", "gpu/simt", "gpu/detail/simt", "gpu/xmc", "gpu/heap.cuh")
# Which besides may include headers of the system: they are about what it does.
SYSTEM = ("syscall/",)
# Where the processor may be yielded: by waits that sleep when that has not helped for some microseconds.
YIELD = re.compile(r"\b(?:sync\s*::\s*yield|sched_yield|this_thread\s*::\s*yield)\s*\(")
BOUNDED_YIELDS = ("fiber/detail/carrier.hpp", "fork/detail/scheduler.hpp")
INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"])([^>\"]+)[>\"]")

# Rooms whose ordering operations must be labelled. The seams are left out: their callers carry the labels.
LABELLED = ("base/", "queue/", "fiber/", "combine/", "fork/", "gpu/", "syscall/")
LABELLED_BASELINES = "bench/baselines/combining/"
UNLABELLED = ("base/detail/native.hpp", "gpu/detail/simt_device.cuh", "gpu/detail/simt_types.hpp")
STRONG = re.compile(r"\bmemory_order(?:_|\s*::\s*)(acquire|release|acq_rel|seq_cst|consume)\b")
FENCE = re.compile(r"\bsync\s*::\s*(?:try_)?(light_fence|heavy_fence|full_fence)\s*\(")
ATOMIC_CALL = re.compile(r"(?:\.|->)\s*(?:load|store|exchange|fetch_\w+|compare_exchange_\w+|test_and_set)\s*\(")
ORDER = r"\b(?:acquire|release|acq_rel|seq_cst|light_fence|heavy_fence|full_fence|relaxed)\b"
LABEL = re.compile(rf"^/{{2,}}\s*\((\d+)\)\s+([^:]*?{ORDER}[^:]*):")
REPEAT = re.compile(r"^/{2,}\s*(\(\d+\)(?:, *\(\d+\))*) *(?:$|[:.,;])")
PAIRS = re.compile(r"\bpairs (with\s+.*?)(?:[.:;](?:\s|$)|$)")
PARTNERS = re.compile(  # `(2)`, `(2, 3)` or `ring.hpp (2)`, and the comma or `and` before a further one
    r"(?:([\w/]+\.hpp) +)?\((\d+(?:, *\d+)*)\)(?:(?:,| and|, and) +(?=(?:[\w/]+\.hpp +)?\())?")
ALONE = re.compile(r"\balone\b")
REACH = 3  # lines of code between a label and its operation

SOURCES = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".S", ".py", ".sh", ".cmake", ".in"}
SOURCE_NAMES = {"CMakeLists.txt", "dev", "run", "install-test", "packages.txt", ".clang-format", ".clang-tidy"}
CXX = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh"}
SKIPPED = {".git", "build", "out", ".cache", "__pycache__"}
WIDEST = 120


# Rooms whose public headers say what their operations cost; and the headers of options, results and names, and of what
# a user or another header provides, which need not.
COSTING = ("queue/", "combine/", "fiber/", "fork/", "gpu/", "syscall/")
COSTLESS = ("queue/options.hpp", "queue/shared_info.hpp", "queue/status.hpp", "combine/batch.hpp",
            "combine/options.hpp", "fiber/this_fiber.hpp", "gpu/misuse.hpp", "gpu/simt.cuh", "gpu/upstream.hpp")
COST_ROW = re.compile(r"^// Cost {7}\S")
# At the beginning of a line: namespaces do not indent.
DECLARES = re.compile(r"^(?:class|struct)(?:\s*\[\[\w+\]\])?\s+(\w+)(?![^{]*;)|^(?:[\w:]+(?:<[^()]*>)?[\s*&]+)+(\w+)\(")
NOT_DECLARATIONS = ("using", "friend", "return", "static_assert")

# Phrases that name no actor, or that a native speaker would not write. Spelled so that they do not match themselves.
STILTED = re.compile(
    r"\b(?:([W]ho[m]?|[W]hose|[W]hat(?:ever)?|[W]hether)|[Ww]ho[m]?(?:so)?[e]ver"
    r"|(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)(?:body)"
    r"|[Tt]hose,? (?:who|that)|(?:he|him|they) [w]ho|for [e]ver|in [v]ain|com(?:e|es|ing) to [r]est"
    r"|go(?:es)? [o]n(?! to\b)|(?:is|are|be|been|was|were) [t]old|(?:sits?|sat) [d]own)\b")
BEFORE_SENTENCE = re.compile(r"(?:^|[.:;!?]\s|[/#*|>(`\"-]\s?)\s*$")  # of the words in group 1, only these count
QUESTION = re.compile(r"[^.\n]*\?")
PROSE_TABLE = "tools/prose.txt"
PROSE_LINE = re.compile(r"^(\S+)\s+(\d+)$", re.M)


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


# A token that hides others: comment, raw string, string, character (not the ' of a number such as 1'000).
HIDING = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|R\"([^ ()\\\t\n]*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\""
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)


def split(text: str) -> tuple[list[str], list[str]]:
    """The lines of a C++ file as code (comments and literals blanked) and as comments (from the first `//` on)."""
    comments = [""] * (text.count("\n") + 1)

    def blank(match: re.Match) -> str:
        token = match.group(0)
        if token.startswith(("//", "/*")):
            first = text.count("\n", 0, match.start())
            for offset, part in enumerate(token.split("\n")):
                comments[first + offset] = comments[first + offset] or part
        return re.sub(r"[^\n]", " ", token)

    # An #include's file name looks like a string, so those lines keep their text.
    code = HIDING.sub(blank, text).split("\n")
    original = text.split("\n")
    for number, line in enumerate(code):
        if re.match(r"\s*#\s*include\b", line):
            code[number] = original[number]
    return code, comments


def arguments(code: list[str], line: int, column: int) -> str:
    """The text between the parenthesis that opens before `column` and the one that closes it."""
    depth, text = 1, ""
    for row in range(line, min(line + 20, len(code))):
        for char in code[row][column if row == line else 0:]:
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth == 0:
                return text
            text += char
        text += " "
    return text


class Label(NamedTuple):
    file: str
    line: int
    order: str
    partners: tuple[tuple[str, int], ...]  # (header or "" for this structure, number)


class Ordering:
    """The ordering labels of all headers; see CONTRIBUTING.md for the notation."""

    def __init__(self) -> None:
        self.labels: dict[str, dict[int, Label]] = {}
        self.files: dict[str, list[tuple[str, list[str], list[str], dict[int, set[int]]]]] = {}

    def read(self, where: str, code: list[str], comments: list[str]) -> Iterator[Finding]:
        name = where.removeprefix(LIBRARY)
        own = self.labels.setdefault(name, {})
        at: dict[int, set[int]] = {}  # line -> numbers of the labels and repeats there
        for row, comment in enumerate(comments):
            match = LABEL.match(comment)
            if not match:
                if repeat := REPEAT.match(comment):
                    at[row] = {int(n) for n in re.findall(r"\d+", repeat.group(1))}
                continue
            number = int(match.group(1))
            text = comment[match.end():]
            for later in range(row + 1, len(code)):  # the rest of the comment, to the next label
                if code[later].strip() or not comments[later] or LABEL.match(comments[later]):
                    break
                text += " " + comments[later].lstrip("/ ")
            partners = []
            clause = pairs.group(1) if (pairs := PAIRS.search(text)) else ""
            for start in re.finditer(r"\bwith\s+", clause):
                position = start.end()
                while found := PARTNERS.match(clause, position):
                    partners += [(found.group(1) or "", int(n)) for n in found.group(2).split(",")]
                    position = found.end()
            if not partners and not ALONE.search(text):
                yield Finding(where, row + 1, "order",
                              f"({number}) names no partner: write `pairs with (N)`, or `alone, <why>`")
            if number in own:
                first = own[number]
                yield Finding(where, row + 1, "order", f"({number}) is used twice, first in {first.file}:{first.line}")
            else:
                own[number] = Label(where, row + 1, match.group(2), tuple(partners))
            at[row] = {number}
        self.files.setdefault(name, []).append((where, code, comments, at))

    def finish(self) -> Iterator[Finding]:
        """The findings that need all files."""
        for name, own in self.labels.items():
            files = self.files[name]
            for number in range(1, max(own, default=0)):
                if number not in own:
                    yield Finding(files[0][0], 1, "order", f"the labels have a hole: ({number}) is missing")
            used: set[int] = set()
            for where, code, comments, at in files:
                for row, numbers in at.items():
                    for number in sorted(numbers - own.keys()):
                        yield Finding(where, row + 1, "order",
                                      f"({number}) is not explained anywhere in this structure")
                        numbers.discard(number)
                yield from self.operations(where, code, comments, own, at, used)
            for number, label in own.items():
                if number not in used and "relaxed" not in label.order:
                    yield Finding(label.file, label.line, "order", f"({number}) stands above no ordering operation")
        yield from self.check()

    @staticmethod
    def operations(where: str, code: list[str], comments: list[str], own: dict[int, Label],
                   at: dict[int, set[int]], used: set[int]) -> Iterator[Finding]:
        for row, line in enumerate(code):
            for call in ATOMIC_CALL.finditer(line):
                if "order" not in arguments(code, row, call.end()):
                    yield Finding(where, row + 1, "order", "an atomic operation without an order: write which")
            orders = {*STRONG.findall(line), *FENCE.findall(line)}
            if not orders:
                continue
            numbers, budget = set(), REACH
            for above in range(row, -1, -1):
                if above in at:
                    numbers |= at[above]
                elif above < row and numbers and not (comments[above] and not code[above].strip()):
                    break  # the comment that holds the label has ended
                if above < row and code[above].strip():
                    budget -= 1
                    ended = code[above].rstrip().endswith((";", "{", "}"))
                    if budget < 0 or (ended and STRONG.search(code[above])):
                        break  # too far, or the label belongs to another operation
            used |= numbers
            missing = [o for o in sorted(orders) if not any(re.search(rf"\b{o}\b", own[n].order) for n in numbers)]
            if not numbers:
                yield Finding(where, row + 1, "order",
                              f"{', '.join(sorted(orders))} needs a label `// (N) order: pairs with (M)` right above")
            elif missing:
                yield Finding(where, row + 1, "order",
                              f"the label above does not say {', '.join(missing)}, which the operation has")

    def check(self) -> Iterator[Finding]:
        for name, own in self.labels.items():
            for number, label in own.items():
                for header, partner in label.partners:
                    yield from self.partner(name, number, label, header, partner)

    def partner(self, name: str, number: int, label: Label, header: str, partner: int) -> Iterator[Finding]:
        where = (label.file, label.line, "order")
        targets = [n for n in self.labels if n == header or n.endswith("/" + header)] if header else [name]
        if len(targets) != 1:
            what = "several headers are" if targets else "no labelled header is"
            yield Finding(*where, f"({number}) pairs with {header}, but {what} called so")
            return
        other = self.labels[targets[0]].get(partner)
        shown = f"{header} ({partner})" if header else f"({partner})"
        if other is None:
            yield Finding(*where, f"({number}) pairs with {shown}, which does not exist")
            return
        for back, n in other.partners:
            if n == number and (name == back or name.endswith("/" + back) if back else targets[0] == name):
                return
        yield Finding(*where, f"({number}) pairs with {shown}, which does not name ({number}) back")


def check_seam(name: str, code: list[str]) -> Iterator[Finding]:
    if name.startswith(SEAM):
        return
    for row, line in enumerate(code):
        if line.lstrip().startswith("#"):
            continue
        for match in RAW.finditer(line):
            yield Finding(LIBRARY + name, row + 1, "seam", f"`{match.group(0)}` outside base/: use base/sync.hpp")


def check_waits(name: str, code: list[str]) -> Iterator[Finding]:
    if name.startswith(("base/", *BOUNDED_YIELDS)):
        return
    for row, line in enumerate(code):
        if YIELD.search(line):
            yield Finding(LIBRARY + name, row + 1, "wait",
                          "a thread that only yields may keep those of lower priority from running: use "
                          "base/detail/brief_wait.hpp")


def check_includes(name: str, code: list[str]) -> Iterator[Finding]:
    room = name.split("/")[0].removesuffix(".hpp")
    for row, line in enumerate(code):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()

        def finding(text: str) -> Finding:
            return Finding(LIBRARY + name, row + 1, "include", text)

        if quote == '"':
            yield finding(f'"{target}": the library includes its own headers as <muster/...>')
        elif target.startswith("muster/"):
            inner = target.removeprefix("muster/")
            their_room = inner.split("/")[0].removesuffix(".hpp")
            allowed = (room, *ROOMS.get(room, ()))
            if room in ROOMS and inner != "version.hpp" and their_room not in allowed and inner not in allowed:
                yield finding(f"{room}/ may not include <{target}>; it may include: {', '.join(allowed)}")
        elif not name.startswith(MACHINE + SYSTEM) and ("/" in target or "." in target):
            yield finding(f"<{target}>: only base/ and syscall/ include headers of the system; nothing includes other "
                          "libraries")


def check_cycles(includes: dict[str, list[tuple[int, str]]]) -> Iterator[Finding]:
    """Cycles among the library's headers. `includes`: for each header, the line and name of each that it includes."""
    done: set[str] = set()
    way: list[str] = []

    def walk(name: str) -> Iterator[Finding]:
        way.append(name)
        for line, target in includes[name]:
            if target in way:
                around = " -> ".join([*way[way.index(target):], target])
                yield Finding(LIBRARY + name, line, "include", f"a cycle: {around}; merge them or move what they share")
            elif target in includes and target not in done:
                yield from walk(target)
        done.add(way.pop())

    for name in includes:
        if name not in done:
            yield from walk(name)


def check_stairs(includes: dict[str, list[tuple[int, str]]]) -> Iterator[Finding]:
    """Headers that include one that comes after them in the list of their room."""
    for name, targets in includes.items():
        stairs = STAIRS.get(name.split("/")[0], ())
        if not stairs:
            continue
        if name not in stairs:
            yield Finding(LIBRARY + name, 1, "include", "not in STAIRS in tools/lint.py: add it where it belongs")
            continue
        for line, target in targets:
            if target in stairs[stairs.index(name) + 1:]:
                yield Finding(LIBRARY + name, line, "include", f"<muster/{target}> comes after this header in STAIRS")


def check_source(path: str, lines: list[str], code: list[str] | None) -> Iterator[Finding]:
    head = "\n".join(lines[:5])
    # The pattern is put together here so that this line is not taken for this file's own tag.
    for tag in ("SPDX-" + "FileCopyrightText:", "SPDX-" + "License-Identifier:"):
        if tag not in head:
            yield Finding(path, 1, "source", f"the first lines must have {tag}")
    in_library = path.startswith("include/")
    for row, line in enumerate(lines):
        if len(line) > WIDEST:
            yield Finding(path, row + 1, "source", f"{len(line)} columns; at most {WIDEST}")
        if line != line.rstrip():
            yield Finding(path, row + 1, "source", "white space at the end of the line")
        if "\t" in line:
            yield Finding(path, row + 1, "source", "a tab: indent with spaces")
    if in_library and code is not None and not path.removeprefix(LIBRARY).startswith(MACHINE):
        for row, line in enumerate(code):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
                yield Finding(path, row + 1, "source", "conditional compilation outside base/: move the difference")


def check_sheet(name: str, code: list[str], comments: list[str]) -> Iterator[Finding]:
    """Public headers that declare something that costs time, and do not say how much."""
    if not name.startswith(COSTING) or "/detail/" in name or name in COSTLESS:
        return
    top = itertools.takewhile(lambda row: not code[row].strip(), range(len(code)))
    if any(COST_ROW.match(comments[row]) for row in top):
        return
    is_detail = False
    for row, line in enumerate(code):
        if re.match(r"namespace\b.*\bdetail\b.*\{", line):
            is_detail = True
        elif line.startswith("}") and "namespace" in comments[row]:
            is_detail = False
        elif not is_detail and not line.startswith(NOT_DECLARATIONS) and (found := DECLARES.match(line)):
            yield Finding(LIBRARY + name, row + 1, "sheet",
                          f"declares `{found.group(1) or found.group(2)}`, but the text on top of the header has no "
                          "row `Cost`: say there what each operation costs, or add the header to COSTLESS in "
                          "tools/lint.py if it has only options, results or names")
            return


def room_of(path: str) -> str:
    """The line of tools/prose.txt that a file counts for: a part of the library, a directory at the top, or a page."""
    parts = path.removeprefix(LIBRARY).split("/")
    return LIBRARY + parts[0].removesuffix(".hpp") if path.startswith(LIBRARY) else parts[0]


def stilted(text: str) -> Iterator[tuple[int, str]]:
    """The line and the words of each phrase of the list, outside of the code blocks of pages."""
    for match in STILTED.finditer(text):
        if match.group(1):
            line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            if not BEFORE_SENTENCE.search(line) or QUESTION.match(text, match.end()):
                continue
        yield text.count("\n", 0, match.start()) + 1, match.group(0)


def without_code(text: str) -> str:
    """A page, with the lines of its code blocks blanked."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block.group(0).count("\n"), text, flags=re.M | re.S)


def check_prose(root: Path, places: dict[str, list[str]], notes: list[str]) -> Iterator[Finding]:
    table = root / PROSE_TABLE
    text = table.read_text(encoding="utf-8") if table.is_file() else ""
    allowed = {row.group(1): (int(row.group(2)), text.count("\n", 0, row.start()) + 1)
               for row in PROSE_LINE.finditer(text)}
    for room in sorted(allowed.keys() | places.keys()):
        most, line = allowed.get(room, (0, 1))
        found = places.get(room, [])
        if len(found) > most:
            yield Finding(PROSE_TABLE, line, "prose",
                          f"{room} has {len(found)} stilted phrases, {most} allowed; `tools/lint.py --prose {room}` "
                          f"lists them. The last is {found[-1]}")
        elif len(found) < most:
            notes.append(f"{PROSE_TABLE}:{line}: {room} has {len(found)} stilted phrases: lower its number from {most}")


def sources(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name in SKIPPED or path.is_symlink():
            continue
        if path.is_dir():
            yield from sources(path)
        elif path.suffix in SOURCES or path.suffix == ".md" or path.name in SOURCE_NAMES:
            yield path


def lint(root: Path, notes: list[str] | None = None, places: dict[str, list[str]] | None = None) -> list[Finding]:
    """All findings. `notes` gets the numbers that can be lowered, `places` the stilted phrases of each room."""
    findings: list[Finding] = []
    places = {} if places is None else places
    ordering = Ordering()
    includes: dict[str, list[tuple[int, str]]] = {}
    for file in sources(root):
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        is_page = file.suffix == ".md"
        for line, words in stilted(without_code(text) if is_page else text):
            places.setdefault(room_of(path), []).append(f"{path}:{line}: {words}")
        if is_page:
            continue
        lines = text.split("\n")
        if lines and not lines[-1]:
            lines.pop()
        code, comments = split(text) if file.suffix in CXX else (None, None)
        findings += check_source(path, lines, code)
        if code is None or comments is None:
            continue
        if path.startswith(LABELLED_BASELINES):
            findings += ordering.read(path, code, comments)
        if not path.startswith(LIBRARY):
            continue
        name = path.removeprefix(LIBRARY)
        findings += check_seam(name, code)
        findings += check_waits(name, code)
        findings += check_includes(name, code)
        findings += check_sheet(name, code, comments)
        includes[name] = [(row + 1, match.group(2).removeprefix("muster/")) for row, line in enumerate(code)
                          if (match := INCLUDE.match(line)) and match.group(2).startswith("muster/")]
        if name.startswith(LABELLED) and name not in UNLABELLED:
            findings += ordering.read(path, code, comments)
    findings += check_cycles(includes)
    findings += check_stairs(includes)
    findings += check_prose(root, places, [] if notes is None else notes)
    return sorted([*findings, *ordering.finish()])


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the rules of this project; CONTRIBUTING.md explains them.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--prose", metavar="ROOM", help="only print where the stilted phrases of a room are")
    options = parser.parse_args()
    notes: list[str] = []
    places: dict[str, list[str]] = {}
    findings = lint(options.root, notes, places)
    if options.prose:
        print("\n".join(places.get(options.prose, [])))
        return 0
    for finding in findings:
        print(finding)
    for note in notes:
        print(note, file=sys.stderr)
    if findings:
        print(f"lint: {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
