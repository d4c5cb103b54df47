# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests run in other processes."""

import ctypes
import multiprocessing
import os
import signal
import time

import muster
import numpy


def end_with_parent():
    """The kernel kills this process when its parent ends, also if that is killed itself."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    try:
        with open(f"/proc/{os.environ['MUSTER_TESTS']}/stat") as file:
            ended = file.read().rpartition(") ")[2][0] in "ZX"
    except FileNotFoundError:
        ended = True
    if ended:  # before prctl()
        os._exit(1)


# Forked processes call it at once, others when they import this module to find their target.
os.register_at_fork(after_in_child=end_with_parent)
if multiprocessing.current_process().name != "MainProcess":
    end_with_parent()


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)


class Fails:
    """Cannot be unpickled while there is an error in `errors`, which it then takes."""

    errors = []

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return unpickle_or_fail, (self.value,)


def unpickle_or_fail(value):
    if Fails.errors:
        raise Fails.errors.pop()
    return value


class Sometimes:
    can_fail = False

    def __init__(self, value, fails):
        self.value, self.fails = value, fails

    def __reduce__(self):
        return unpickle_sometimes, (self.value, self.fails)


def unpickle_sometimes(value, fails):
    if fails and Sometimes.can_fail:
        raise ValueError(value)
    return value


def put_all(queue, objs):
    for obj in objs:
        queue.put(obj)


def put_late(queue, obj):
    time.sleep(0.05)
    queue.put(obj)


def get_and_die(queue):
    array = queue.get(copy=False)
    os.kill(os.getpid(), signal.SIGKILL)
    return array


def put_numbers(queue, first, count):
    for i in range(first, first + count):
        queue.put((first, i))


def echo(requests, answers):
    for obj in requests:
        answers.put(obj)
    answers.close()


def put_arrays(queue, count):
    for i in range(count):
        queue.put({"i": i, "a": numpy.full(10_000 + i, i, numpy.int32)})


def fill_ring(ring, count):
    for i in range(count):
        with ring.loan() as array:
            array[...] = i


def create_and_leave(name, objs):
    queue = muster.Queue(name=name)
    put_all(queue, objs)


def note(ledger, *numbers):
    """One write, so that a kill leaves whole lines."""
    os.write(ledger, b"".join(b"%d\n" % n for n in numbers))


def produce_until_killed(queue, ledger_path, first, blob):
    ledger = os.open(ledger_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    i = first
    while True:
        obj = (i, blob) if i % 3 else numpy.full(200, i)
        queue.put(obj)
        note(ledger, i)
        i += 1


def number_in(obj):
    """The number of an object that produce_until_killed made; fails if it is not whole."""
    if isinstance(obj, tuple):
        assert len(obj) == 2
        return obj[0]
    assert obj.shape == (200,) and (obj == obj[0]).all()
    return int(obj[0])


def consume_until_killed(queue, ledger_path):
    ledger = os.open(ledger_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for obj in queue:
        note(ledger, number_in(obj))


def die_with_array(queue, connection, copy=False):
    array = queue.get(copy=copy)
    connection.send(int(array[0]))
    time.sleep(60)


def die_with_first_array(queue, connection):
    held = queue.get(copy=False)
    connection.send(len(held))
    time.sleep(60)


def die_in_loan(queue, connection):
    with queue.loan(1000) as view:
        view[:] = bytes(1000)
        connection.send(True)
        os.kill(os.getpid(), signal.SIGKILL)


def get_and_report(queue, connection, **options):
    connection.send("ready")
    try:
        connection.send(queue.get(**options))
    except KeyboardInterrupt:
        connection.send("interrupted")
