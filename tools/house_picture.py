#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/house.svg: the rooms of this repository, their public headers, and which room includes which.

An arrow is at least one #include. The umbrella of a room, include/muster/ROOM.hpp, exports or names its public headers.
So the picture changes when a room gains an edge or a public header, and not with other files.

Usage: tools/house_picture.py --check | --write  [--root DIR]
  --check   exit status 1 when the picture is not the one that would be drawn
  --write   draws it
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import drawn
from drawn import text

PICTURE = "docs/pictures/house.svg"
CXX = {".hpp", ".cpp", ".h", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
PUBLIC = re.compile(r"\b(\w+/\w+)\.(?:hpp|cuh)\b")
LIBRARY = "library"


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int
    notes: tuple[str, ...] = ()


# The place of each room, and the notes in it above its public headers.
OUTSIDE = {
    "commands": Box(20, 40, 150, 60, ("muster-sandbox",)),
    "examples": Box(202, 40, 150, 60, ("programs, guides' code",)),
    "sim": Box(384, 40, 150, 60, ("caches; warps of a GPU",)),
    "bench": Box(566, 40, 150, 60, ("experiments, rivals",)),
    "tests": Box(748, 40, 150, 60, ("and the model checker",)),
    "seams": Box(748, 190, 150, 410, ("the other sides of", "the two seams:", "model checker,", "faults, counting,",
                                      "simulated caches,", "emulated GPU")),
}
PARTS = {
    "queue": Box(36, 190, 122, 230),
    "syscall": Box(168, 190, 122, 230),
    "combine": Box(300, 190, 122, 230),
    "fork": Box(432, 190, 122, 250),
    "gpu": Box(564, 190, 122, 230),
    "fiber": Box(234, 450, 122, 75),
    "base": Box(36, 555, 650, 45, ("atomics and futexes (sync.hpp, a seam) · waiting · threads · processes",)),
}
NOTES_BELOW = {"gpu": ("simt.cuh is a seam",)}
FRAME = Box(20, 150, 682, 466)
WIDTH, HEIGHT = 918, 670

# The points of each arrow that is not a straight line between neighbours. An edge without a route still appears.
ROUTES = {
    ("tests", "sim"): ((800, 40), (800, 16), (490, 16), (490, 40)),
    ("seams", "sim"): ((780, 190), (780, 118), (500, 118), (500, 100)),
    ("seams", "tests"): ((850, 190), (850, 100)),
    ("tests", "seams"): ((870, 100), (870, 190)),
    ("tests", LIBRARY): ((760, 100), (760, 160), (702, 160)),
    ("syscall", "base"): ((200, 420), (200, 555)),
    ("syscall", "fiber"): ((260, 420), (260, 450)),
    ("combine", "fiber"): ((330, 420), (330, 450)),
    ("combine", "base"): ((390, 420), (390, 555)),
    ("base", "seams"): ((686, 585), (748, 585)),
    ("seams", "base"): ((748, 568), (686, 568)),
    ("gpu", "seams"): ((686, 300), (748, 300)),
    ("seams", "gpu"): ((748, 283), (686, 283)),
}
# Chosen by a macro for the whole program, or for one file.
CHOSEN = {("base", "seams"), ("gpu", "seams")}


def room_of(path: str) -> str:
    """The room of a file, or "library" for what belongs to all parts."""
    parts = path.split("/")
    if path.startswith("include/muster/"):
        return parts[2] if len(parts) > 3 else LIBRARY
    return parts[0]


def edges(root: Path) -> set[tuple[str, str]]:
    """The pairs of rooms of which the first includes the second."""
    rooms = [*OUTSIDE, "include"]
    files = [path for room in rooms for path in sorted((root / room).rglob("*")) if path.suffix in CXX]
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(file.name, []).append(file.relative_to(root).as_posix())
    found = set()
    for file in files:
        own = room_of(file.relative_to(root).as_posix())
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            # Include directories are not known here, so the end of the path decides, first in the file's own room.
            targets = [path for path in by_name.get(name.split("/")[-1], ()) if f"/{path}".endswith(f"/{name}")]
            theirs = {room_of(path) for path in targets}
            if theirs and own not in theirs:
                found |= {(own, other) for other in theirs}
    return {shown for edge in found if (shown := summary(*edge))}


def summary(own: str, other: str) -> tuple[str, str] | None:
    """The arrow that shows an edge. Rooms outside include many parts: one arrow to the library stands for all."""
    if own == LIBRARY:
        return None  # umbrellas include every part
    if own in OUTSIDE and own != "seams" and other not in OUTSIDE:
        return own, LIBRARY
    return own, other


def public_headers(root: Path, part: str) -> list[str]:
    umbrella = root / "include/muster" / f"{part}.hpp"
    if not umbrella.is_file():
        return []
    names = {name for name in PUBLIC.findall(umbrella.read_text(encoding="utf-8")) if name.startswith(f"{part}/")}
    return sorted(name.removeprefix(f"{part}/") for name in names)


def arrow(points: tuple[tuple[int, int], ...], chosen: bool, title: str) -> str:
    style = "edge chosen" if chosen else "edge"
    way = " ".join(f"{x},{y}" for x, y in points)
    return f'  <polyline points="{way}" class="{style}" marker-end="url(#head)"><title>{title}</title></polyline>'


def draw_box(name: str, box: Box, headers: list[str]) -> list[str]:
    style = "outside" if name in OUTSIDE else "part"
    lines = [f'  <rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="5" class="{style}"/>']
    y = box.y + 19
    lines.append(text(box.x + box.width / 2, y, f"{name}/", "name"))
    for note in box.notes:
        y += 16
        lines.append(text(box.x + box.width / 2, y, note, "note"))
    for header in headers:
        y += 14
        lines.append(text(box.x + 12, y, header, "header"))
    for note in NOTES_BELOW.get(name, ()):
        y += 18
        lines.append(text(box.x + box.width / 2, y, note, "note"))
    if y > box.y + box.height - 4:
        raise SystemExit(f"{PICTURE}: the box of {name} is {y - box.y - box.height + 4} too low for its headers: make "
                         f"it higher in tools/house_picture.py")
    return lines


def route(edge: tuple[str, str]) -> tuple[tuple[int, int], ...]:
    if edge in ROUTES:
        return ROUTES[edge]
    places = {**OUTSIDE, **PARTS, LIBRARY: FRAME}
    a, b = places[edge[0]], places[edge[1]]
    across, left, right = a.x + a.width // 2, max(a.x, b.x), min(a.x + a.width, b.x + b.width)
    if left < right:  # one is above the other
        x = across if left <= across <= right else (left + right) // 2
        return ((x, a.y + a.height), (x, b.y)) if a.y < b.y else ((x, a.y), (x, b.y + b.height))
    y = (max(a.y, b.y) + min(a.y + a.height, b.y + b.height)) // 2
    return ((a.x + a.width, y), (b.x, y)) if a.x < b.x else ((a.x, y), (b.x + b.width, y))


def draw(root: Path) -> str:
    found = sorted(edges(root))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        "  <!-- SPDX-FileCopyrightText: the muster authors -->",
        "  <!-- SPDX-License-Identifier: Apache-2.0 -->",
        "  <!-- Drawn by tools/house_picture.py. -->",
        "  <title>The rooms of muster and which room includes which</title>",
        "  <style>",
        "    text { font-family: 'DejaVu Sans', Verdana, sans-serif; font-size: 11px; fill: #1f2933 }",
        "    .name { font-size: 13px; font-weight: bold; text-anchor: middle } .note { text-anchor: middle }",
        "    .header { font-family: 'DejaVu Sans Mono', monospace }",
        "    .part { fill: #dbe8f7; stroke: #4a76ac } .outside { fill: #f6ead2; stroke: #a9812f }",
        "    .frame { fill: none; stroke: #808080; stroke-dasharray: 2 3 }",
        "    .edge { fill: none; stroke: #7a7a7a; stroke-width: 1.5 } .chosen { stroke-dasharray: 5 4 }",
        "  </style>",
        '  <defs><marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto" '
        'markerUnits="userSpaceOnUse">',
        '    <path d="M0,0 L9,4 L0,8 z" fill="#7a7a7a"/></marker></defs>',
        f'  <rect x="{FRAME.x}" y="{FRAME.y}" width="{FRAME.width}" height="{FRAME.height}" rx="8" class="frame"/>',
    ]
    lines += [arrow(route(edge), edge in CHOSEN, f"{edge[0]} includes {edge[1]}") for edge in found]
    lines += [f'  <rect x="296" y="{FRAME.y - 11}" width="150" height="22" rx="5" class="part"/>',
              text(371, FRAME.y + 4, "include/muster/", "name")]
    for name, box in (OUTSIDE | PARTS).items():
        lines += draw_box(name, box, public_headers(root, name))
    y = HEIGHT - 27
    lines += [f'  <rect x="20" y="{y - 13}" width="682" height="26" rx="5" class="part"/>',
              arrow(((36, y), (76, y)), False, "legend"), text(86, y + 4, "includes", "legend"),
              arrow(((176, y), (216, y)), True, "legend"),
              text(226, y + 4, "includes the side of a seam that a macro chooses", "legend"), "</svg>", ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    return drawn.run("tools/house_picture.py", PICTURE, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
