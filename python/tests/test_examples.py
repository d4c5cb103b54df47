# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The examples check their own outcome."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example):
    done = subprocess.run([sys.executable, "-B", str(example)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout
