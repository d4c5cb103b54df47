# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Several processes log through a named queue, and one collector writes a file.

The queue outlives them all: records of a process that has crashed, and those sent while no collector runs, are there
when the next collector starts. A record is dropped, and counted, rather than delaying a program.
"""

import logging
import logging.handlers
import multiprocessing
import os
import sys
import tempfile

import muster


# [handler]
class Handler(logging.handlers.QueueHandler):
    """Python's own QueueHandler over a queue of muster's."""

    dropped = 0

    def enqueue(self, record):
        try:
            self.queue.put_nowait(record)
        except muster.Full:
            self.dropped += 1
# [/handler]


def program(name, number):
    log = logging.getLogger("program")
    log.setLevel(logging.INFO)
    log.addHandler(Handler(muster.Queue.open(name)))
    for i in range(1000):
        log.info("%d %d", number, i)
    os.kill(os.getpid(), 9)  # it crashes, and its records stay


# [collector]
def collect(name, path):
    """Writes all records until the queue is closed."""
    with open(path, "a") as file:
        for record in muster.Queue.open(name):
            file.write(f"{record.process} {record.levelname} {record.getMessage()}\n")
# [/collector]


def main():
    context = multiprocessing.get_context("spawn")
    name = f"log-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        # [start]
        queue = muster.Queue(8192, name=name, nbytes=8 << 20, producers=4)
        # [/start]
        try:
            programs = [context.Process(target=program, args=(name, n)) for n in range(3)]
            for p in programs:
                p.start()
            for p in programs:
                p.join()
            collector = context.Process(target=collect, args=(name, path), daemon=True)
            collector.start()
            queue.close()
            collector.join()
        finally:
            queue.unlink()
        with open(path) as file:
            lines = sorted(line.split(None, 2)[2] for line in file)
    expected = sorted(f"{n} {i}\n" for n in range(3) for i in range(1000))
    print(f"{len(lines)} records of 3 programs, all of which were killed")
    return 0 if lines == expected else 1


if __name__ == "__main__":
    sys.exit(main())
