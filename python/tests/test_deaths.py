# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Processes are killed while they use a queue. The others continue, and no object is lost, invented or doubled."""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter

import muster
import numpy
import programs
import pytest

FORK = multiprocessing.get_context("fork")
KILLS = int(os.environ.get("MUSTER_KILLS", "40"))


def test_an_object_that_a_dead_process_was_getting_goes_to_another():
    q = muster.Queue()
    q.put(numpy.full(10_000, 7))
    q.put("next")
    here, there = FORK.Pipe()
    p = FORK.Process(target=programs.die_with_array, args=(q, there))
    p.start()
    assert here.recv() == 7
    p.kill()
    p.join()
    assert q.get() == "next"
    assert (q.get(timeout=10) == 7).all()
    assert q.recover() == []


def test_recover_gives_what_dead_processes_were_getting():
    q = muster.Queue()
    q.put_many([numpy.full(10_000, 1), numpy.full(10_000, 2)])
    for _ in range(2):
        here, there = FORK.Pipe()
        p = FORK.Process(target=programs.die_with_array, args=(q, there))
        p.start()
        here.recv()
        p.kill()
        p.join()
    assert sorted(int(a[0]) for a in q.recover()) == [1, 2]
    with pytest.raises(muster.Empty):
        q.get(timeout=0.1)


def killed_with_arrays(q, count):
    """Each of `count` processes gets an array, and is killed."""
    for _ in range(count):
        here, there = FORK.Pipe()
        p = FORK.Process(target=programs.die_with_first_array, args=(q, there))
        p.start()
        assert here.recv()
        p.kill()
        p.join()


def test_recover_loses_nothing_when_one_cannot_be_unpickled():
    q = muster.Queue()
    for i in range(4):
        q.put([numpy.full(1000, i), programs.Fails(i)])
    killed_with_arrays(q, 4)
    programs.Fails.errors.append(ValueError("the first"))
    with pytest.raises(ValueError, match="the first"):  # and it is dropped
        q.recover()
    programs.Fails.errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        q.recover()
    assert len(q.recover()) == 3

    for i in range(3):
        q.put([numpy.full(1000, i), programs.Sometimes(i, fails=i == 1)])
    killed_with_arrays(q, 3)
    programs.Sometimes.can_fail = True
    got = []
    try:
        while len(got) < 2:
            try:
                got += [a[1] for a in q.recover()]
            except ValueError:
                pass
    finally:
        programs.Sometimes.can_fail = False
    assert sorted(got) == [0, 2] and q.recover() == []


def test_polling_finds_what_dead_processes_were_getting():
    q = muster.Queue()
    q.put([numpy.full(1000, 1)])
    killed_with_arrays(q, 1)
    for _ in range(200):
        try:
            assert q.get_nowait()[0][0] == 1
            break
        except muster.Empty:
            time.sleep(0.01)
    else:
        pytest.fail("get_nowait() finds nothing")


def test_an_array_of_a_dead_process_can_be_written():
    ring = muster.ArrayQueue("i8", 500)
    ring.put(numpy.arange(500))
    killed_with_arrays(ring, 1)
    array = ring.get(timeout=10, copy=False)
    array += 1
    assert array[-1] == 500


def test_a_loan_of_a_dead_process_was_never_sent():
    q = muster.Queue(nbytes=1100, producers=1)
    for _ in range(3):
        here, there = FORK.Pipe()
        p = FORK.Process(target=programs.die_in_loan, args=(q, there))
        p.start()
        assert here.recv()
        p.join()
    q.put(bytes(1000))  # its lane and bytes are free
    assert q.get() == bytes(1000)
    assert q.empty()


