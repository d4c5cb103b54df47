# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Objects for the tasks of an event loop."""

import asyncio
import gc
import os
import threading
import time
import weakref

import muster
import numpy
import programs
import pytest


def test_a_task_gets_what_is_there():
    q = muster.Queue()
    q.put("first")

    async def main():
        return await q.aget()

    assert asyncio.run(main()) == "first"


def test_other_tasks_run_while_one_waits(context):
    q = muster.Queue()
    sender = context.Process(target=programs.put_late, args=(q, "late"))

    async def send_later():
        for _ in range(20):
            await asyncio.sleep(0)
        sender.start()

    async def main():
        sending = asyncio.create_task(send_later())
        got = await q.aget()
        await sending
        sender.join()
        return got

    assert asyncio.run(main()) == "late"


def test_each_object_comes_to_one_task():
    q = muster.Queue()

    async def take():
        return [obj async for obj in q]

    async def main():
        takers = [asyncio.create_task(take()) for _ in range(5)]
        for i in range(200):
            q.put(i)
            if i % 10 == 0:
                await asyncio.sleep(0)
        q.close()
        return await asyncio.gather(*takers)

    taken = asyncio.run(main())
    assert sorted(obj for each in taken for obj in each) == list(range(200))
    assert all(each == sorted(each) for each in taken)


def test_a_task_that_is_cancelled_loses_nothing():
    q = muster.Queue()

    async def main():
        for i in range(100):
            waiting = asyncio.create_task(q.aget())
            await asyncio.sleep(0)
            q.put(i)
            if i % 3 == 0:
                await asyncio.sleep(0.001)
            waiting.cancel()
            try:
                got = await waiting
            except asyncio.CancelledError:
                got = q.get_nowait()
            assert got == i

    asyncio.run(main())


def test_a_time_limit_is_that_of_the_loop():
    q = muster.Queue()

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(q.aget(), 0.01)
        q.put(1)
        return await q.aget()

    assert asyncio.run(main()) == 1


def test_loops_of_several_threads_wait_for_one_queue():
    q = muster.Queue()
    got = []

    async def main():
        got.append(await q.aget())

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(3)]
    for t in threads:
        t.start()
    for i in range(3):
        q.put(i)
    for t in threads:
        t.join()
    assert sorted(got) == [0, 1, 2]


def test_a_loop_that_is_closed_leaves_the_queue_usable():
    q = muster.Queue()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(q.aget())
    loop.run_until_complete(asyncio.sleep(0.01))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    loop.close()

    async def main():
        asyncio.get_running_loop().call_later(0.01, q.put, 7)
        return await q.aget()

    assert asyncio.run(main()) == 7


def test_the_end_of_the_queue_ends_a_loop_and_raises():
    q = muster.Queue()

    async def main():
        asyncio.get_running_loop().call_later(0.01, q.close)
        assert [obj async for obj in q] == []
        with pytest.raises(muster.ShutDown):
            await q.aget()

    asyncio.run(main())


def test_a_forked_child_has_a_thread_of_its_own():
    q = muster.Queue()

    async def wait():
        waiting = asyncio.create_task(q.aget())
        await asyncio.sleep(0.01)
        child = os.fork()
        if child == 0:
            # The parent's loop cannot be used here, so the child has one in another thread.
            t = threading.Thread(target=lambda: os._exit(asyncio.run(q.aget()) - 1))
            t.start()
            time.sleep(60)
            os._exit(9)
        q.put(1)
        q.put(1)
        assert await waiting == 1
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            await asyncio.sleep(0.01)

    asyncio.run(wait())
    assert q.empty()


def test_an_error_comes_to_the_task(monkeypatch):
    q = muster.Queue()

    def fails(self, seconds):
        raise RuntimeError("it cannot wait")

    monkeypatch.setattr(muster.Queue, "_await_object", fails)

    async def main():
        with pytest.raises(RuntimeError, match="cannot wait"):
            await q.aget()

    asyncio.run(main())


def test_the_thread_does_not_keep_the_queue():
    q = muster.Queue()

    async def main():
        asyncio.get_running_loop().call_later(0.01, q.put, 1)
        return await q.aget()

    assert asyncio.run(main()) == 1
    watch = weakref.ref(q)
    del q, main
    gc.collect()
    assert watch() is None


def test_arrays_come_too():
    q = muster.ArrayQueue("f8", 3)

    async def main():
        asyncio.get_running_loop().call_later(0.01, q.put, numpy.arange(3.0))
        got = await q.aget()
        in_place = asyncio.create_task(q.aget(copy=False))
        await asyncio.sleep(0.01)
        q.put(got + 1)
        return got.tolist(), (await in_place).tolist()

    assert asyncio.run(main()) == ([0, 1, 2], [1, 2, 3])


def test_a_dead_process_does_not_keep_its_object(context):
    q = muster.Queue()
    q.put(numpy.arange(1000))
    taker = context.Process(target=programs.get_and_die, args=(q,))
    taker.start()
    taker.join()

    async def main():
        return await q.aget()

    assert numpy.array_equal(asyncio.run(main()), numpy.arange(1000))
