# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Four processes make batches of pictures, and this one trains on them, in the queue's memory.

The "pictures" are made from their number, so the program can check that each of them comes once. One of the loaders is
killed in the middle and replaced: the batches that it had not sent are made again.
"""

import multiprocessing
import sys

import muster
import numpy

PICTURES, BATCH, SIDE, LOADERS = 2048, 32, 64, 4


def picture(number, out):
    """Stands for reading and decoding a file."""
    out[...] = numpy.arange(SIDE * SIDE, dtype=numpy.float32).reshape(SIDE, SIDE) + number


# [loader]
def load(batches, tasks):
    """In each loader: takes the number of a batch, and makes the batch in the queue's memory."""
    for first in tasks:
        with batches.loan() as batch:
            for i in range(BATCH):
                picture(first + i, batch["pixels"][i])
            batch["first"] = first
# [/loader]


def train(batch):
    """Stands for a step of training; checks the batch."""
    first = int(batch["first"])
    wanted = numpy.empty((SIDE, SIDE), numpy.float32)
    for i in (0, BATCH - 1):
        picture(first + i, wanted)
        assert (batch["pixels"][i] == wanted).all()
    return first, float(batch["pixels"].mean())


def main():
    context = multiprocessing.get_context("spawn")
    # [queues]
    kind = numpy.dtype([("first", "i8"), ("pixels", "f4", (BATCH, SIDE, SIDE))])
    batches = muster.ArrayQueue(kind, (), capacity=4, producers=LOADERS + 1)
    tasks = muster.Queue()
    tasks.put_many(range(0, PICTURES, BATCH))
    loaders = [context.Process(target=load, args=(batches, tasks), daemon=True) for _ in range(LOADERS)]
    # [/queues]
    for loader in loaders:
        loader.start()

    missing = set(range(0, PICTURES, BATCH))
    steps = 0
    while missing:
        # [train]
        try:
            batch = batches.get(timeout=2, copy=False)  # in the queue's memory, until the next one
        except muster.Empty:
            tasks.put_many(missing)  # a loader was killed: its batch is made again
            continue
        first, mean = train(batch)
        # [/train]
        missing.discard(first)
        steps += 1
        if steps == 20:
            loaders[0].kill()
            loaders[0].join()
            loaders[0] = context.Process(target=load, args=(batches, tasks), daemon=True)
            loaders[0].start()
    tasks.close()
    batch = None
    for loader in loaders:
        loader.kill()
        loader.join()
    print(f"{steps} steps on {PICTURES} pictures from {LOADERS} loaders, one of which was killed; last mean {mean:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