def test_kills_at_random_moments(tmp_path, request):
    """Producers and consumers, each with a ledger, are killed and replaced. Afterwards every object that was noted by
    its producer is noted by one consumer, except one for each consumer killed between get() and its note."""
    chance = random.Random(1)
    q = muster.Queue(64, nbytes=100_000, producers=3, ports=12)
    put, got, stalls = [], [], []
    makers, takers = {}, {}

    def start(role):
        number = len(put) if role is makers else len(got)
        path = str(tmp_path / f"{'put' if role is makers else 'got'}-{number}")
        open(path, "w").close()
        (put if role is makers else got).append(path)
        if role is makers:
            p = FORK.Process(target=programs.produce_until_killed, args=(q, path, 10_000_000 * number + 3, "x" * 300))
        else:
            p = FORK.Process(target=programs.consume_until_killed, args=(q, path))
        p.start()
        role[p] = path

    request.addfinalizer(lambda: [p.kill() for p in [*makers, *takers]])
    for _ in range(2):
        start(makers), start(takers)
    for kill in range(KILLS):
        time.sleep(chance.uniform(0.002, 0.02))
        role = chance.choice([makers, takers])
        victim = chance.choice(list(role))
        victim.kill()
        victim.join()
        del role[victim]
        start(role)
        if kill % 10 == 9:  # the survivors continue
            sizes = {path: os.path.getsize(path) for path in got}
            began = time.monotonic()
            while all(os.path.getsize(path) == size for path, size in sizes.items()):
                assert time.monotonic() - began < 30, "no consumer gets anything"
                time.sleep(0.001)
            stalls.append(time.monotonic() - began)
    for p in makers:
        p.kill()
        p.join()
    q.close()
    for p in takers:
        p.join(60)
        assert p.exitcode == 0
    rest = q.recover()

    def numbers(paths):
        return [int(line) for path in paths for line in open(path)]

    noted, received = numbers(put), numbers(got) + [programs.number_in(obj) for obj in rest]
    twice = [n for n, times in Counter(received).items() if times > 1]
    assert not twice
    # A producer that died between put() and its note sent one object that it has not noted.
    unnoted = set(received) - set(noted)
    assert len(unnoted) <= len(put)
    by_producer = Counter(n // 10_000_000 for n in noted)
    for n in unnoted:
        assert n == 10_000_000 * (n // 10_000_000) + 3 + by_producer[n // 10_000_000]
    lost = set(noted) - set(received)
    assert len(lost) <= len(got), f"{len(lost)} objects are lost, with {len(got)} consumers"
    for path in got:  # each consumer sees each producer in order, but for the objects that it recovered
        last, late = {}, 0
        for n in numbers([path]):
            maker = n // 10_000_000
            late += n < last.get(maker, 0)
            last[maker] = max(n, last.get(maker, 0))
        assert late <= KILLS
    print(f"{KILLS} kills: {len(noted)} objects put, {len(lost)} lost in dead hands, "
          f"longest wait {max(stalls, default=0):.3f} s")


def test_ports_of_the_dead_are_used_again():
    q = muster.Queue(producers=1, ports=3)  # of this process two, and one more
    q.put(0)
    q.get()
    for n in range(8):
        here, there = FORK.Pipe()
        q.put(numpy.full(10_000, n))
        p = FORK.Process(target=programs.die_with_array, args=(q, there, n % 4 != 0))
        p.start()
        assert here.recv() == n
        p.kill()
        p.join()
        if n % 4 == 0:  # was in its hands
            assert (q.get(timeout=10) == n).all()
    with pytest.raises(muster.Empty):
        q.get_nowait()


def test_a_killed_holder_stops_no_other_process():
    """Each of the two sides is stopped by SIGSTOP and then killed at a random moment."""
    chance = random.Random(2)
    q = muster.Queue(16)
    for _ in range(10):
        p = FORK.Process(target=programs.put_numbers, args=(q, 0, 10**9))
        p.start()
        for _ in range(chance.randrange(1, 200)):
            q.get(timeout=30)
        os.kill(p.pid, signal.SIGSTOP)
        while True:
            try:
                q.get(timeout=0.2)
            except muster.Empty:
                break
        q.put("mine")
        assert q.get(timeout=30) == "mine"
        p.kill()
        p.join()
    while not q.empty():
        q.get(timeout=1)
