#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/trace_picture.py, with small traces."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

import trace_picture  # noqa: E402  (found through the path above)

SVG = "{http://www.w3.org/2000/svg}"


def named(tid, name):
    return {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}}


def slice_of(tid, name, begin, length):
    return {"ph": "X", "name": name, "cat": "fork", "pid": 1, "tid": tid, "ts": begin, "dur": length}


def theft(number, victim, thief, time):
    return [{"ph": "s", "name": "steal", "id": number, "tid": victim, "ts": time},
            {"ph": "f", "name": "steal", "id": number, "tid": thief, "ts": time, "bp": "e"}]


TRACE = [named(10000, "worker-0"), named(10001, "a <b> & c"),
         slice_of(10000, "run", 1000, 4000), slice_of(10000, "join", 2000, 1000),
         slice_of(10000, "my node", 2100, 500), slice_of(10001, "stolen fork", 1500, 3000),
         *theft(1, 10000, 10001, 1500)]


class TracePicture(unittest.TestCase):
    def draw(self, trace, *options):
        """Returns the exit status, the errors, and the picture or nothing."""
        with tempfile.TemporaryDirectory() as place:
            file, picture = Path(place) / "trace.json", Path(place) / "picture.svg"
            file.write_text(trace if isinstance(trace, str) else json.dumps(trace), encoding="utf-8")
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                status = trace_picture.main([str(file), str(picture), *options])
            text = picture.read_text(encoding="utf-8") if picture.exists() else ""
            return status, errors.getvalue(), ElementTree.fromstring(text) if text else None

    def slices(self, picture):
        """Each slice's text, place from the left, width and row."""
        return {box.find(f"{SVG}title").text: (float(box.get("x")), float(box.get("width")), int(box.get("y")))
                for box in picture.iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None}

    def test_slices_are_where_they_were(self):
        status, errors, picture = self.draw(TRACE)
        self.assertEqual((status, errors), (0, ""))
        found = self.slices(picture)
        self.assertEqual(set(found), {"run, 4000.0 µs", "join, 1000.0 µs", "my node, 500.0 µs",
                                      "stolen fork, 3000.0 µs"})
        whole = trace_picture.WIDTH - trace_picture.LEFT - trace_picture.RIGHT
        self.assertEqual(found["run, 4000.0 µs"][:2], (trace_picture.LEFT, whole))
        self.assertAlmostEqual(found["join, 1000.0 µs"][0], trace_picture.LEFT + whole / 4, places=1)
        self.assertAlmostEqual(found["join, 1000.0 µs"][1], whole / 4, places=1)
        rows = [found[name][2] for name in ("run, 4000.0 µs", "join, 1000.0 µs", "my node, 500.0 µs")]
        self.assertEqual([row - rows[0] for row in rows], [0, trace_picture.ROW, 2 * trace_picture.ROW])
        texts = [text.text for text in picture.iter(f"{SVG}text")]
        self.assertIn("a <b> & c", texts)
        self.assertEqual(sum(path.get("class") == "theft" for path in picture.iter(f"{SVG}path")), 1)

    def test_a_part_begins_at_its_first_time(self):
        status, _, picture = self.draw(TRACE, "--from", "1", "--to", "2")
        self.assertEqual(status, 0)
        found = self.slices(picture)
        self.assertEqual(found["run, 1000.0 µs"][0], trace_picture.LEFT)
        self.assertEqual(sum(path.get("class") == "theft" for path in picture.iter(f"{SVG}path")), 0)

    def test_wrong_files_are_refused(self):
        for trace, why in (("{", "not the JSON of a trace"), ({"a": 1}, "not a list of events"),
                           ([named(1, "idle")], "no slices: has the program used a pool")):
            status, errors, picture = self.draw(trace)
            self.assertEqual((status, picture), (1, None))
            self.assertIn(why, errors)
        for part in (("--from", "9"), ("--from", "2", "--to", "1")):
            status, errors, picture = self.draw(TRACE, *part)
            self.assertEqual((status, picture), (1, None))
            self.assertIn("has no slices from", errors)

    def test_slices_that_cannot_be_told_apart_are_drawn_once(self):
        many = [named(1, "busy"), slice_of(1, "run", 0, 1e6)]
        many += [slice_of(1, "queued async", 10 * i, 5) for i in range(1, 100000)]
        status, _, picture = self.draw(many)
        self.assertEqual(status, 0)
        self.assertLess(sum(1 for _ in picture.iter(f"{SVG}rect")), 4000)


if __name__ == "__main__":
    unittest.main()
