#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""muster.Queue beside the other queues between Python processes, in one run.

    python python/bench/rivals.py [--profile smoke|quick|full] [--only NAME...] [--json FILE]

Needs muster; takes part if installed: faster-fifo, pyzmq. Every run checks what arrives. The file has the form of
muster-bench's (bench/schema), so report/make.py draws it. Rounds are interleaved at random.

    python/stream       objects of Python's own types, and others, to one consumer and to four
    python/arrays       NumPy arrays to one consumer
    python/round-trip   an object there and back: median and 99th percentile
    python/kills        a consumer, or a producer, is killed while it uses the queue: in how many rounds a consumer
                        started afterwards gets an object within a second
"""

import argparse
import ctypes
import datetime
import importlib.metadata
import json
import multiprocessing
import os
import pathlib
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

try:
    import muster
    import numpy
except ImportError:  # enough for --list
    muster = numpy = None

FORK = multiprocessing.get_context("fork")
# An interrupted run leaves no process behind: PR_SET_PDEATHSIG.
os.register_at_fork(after_in_child=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
ROOM = 8 << 20  # bytes, where a queue lets us choose
PATIENCE = 60  # seconds, after which a run has failed


class zmq_queue:
    """PUSH and PULL sockets over a Unix socket. One consumer binds; sockets are made by the process that uses them."""

    def __init__(self):
        self.address = "ipc://" + tempfile.mktemp(prefix="muster-bench-")
        self.pid, self.ends = 0, {}

    def _end(self, kind):
        import zmq

        if self.pid != os.getpid():
            self.pid, self.ends, self.context = os.getpid(), {}, zmq.Context()
        if kind not in self.ends:
            socket = self.ends[kind] = self.context.socket(getattr(zmq, kind))
            socket.setsockopt(zmq.SNDHWM, 4096)
            socket.setsockopt(zmq.RCVHWM, 4096)
            (socket.bind if kind == "PULL" else socket.connect)(self.address)
        return self.ends[kind]

    def put(self, obj):
        self._end("PUSH").send_pyobj(obj, protocol=5)

    def get(self):
        return self._end("PULL").recv_pyobj()

    def finish(self):
        self._end("PUSH").close()
        self.context.term()  # waits until all has been sent


def contenders():
    """name: (role, a function that makes a queue, kinds of experiment that it cannot take part in)"""
    manager = []

    def managed():
        if not manager:
            manager.append(multiprocessing.Manager())
        return manager[0].Queue(4096)

    found = {
        "muster.Queue": ("ours", lambda: muster.Queue(nbytes=ROOM, producers=4), ()),
        "muster.Queue, in place": ("ours", lambda: muster.Queue(nbytes=ROOM, producers=4),
                                   ("stream", "round-trip", "kills")),
        "copied twice in memory": ("limit", None, ("stream", "round-trip", "kills")),
        "multiprocessing.Queue": ("peer", lambda: FORK.Queue(4096), ()),
        "multiprocessing.SimpleQueue": ("peer", FORK.SimpleQueue, ()),
        "Manager().Queue": ("peer", managed, ()),
    }
    missing = [{"name": "iceoryx2", "reason": "publishes to all subscribers, and is no queue of objects"}]
    try:
        import faster_fifo

        found["faster-fifo"] = ("peer", lambda: faster_fifo.Queue(ROOM), ())
    except ImportError:
        missing.append({"name": "faster-fifo", "reason": "not installed (pip install faster-fifo)"})
    try:
        import zmq  # noqa: F401 - whether it is there

        found["pyzmq"] = ("peer", zmq_queue, ("kills",))
    except ImportError:
        missing.append({"name": "pyzmq", "reason": "not installed (pip install pyzmq)"})
    return found, missing


def processes(*works):
    """Runs each work in a process of its own; the seconds from the first begin to the last end, without what it takes
    to start and end processes: milliseconds."""
    ready, go = FORK.Semaphore(0), FORK.Event()
    begins, ends = (FORK.Array("d", len(works), lock=False) for _ in range(2))

    def one(me):
        ready.release()
        go.wait()
        begins[me] = time.perf_counter()  # the same clock in all processes
        works[me]()
        ends[me] = time.perf_counter()

    started = [FORK.Process(target=one, args=(me,)) for me in range(len(works))]
    for p in started:
        p.start()
    until = time.monotonic() + PATIENCE
    if all(ready.acquire(timeout=max(0, until - time.monotonic())) for _ in started):
        go.set()
    for p in started:
        p.join(max(0, until - time.monotonic()))
    hung = [p for p in started if p.is_alive()]
    for p in hung:
        p.kill()
        p.join()
    if hung:
        raise RuntimeError(f"{len(hung)} of {len(started)} processes have not ended after {PATIENCE} s")
    if any(p.exitcode != 0 for p in started):
        raise RuntimeError("a process has failed")
    return max(ends) - min(begins)


END = "end"


def finish(q):
    if hasattr(q, "finish"):
        q.finish()


def stream(make, obj, count, consumers):
    """Seconds for each object."""
    q = make()
    numbers = FORK.Array("q", 2 * consumers)

    def produce():
        for i in range(count):
            q.put((i, obj))
        for _ in range(consumers):
            q.put(END)
        finish(q)

    def consume(me):
        total = got = 0
        while (pair := q.get()) != END:
            total += pair[0]
            got += 1
        numbers[2 * me], numbers[2 * me + 1] = total, got

    seconds = processes(produce, *(lambda me=me: consume(me) for me in range(consumers)))
    if sum(numbers[::2]) != count * (count - 1) // 2 or sum(numbers[1::2]) != count:
        raise RuntimeError("objects are lost, or come twice")
    return seconds / count


def copied_twice(array, count):
    there, back = numpy.empty_like(array), numpy.empty_like(array)
    began = time.perf_counter()
    for _ in range(count):
        numpy.copyto(there, array)
        numpy.copyto(back, there)
    return (time.perf_counter() - began) / count


def arrays(make, size, count, how=None):
    array = numpy.arange(size, dtype=numpy.uint8)
    if make is None:
        return copied_twice(array, count)
    q = make()
    get = (lambda: q.get(copy=False)) if how == "in place" else q.get

    def produce():
        for _ in range(count):
            q.put(array)
        finish(q)

    def consume():
        for _ in range(count):
            got = get()
            if got.shape != (size,) or got[0] != 0 or got[-1] != array[-1]:
                raise RuntimeError("another array")

    return processes(produce, consume) / count


def round_trips(make, count):
    """The seconds of each."""
    there, back = make(), make()
    times = FORK.Array("d", count)

    def ask():
        for i in range(-count // 10, count):
            began = time.perf_counter()
            there.put(i)
            if back.get() != i:
                raise RuntimeError("another answer")
            if i >= 0:
                times[i] = time.perf_counter() - began
        finish(there)

    def answer():
        for _ in range(-count // 10, count):
            back.put(there.get())
        finish(back)

    processes(ask, answer)
    return sorted(times)


def survives(make, role, chance):
    """True if, after a kill, a new producer's object reaches a new consumer within a second, or one that was there."""
    q = make()
    blob = (1, "x" * 2000)

    def produce():
        while True:
            q.put(blob)

    def consume():
        while True:
            q.get()

    maker, taker = FORK.Process(target=produce), FORK.Process(target=consume)
    maker.start(), taker.start()
    time.sleep(chance.uniform(0.02, 0.05))
    victim = maker if role == "producer" else taker
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    got = FORK.Value("i", 0, lock=False)  # a process may be killed where it would hold the lock

    def check():
        for _ in range(100):
            q.get()
            got.value += 1

    def feed():
        while True:
            q.put(blob)

    others = [FORK.Process(target=check), FORK.Process(target=feed)]
    for p in others:
        p.start()
    until = time.monotonic() + 1
    while got.value < 1 and time.monotonic() < until:
        time.sleep(0.002)
    for p in [maker, taker, *others]:
        p.kill()
        p.join()
    return got.value >= 1


