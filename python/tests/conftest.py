# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests. The functions that run in other processes are in programs.py, which those can import."""

import multiprocessing
import os
import signal

import pytest

# A shell that starts the tests in the background has SIGINT ignored for them, and for the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["MUSTER_TESTS"] = str(os.getpid())  # for programs.end_with_parent()


@pytest.fixture(params=["fork", "spawn", "forkserver"])
def context(request):
    return multiprocessing.get_context(request.param)


@pytest.fixture
def name():
    """A name that no queue has, removed afterwards."""
    unused = f"test-{os.getpid()}-{os.urandom(4).hex()}"
    yield unused
    try:
        os.unlink(f"/dev/shm/muster-{unused}")
    except FileNotFoundError:
        pass
