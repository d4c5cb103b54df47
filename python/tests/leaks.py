# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Uses every kind of operation often, for a sanitizer that looks for leaks. See `./dev check wheel`."""

import asyncio

import muster
import numpy


async def get_later(queue):
    asyncio.get_running_loop().call_later(0.0001, queue.put, 5)
    return await queue.aget()


for i in range(200):
    q = muster.Queue(capacity=16, producers=2)
    for obj in ({"a": [i]}, "x" * 100, (1, 2.5), b"bytes"):
        q.put(obj)
        assert q.get() == obj
    q.put(numpy.arange(100))
    array = q.get(copy=False)
    assert array.sum() == 4950
    del array
    with q.loan(100) as view:
        view[:3] = b"abc"
    del view
    assert bytes(q.get(copy=False)[:3]) == b"abc"
    try:
        with q.loan(10):
            raise KeyError
    except KeyError:
        pass
    assert q.put_many(range(10)) == 10
    assert q.get_many(20) == list(range(10))
    if i % 20 == 0:
        assert asyncio.run(get_later(q)) == 5
    try:
        q.put(lambda: 0)
    except Exception:
        pass
    q.close()
    assert list(q) == []
    ring = muster.ArrayQueue("f8", (3, 2), capacity=2)
    ring.put(numpy.ones((3, 2)))
    assert ring.get(copy=False).sum() == 6

print("used all")
