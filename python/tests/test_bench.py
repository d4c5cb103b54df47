# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison with other queues runs, and its results are right and fit the schema of result files."""

import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).parent.parent / "bench" / "rivals.py"


def test_rivals(tmp_path):
    file = tmp_path / "results.json"
    done = subprocess.run([sys.executable, "-B", str(BENCH), "--profile", "smoke", "--json", str(file)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results = {r["experiment"]: r for r in json.loads(file.read_text())["results"]}
    assert set(results) == {"python/stream", "python/arrays", "python/round-trip", "python/kills"}
    for result in results.values():
        for series in result["series"]:
            if series["role"] == "ours":
                assert all(point["checked"] and point["samples"] for point in series["points"])
