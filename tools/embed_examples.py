#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the code in README.md and docs/guide/*.md equal to regions of the examples, which the tests compile and run.

In a page, a marker names the file and the region; the block after it is the copy:

    <!-- embed examples/hello-queue.cpp [readme] -->
    ```cpp
    ...
    ```

In the example, comments delimit the region:  // [readme]  …  // [/readme]
Indentation that all lines of a region share is left out of the copy, and so are markers of regions inside it.

Usage: tools/embed_examples.py --check | --write  [--root DIR]
  --check   exit status 1, and what differs, when a copy is not equal to its region
  --write   makes every copy equal to its region
Both report, with exit status 1: a region or file that does not exist, a region that is not closed or opened twice, a
marker without a block, and a C++ block without a marker (nothing would compile it).
"""

import argparse
import difflib
import re
import sys
import textwrap
from pathlib import Path

EMBED = re.compile(r"^<!-- embed (?P<file>\S+) \[(?P<region>[\w-]+)\] -->\s*$")
LOOKS_LIKE_EMBED = re.compile(r"^\s*<!--\s*/?\s*embed\b")
FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<language>[\w+-]*)\s*$")
CXX = {"cpp", "c++", "cc", "cxx", "C++"}
REGION = re.compile(r"^\s*(?://|#) \[(?P<end>/?)(?P<region>[\w-]+)\]\s*$")


class Mistake(Exception):
    """A mistake in a page or an example, worded for its author."""


def region_of(root, file, region):
    """The lines of a region, without the indentation they share."""
    path = root / file
    if not path.is_file():
        raise Mistake(f"there is no file {file}")
    lines, inside, seen = [], False, False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        marker = REGION.match(line)
        if marker and marker["region"] == region:
            opens = not marker["end"]
            if opens and seen:
                raise Mistake(f"{file}:{number}: the region [{region}] is opened a second time")
            if not opens and not inside:
                raise Mistake(f"{file}:{number}: [/{region}] closes a region that is not open")
            inside, seen = opens, True
        elif inside and not marker:
            lines.append(line)
    if not seen:
        raise Mistake(f"{file} has no region [{region}]; delimit it by '// [{region}]' and '// [/{region}]'")
    if inside:
        raise Mistake(f"{file}: the region [{region}] is not closed; end it by '// [/{region}]'")
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    if not text.strip():
        raise Mistake(f"{file}: the region [{region}] is empty")
    return text.split("\n")


def block_end(lines, start, ticks):
    """The index of the line that closes the block opened at `start`."""
    for i in range(start + 1, len(lines)):
        closing = FENCE.match(lines[i])
        if closing and not closing["language"] and len(closing["ticks"]) >= len(ticks):
            return i
    raise Mistake("the code block is not closed")


def embedded(root, lines):
    """A page's lines with every copy equal to its region, the number of copies, and [(line number, mistake)]."""
    result, mistakes, copies, i = [], [], 0, 0
    while i < len(lines):
        marker, fence = EMBED.match(lines[i]), FENCE.match(lines[i])
        start = i + 1 if marker else i
        try:
            if marker:
                fence = FENCE.match(lines[start]) if start < len(lines) else None
                if not fence:
                    raise Mistake("the line after an embed marker must open a code block: ```cpp")
                end = block_end(lines, start, fence["ticks"])
                code = region_of(root, marker["file"], marker["region"])
                result += [lines[i], lines[start], *code, lines[end]]
                copies += 1
                i = end + 1
                continue
            if LOOKS_LIKE_EMBED.match(lines[i]):
                raise Mistake("write an embed marker as <!-- embed FILE [REGION] -->")
            if fence:
                end = block_end(lines, start, fence["ticks"])
                result += lines[i:end + 1]
                if fence["language"] in CXX:
                    mistakes.append((i + 1, "a C++ block without an embed marker: nothing compiles it; move the code "
                                            "to examples/ and embed it"))
                i = end + 1
                continue
        except Mistake as mistake:
            mistakes.append((i + 1, str(mistake)))
        result.append(lines[i])
        i += 1
    return result, copies, mistakes


def pages_of(root):
    pages = sorted((root / "docs" / "guide").glob("*.md"))
    readme = root / "README.md"
    return [readme, *pages] if readme.is_file() else pages


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Keeps the code in the documents equal to regions of the examples.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="fail when a copy is not equal to its region")
    action.add_argument("--write", action="store_true", help="make every copy equal to its region")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="the top of the source tree (default: where this program is)")
    options = parser.parse_args(arguments)

    pages = pages_of(options.root)
    if not pages:
        print(f"{options.root}: there is neither README.md nor docs/guide/*.md", file=sys.stderr)
        return 1
    wrong = total = 0
    for page in pages:
        name = page.relative_to(options.root)
        old = page.read_text(encoding="utf-8").split("\n")
        new, copies, mistakes = embedded(options.root, old)
        total += copies
        wrong += len(mistakes)
        for number, mistake in mistakes:
            print(f"{name}:{number}: {mistake}", file=sys.stderr)
        if new == old:
            continue
        if options.write:
            page.write_text("\n".join(new), encoding="utf-8")
            print(f"{name}: updated")
        else:
            wrong += 1
            print(f"{name}: differs from the examples; run tools/embed_examples.py --write", file=sys.stderr)
            sys.stderr.writelines(difflib.unified_diff(
                [line + "\n" for line in old], [line + "\n" for line in new], f"{name}", "examples"))
    if not wrong:
        print(f"{total} code blocks in {len(pages)} pages are equal to their examples")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