def plan(profile):
    """experiment, axes, and for each contender and x: a function that returns a sample."""
    scale = {"smoke": 0.01, "quick": 0.2, "full": 1.0}[profile]
    many = max(int(100_000 * scale), 200)
    objects = {"int": 7, "tuple": ("abc", 2.5), "dict": {"id": 5, "name": "x", "v": 1.5}, "nested": [[1], {"a": [2]}]}

    def per_second(seconds):
        return 1e-3 / seconds

    def streams(name, make):
        slow = 10 if name.startswith(("Manager", "multiprocessing", "faster", "pyzmq")) else 1
        for kind, obj in objects.items():
            yield f"{kind}, 1→1", lambda obj=obj: per_second(stream(make, obj, max(many // slow, 200), 1))
        if name != "pyzmq":
            yield "dict, 1→4", lambda: per_second(stream(make, objects["dict"], max(many // slow, 200), 4))

    def array_points(name, make):
        how = "in place" if "in place" in name else None
        for size in (1 << 12, 1 << 16, 1 << 20):
            count = max(int(scale * min(20_000, (1 << 29) // size)), 20)
            yield size, lambda size=size, count=count: 1e6 * arrays(make, size, count, how)

    def trips(name, make):
        count = max(int(5000 * scale), 50)
        times = []

        def part(of):
            if of == 0.5 or not times:
                times[:] = round_trips(make, count)
            return 1e6 * times[int(of * len(times))]

        yield "median", lambda: part(0.5)
        yield "99 %", lambda: part(0.99)

    def kills(name, make):
        chance, rounds = random.Random(3), max(int(20 * scale), 2)
        for role in ("consumer", "producer"):
            yield f"{role} killed", lambda role=role: 100 * sum(survives(make, role, chance)
                                                               for _ in range(rounds)) / rounds

    return [
        ("python/stream", "Objects between Python processes", {"name": "objects", "scale": "category"},
         {"name": "throughput", "unit": "k/s", "better": "higher"}, streams, "stream"),
        ("python/arrays", "NumPy arrays between Python processes", {"name": "array", "unit": "bytes", "scale": "log2"},
         {"name": "time per array", "unit": "µs", "scale": "log2", "better": "lower"}, array_points, "arrays"),
        ("python/round-trip", "An object there and back", {"name": "of all", "scale": "category"},
         {"name": "time", "unit": "µs", "better": "lower"}, trips, "round-trip"),
        ("python/kills", "Others get objects within a second", {"name": "rounds", "scale": "category"},
         {"name": "rounds", "unit": "%", "better": "higher"}, kills, "kills"),
    ]


def first_match(path, expression, otherwise):
    try:
        found = re.search(expression, pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else otherwise


def machine():
    """As muster-bench describes it."""
    usable = len(os.sched_getaffinity(0))
    kibibytes = int(first_match("/proc/meminfo", r"^MemTotal:\s+(\d+)", "0"))
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*: (.*)", platform.machine()),
        "cores": usable, "threads": os.cpu_count(), "usable_threads": usable, "memory": f"{kibibytes / 2**20:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "virtual": " hypervisor " in first_match("/proc/cpuinfo", r"^flags\s*:(.*)", "") + " ",
    }


def commit():
    """Of the folder that this file is in; it must be the one that muster was installed from."""
    here = pathlib.Path(__file__).resolve().parent
    git = ["git", "-C", str(here)]
    try:
        found = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip() + ("-changed" if changes.stdout else "")


def versions(*packages):
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", choices=("smoke", "quick", "full"), default="quick")
    parser.add_argument("--only", nargs="*", help="experiments")
    parser.add_argument("--list", action="store_true", help="name the experiments, and measure nothing")
    parser.add_argument("--json", help="the file of the results")
    options = parser.parse_args()
    experiments = plan(options.profile)
    if options.list:
        for experiment, title, *_ in experiments:
            print(f"  {experiment:20}  {title}")
        return 0
    if muster is None:
        parser.error("muster and NumPy are needed: pip install './python[arrays]'")
    for name in options.only or ():
        if name not in [e[0] for e in experiments]:
            parser.error(f"there is no experiment {name}; --list names them")
    samples = {"smoke": 1, "quick": 3, "full": 10}[options.profile]
    load_before = os.getloadavg()[0]
    found, missing = contenders()
    results, failed = [], False
    for experiment, title, x, y, points, kind in experiments:
        if options.only and experiment not in options.only:
            continue
        series, runs = [], []
        for name, (role, make, out) in found.items():
            if kind in out:
                continue
            one = {"name": name, "role": role, "points": []}
            series.append(one)
            for where, sample in points(name, make):
                one["points"].append({"x": where, "samples": [], "checked": True})
                runs.append((name, one["points"][-1], sample))
        for _ in range(1 if kind == "kills" else samples):
            if kind != "round-trip":
                random.shuffle(runs)
            for name, point, sample in runs:
                try:
                    point["samples"].append(round(sample(), 3))
                except Exception as error:  # a rival's failure is a result
                    point["checked"] = False
                    failed = failed or name.startswith("muster")
                    print(f"{experiment}: {name} at {point['x']}: {error}", file=sys.stderr)
        results.append({"experiment": experiment, "part": "python", "title": title, "x": x, "y": y, "series": series})
        print(f"{experiment}: {title}, {y['name']} in {y['unit']}")
        places = [p["x"] for p in series[0]["points"]]
        print(f"  {'':28}" + "".join(f"{place:>18}" for place in places))
        for one in series:
            by_place = {p["x"]: sorted(p["samples"]) for p in one["points"]}
            print(f"  {one['name']:28}" + "".join(
                f"{by_place[p][len(by_place[p]) // 2]:>18,.1f}" if by_place.get(p) else f"{'-':>18}" for p in places))
        sys.stdout.flush()  # or processes print it again when they end
    if options.json:
        text = json.dumps({
            "schema": 2, "complete": True, "profile": options.profile,
            "units": len(os.sched_getaffinity(0)), "missing": missing, "machine": machine(),
            "build": {"commit": commit(), "compiler": f"Python {platform.python_version()}",
                      "peers": versions("faster-fifo", "pyzmq", "numpy")},
            "command": " ".join(["python", *sys.argv]), "load_before": load_before, "samples": samples,
            "results": results,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }, indent=1)
        # Samples on one line, as muster-bench writes them.
        text = re.sub(r"\[[-\d.e,\s]+\]", lambda found: re.sub(r"\s+", " ", found[0]), text)
        pathlib.Path(options.json).write_text(text + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
