#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Draws a trace that MUSTER_TRACE has written as an SVG picture, such as docs/pictures/trace.svg: a band for each
worker, a box for each slice, lower if it is inside another, and an arrow for each theft.

Usage: tools/trace_picture.py TRACE PICTURE [--from MS] [--to MS] [--title TEXT]
  --from, --to   the part of the trace, in milliseconds since its first event (default: all of it)

Exit status 1, and the reason, for a file that is not such a trace, or a part without slices.
"""

import argparse
import html
import json
import sys
from pathlib import Path
from typing import NamedTuple

WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 900, 110, 20, 46, 15, 14
COLOURS = {"run": "#d9e2ef", "task": "#7fa7d6", "stolen fork": "#e8a33d", "stolen async": "#d9822b",
           "queued async": "#f3d38b", "run_on_all": "#b48ad4", "join": "#e4e4e4", "sleep": "#ffffff"}
NODE = "#8cc084"  # of a graph, by its own name
LEAST = 0.4       # units; narrower slices are drawn as wide as that


class Slice(NamedTuple):
    begin: float  # microseconds
    end: float
    name: str
    depth: int


class Trace(NamedTuple):
    names: dict     # of threads
    slices: dict    # of each thread, in the order of their beginnings
    thefts: list    # (time, victim, thief)


class Mistake(Exception):
    """A mistake in the input, worded for its user."""


def read(path):
    try:
        events = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Mistake(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Mistake(f"{path} is not the JSON of a trace: {error}") from error
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise Mistake(f"{path} is not a list of events; MUSTER_TRACE=FILE makes a program write one")
    names, raw, starts, thefts = {}, {}, {}, []
    for event in events:
        place, kind = event.get("tid"), event.get("ph")
        if kind == "M" and event["name"] == "thread_name":
            names[place] = event["args"]["name"]
        elif kind == "X":
            raw.setdefault(place, []).append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif kind == "s":
            starts[event["id"]] = place
        elif kind == "f":
            thefts.append((event["ts"], starts.get(event["id"]), place))
    slices = {}
    for place, found in raw.items():
        found.sort(key=lambda one: (one[0], -one[1]))
        open_ends, nested = [], []
        for begin, end, name in found:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            nested.append(Slice(begin, end, name, len(open_ends)))
            open_ends.append(end)
        slices[place] = nested
    return Trace(names, slices, thefts)


def cut(trace, first, last):
    """The part between two times, which begins at 0."""
    slices = {}
    for place, found in trace.slices.items():
        kept = [one._replace(begin=max(one.begin, first) - first, end=min(one.end, last) - first)
                for one in found if one.end > first and one.begin < last]
        if kept:
            slices[place] = kept
    thefts = [(time - first, victim, thief) for time, victim, thief in trace.thefts if first <= time < last]
    return Trace(trace.names, slices, thefts)


def drawn(trace, length, title):
    """The lines of the picture. Slices that would be drawn over one another are drawn once."""
    scale = (WIDTH - LEFT - RIGHT) / length
    tops, y, body = {}, TOP, []
    for place in sorted(trace.slices):
        tops[place] = y
        found = trace.slices[place]
        rows = max(one.depth for one in found) + 1
        name = html.escape(trace.names.get(place, str(place)))
        body.append(f'<text x="8" y="{y + 11}" class="name">{name}</text>')
        body.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{rows * ROW}" class="band"/>')
        shown = set()
        for one in found:
            x, wide = LEFT + one.begin * scale, max((one.end - one.begin) * scale, LEAST)
            spot = (one.depth, one.name, round(x / LEAST), round(wide / LEAST))
            if spot in shown:
                continue
            shown.add(spot)
            label = html.escape(one.name)
            colour = COLOURS.get(one.name, NODE)
            body.append(f'<rect x="{x:.1f}" y="{y + one.depth * ROW}" width="{wide:.1f}" height="{ROW - 1}" '
                        f'fill="{colour}"><title>{label}, {one.end - one.begin:.1f} µs</title></rect>')
            if wide > 7 * len(one.name) + 6:
                body.append(f'<text x="{x + 3:.1f}" y="{y + one.depth * ROW + 11}" class="slice">{label}</text>')
        y += rows * ROW + GAP
    shown = set()
    for time, victim, thief in trace.thefts:
        if victim not in tops or thief not in tops:
            continue
        x = LEFT + time * scale
        spot = (victim, thief, round(x / 3))
        if spot not in shown:
            shown.add(spot)
            start, end = tops[victim] + ROW - 1, tops[thief]
            if start > end:
                start, end = tops[victim], tops[thief] + ROW - 1
            body.append(f'<path d="M{x:.1f} {start} V{end}" class="theft" marker-end="url(#tip)"/>')
    axis = []
    for tenth in range(0, 11, 2):
        x = LEFT + (WIDTH - LEFT - RIGHT) * tenth / 10
        axis.append(f'<path d="M{x:.1f} {TOP - 10} V{y - GAP + 4}" class="tick"/>')
        axis.append(f'<text x="{x:.1f}" y="{TOP - 14}" class="time">{length * tenth / 1e4:.3g} ms</text>')
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="11">',
        "<!-- SPDX-FileCopyrightText: the muster authors -->",
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        '<style>.band{fill:#f6f6f6}.tick{stroke:#ccc;stroke-width:.5}.time{text-anchor:middle;fill:#666;font-size:9px}'
        '.slice{font-size:10px;fill:#222}.name{fill:#222}.theft{stroke:#b03a2e;stroke-width:.8;fill:none}</style>',
        '<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto">'
        '<path d="M0 0 L6 3 L0 6 z" fill="#b03a2e"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>',
        f'<text x="8" y="16" font-size="13">{html.escape(title)}</text>', *axis, *body, "</svg>"]


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Draws a trace of MUSTER_TRACE as an SVG picture.")
    parser.add_argument("trace")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--from", dest="first", type=float, default=0, metavar="MS")
    parser.add_argument("--to", dest="last", type=float, metavar="MS")
    parser.add_argument("--title", default="Workers, what they execute, and what they take from each other (arrows)")
    options = parser.parse_args(arguments)
    try:
        trace = read(options.trace)
        every = [one for found in trace.slices.values() for one in found]
        if not every:
            raise Mistake(f"{options.trace} has no slices: has the program used a pool?")
        begin = min(one.begin for one in every)
        first = begin + 1000 * options.first
        last = max(one.end for one in every) if options.last is None else begin + 1000 * options.last
        part = cut(trace, first, last) if last > first else Trace({}, {}, [])
        if not part.slices:
            raise Mistake(f"{options.trace} has no slices from {options.first} ms on to {(last - begin) / 1000:.3f} ms")
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 1
    options.picture.write_text("\n".join(drawn(part, last - first, options.title)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
