# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Objects, waiting, threads, processes and names."""

import fcntl
import gc
import math
import multiprocessing
import multiprocessing.reduction
import os
import pickle
import queue as standard
import signal
import socket
import subprocess
import sys
import threading
import time

import muster
import numpy
import programs
import pytest

SHARED_LIST = [1, 2]
OBJECTS = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, 10**40, 1.5, math.inf, "", "text", "ü€😀", "\ud800", b"",
    b"\0" * 100, "x" * 70_000, b"y" * 70_000, (), (1, "a", 2.5, None), ((1, (2, (3,))), b"z"), (((((((1,),),),),),),),
    [], [1, 2.5, "three"], {"id": 5, "name": "x", 7: None}, [[1], [2, [3]]], {"a": [1, 2], "b": {"c": ()}}, {1, 2, 3},
    frozenset("ab"), range(5), programs.Point(1, [2]), ValueError("text"), bytearray(b"abc"), 3 + 4j, list(range(300)),
    {i: str(i) for i in range(200)},
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda o: repr(o)[:20])
def test_objects_come_out_as_they_were_put(obj):
    q = muster.Queue()
    q.put(obj)
    got = q.get()
    assert type(got) is type(obj)
    if isinstance(obj, ValueError):
        assert got.args == obj.args
    else:
        assert got == obj


def test_identity_within_an_object_is_that_of_pickle():
    q = muster.Queue()
    q.put([SHARED_LIST, SHARED_LIST])
    first, second = q.get()
    assert first is second


def test_a_list_or_dict_that_occurs_twice_stays_one():
    q = muster.Queue()
    inner, table = [1], {"a": 2}
    q.put((inner, (inner,), table, {"again": table}))
    first, (second,), third, outer = q.get()
    assert first is second and third is outer["again"]
    around = [1, {}]
    around[1]["self"] = around
    q.put(around)
    got = q.get()
    assert got[1]["self"] is got
    for obj in ([[i] for i in range(15)], [[i] for i in range(16)], [[[[[5]]]]], [{"x": [{"y": ({},)}]}]):
        q.put(obj)
        assert q.get() == obj


def test_keys_of_dicts_are_not_confused():
    q = muster.Queue()
    names = ["", "a", "b", "ab", "ba", "ü", "x" * 15, "x" * 16, "\0", "a\0", "😀", *(f"key{i}" for i in range(400))]
    for _ in range(3):
        for name in names:
            q.put({name: 1, 7: 2, ("t",): 3})
            assert q.get() == {name: 1, 7: 2, ("t",): 3}


def test_subclasses_stay_subclasses():
    q = muster.Queue()
    for obj in (numpy.float64(1.5), multiprocessing.ProcessError("x"), signal.SIGINT, (signal.SIGINT,)):
        q.put(obj)
        got = q.get()
        assert type(got) is type(obj)
        if isinstance(obj, tuple):
            assert type(got[0]) is type(obj[0])


def test_order_sizes_and_capacity():
    q = muster.Queue(3)
    assert q.capacity == 3 and q.empty() and not q.full()
    for i in range(3):
        q.put_nowait(i)
    assert q.qsize() == 3 and q.full()
    with pytest.raises(standard.Full):
        q.put_nowait(3)
    with pytest.raises(muster.Full):
        q.put(3, timeout=0.01)
    assert [q.get() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(standard.Empty):
        q.get_nowait()
    began = time.monotonic()
    with pytest.raises(muster.Empty):
        q.get(timeout=0.05)
    assert time.monotonic() - began >= 0.05
    with pytest.raises(muster.Empty):
        q.get(True, 0)
    with pytest.raises(muster.Empty):
        q.get(False)


def test_wrong_arguments():
    q = muster.Queue()
    for call in (lambda: q.put(), lambda: q.put(1, 2, 3, 4), lambda: q.put(obj=1, wrong=2), lambda: q.put(1, obj=2),
                 lambda: q.get(True, None, True, 1), lambda: q.get(timeout="soon")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="non-negative"):
        q.get(timeout=-1)
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        muster.Queue(0)
    with pytest.raises(ValueError, match="lanes"):
        muster.Queue(producers=0)
    with pytest.raises(ValueError, match="slash"):
        muster.Queue(name="a/b")
    with pytest.raises(ValueError, match="create it with more bytes"):
        muster.Queue(nbytes=1000).put("x" * 2000)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        q.put(lambda: 1)
    assert q.empty()
    q.put(bytes(q.longest))


def test_names_of_multiprocessing():
    assert muster.Queue(maxsize=3).capacity == 3
    assert muster.Queue(maxsize=0).capacity == 4096
    q: muster.Queue[int] = muster.Queue[int](5)
    assert q.capacity == 5


def test_close_drains_and_ends_iteration():
    q = muster.Queue()
    q.put_many(range(5))
    assert not q.closed
    q.close()
    q.close()
    assert q.closed
    with pytest.raises(muster.ShutDown):
        q.put(5)
    with pytest.raises(muster.ShutDown):
        q.loan(10).__enter__()
    assert list(q) == [0, 1, 2, 3, 4]
    with pytest.raises(muster.ShutDown):
        q.get()
    with pytest.raises(muster.ShutDown):
        q.get_nowait()


def test_many_at_once():
    q = muster.Queue(10)
    assert q.put_many(range(20), block=False) == 10
    assert q.get_many(4) == [0, 1, 2, 3]
    assert q.get_many(100) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(muster.Empty):
        q.get_many(1, block=False)


def test_loans_are_sent_at_the_end_of_their_block():
    q = muster.Queue()
    with q.loan(5) as view:
        view[:] = b"hello"
        assert q.empty()
    assert q.get() == b"hello"
    with pytest.raises(KeyError):
        with q.loan(5) as view:
            raise KeyError
    assert q.empty()
    loan = q.loan(3)
    with loan as view:
        numpy.frombuffer(view, numpy.uint8)[:] = 7
    assert bytes(q.get(copy=False)) == b"\7\7\7"
    with pytest.raises(ValueError, match="once"):
        loan.__enter__()
    with pytest.raises(TypeError):  # only the view of its block is memory
        memoryview(q.loan(3))


def test_a_loan_is_writable_only_in_its_block():
    q = muster.Queue()
    with q.loan(5) as view:
        view[:] = b"hello"
    with pytest.raises(ValueError):
        view[0] = 1
    assert q.get() == b"hello"
    for size in (2**64 - 1, 2**63, q.longest + 1):
        with pytest.raises(ValueError):
            q.loan(size).__enter__()
    q.put("there is room")
    assert q.get() == "there is room"


def test_a_loan_that_is_dropped_sends_nothing_and_stops_no_put():
    q = muster.Queue()
    loan = q.loan(5)
    view = loan.__enter__()
    del loan
    view[:] = b"hello"  # no other message has this memory
    with pytest.raises(RuntimeError, match="would wait for itself"):
        q.put(1)
    del view
    q.put(2, timeout=10)
    assert q.get_many(5) == [2]

    ring = muster.ArrayQueue("i8", 4)
    array_over = ring._array_over
    ring._array_over = interrupted
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            with ring.loan():
                pass
    ring._array_over = array_over
    with ring.loan() as array:
        array[:] = 5
    assert (ring.get() == 5).all()
    with pytest.raises(KeyboardInterrupt):
        with ring.loan() as array:
            interrupted()
    with pytest.raises(ValueError):
        array[0] = 1
    ring.put(numpy.arange(4), timeout=10)
    assert (ring.get() == numpy.arange(4)).all()


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_thread_does_not_wait_for_itself():
    q = muster.Queue(1)
    with q.loan(3):
        for options in ({}, {"timeout": 60}):
            with pytest.raises(RuntimeError, match="would wait for itself"):
                q.put(1, **options)
        with pytest.raises(muster.Full):
            q.put_nowait(1)
    assert q.get(False) == bytes(3)
    q.put(0)
    old = signal.signal(signal.SIGUSR1, lambda *_: q.put("from the handler"))
    try:
        threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)).start()
        with pytest.raises(RuntimeError, match="would wait for itself"):
            q.put("from the block")
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert q.get_many(5) == [0]


def test_a_put_that_does_not_block_waits_for_a_copy_only():
    q = muster.Queue(nbytes=1 << 27)
    done = threading.Event()

    def put_large():
        for _ in range(8):
            q.put(bytes(20 << 20))
            q.get()
        done.set()

    thread = threading.Thread(target=put_large)
    thread.start()
    while not done.is_set():
        q.put_nowait(1)  # the queue is almost empty all the time
        q.get()
    thread.join()

    in_loan, go_on = threading.Event(), threading.Event()

    def lend():
        with q.loan(5):
            in_loan.set()
            go_on.wait(60)

    thread = threading.Thread(target=lend)
    thread.start()
    in_loan.wait()
    with pytest.raises(muster.Full):  # as long as the block lasts
        q.put_nowait(1)
    go_on.set()
    thread.join()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("copy", [True, False])
def test_an_object_stays_when_its_get_is_interrupted(error, copy):
    q = muster.Queue()
    q.put_many([[programs.Fails("first"), numpy.arange(1000)], "second"])
    for _ in range(3):
        programs.Fails.errors.append(error())
        with pytest.raises(error):
            q.get(copy=copy)
    gc.collect()
    assert q.get(copy=copy)[0] == "first"
    assert q.get() == "second"
    q.put_many([1, programs.Fails(2), 3])
    programs.Fails.errors.append(error())
    if error is MemoryError:
        assert q.get_many(5) == [1]
    else:
        with pytest.raises(error):
            q.get_many(5)
    assert q.get_many(5) == [2, 3]


@pytest.mark.parametrize("copy", [True, False])
def test_an_array_stays_when_its_get_is_interrupted(copy):
    ring = muster.ArrayQueue("i8", 5)
    for i in range(2):
        ring.put(numpy.full(5, i))
    kept = []

    def interrupt(memory):
        kept.append(numpy.frombuffer(memory, "i8"))
        raise KeyboardInterrupt

    ring._array_over = interrupt
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            ring.get(copy=copy)
    del ring._array_over
    assert [ring.get(copy=copy)[4] for _ in range(2)] == [0, 1]
    assert (kept[0] == 0).all()
    with pytest.raises(muster.Empty):
        ring.get_nowait()


def test_an_object_that_cannot_be_unpickled_is_dropped_by_its_get():
    q = muster.Queue()
    q.put_many([1, 2, programs.Fails(3), 4])
    programs.Fails.errors += [ValueError("number 3"), ValueError("number 3")]
    assert q.get_many(5) == [1, 2]
    with pytest.raises(ValueError, match="number 3"):
        q.get_many(5)
    assert q.get_many(5) == [4]


def test_what_a_queue_object_was_interrupted_with_is_recovered():
    q = muster.Queue()
    other = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(q))
    q.put(programs.Fails("first"))
    programs.Fails.errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        other.get()
    assert q.recover() == []
    del other
    gc.collect()
    assert q.get(timeout=10) == "first"


def test_objects_of_multiprocessing_can_be_put():
    q = muster.Queue()
    here, there = multiprocessing.Pipe()
    q.put({"end": [there]})
    copy = q.get()["end"][0]
    assert copy.fileno() != there.fileno()
    copy.send("through the pipe")
    assert here.recv() == "through the pipe"
    one, two = socket.socketpair()
    q.put(one)
    q.get().send(b"abc")
    assert two.recv(10) == b"abc"
    multiprocessing.reduction.ForkingPickler.register(Registered, lambda _: (Registered.made, ("registered",)))
    q.put([Registered("plain")])
    assert q.get()[0].value == "registered"


class Registered:
    def __init__(self, value):
        self.value = value

    @classmethod
    def made(cls, value):
        return cls(value)


def test_objects_that_put_while_they_are_pickled():
    q = muster.Queue()
    q.put([Putting(q, 3)])
    assert [q.get() for _ in range(3)] == [[["pickled"]], [["pickled"]], [["pickled"]]]


class Putting:
    def __init__(self, queue, depth):
        self.queue, self.depth = queue, depth

    def __reduce__(self):
        if self.depth > 1:
            self.queue.put([Putting(self.queue, self.depth - 1)])
        return list, (("pickled",),)


def test_arrays_are_copied_once_each_way():
    q = muster.Queue(nbytes=1 << 22)
    for array in (numpy.arange(100_000.0), numpy.asfortranarray(numpy.arange(12).reshape(3, 4)), numpy.arange(20)[::3],
                  numpy.array([]), numpy.array(["a", "bc"]), numpy.array([{"x": 1}], object)):
        q.put({"array": array, "name": "n"})
        got = q.get()["array"]
        assert (got == array).all() and got.dtype == array.dtype and got.shape == array.shape
        assert got.flags.writeable
    q.put([numpy.arange(1000), numpy.ones(5, "i1"), numpy.arange(7)])
    a, b, c = q.get()
    assert a.sum() == 499500 and b.sum() == 5 and c.sum() == 21
    assert a.ctypes.data != b.ctypes.data


def test_arrays_in_place_keep_their_bytes_until_they_end():
    q = muster.Queue(8, nbytes=40_000)
    q.put(numpy.full(1000, 1))
    held = q.get(copy=False)
    part = held[10:20]
    assert held.ctypes.data % 64 == 0
    for i in range(50):
        q.put(numpy.full(1000, i))
        assert (q.get() == i).all()
    del held
    gc.collect()
    assert (part == 1).all()
    q.put(numpy.full(1000, 3))
    assert (q.get(copy=False) == 3).all()
    del part
    for i in range(5):  # all bytes are free again
        q.put(bytes(40_000))
        assert len(q.get()) == 40_000
    q.put((1, "x"))
    assert q.get(copy=False) == (1, "x")


def test_no_put_waits_for_an_array_that_is_held():
    p = multiprocessing.get_context("fork").Process(target=put_while_holding)
    p.start()
    p.join(30)
    p.kill()
    p.join()
    assert p.exitcode == 0


def put_while_holding():
    q = muster.Queue(2, producers=1, ports=2)
    q.put(numpy.arange(1000))
    held = q.get(copy=False)
    q.put(0)
    full = 0
    for i in range(1, 100):  # the cell of the array is needed again after some laps
        try:
            q.put_nowait(i)
        except muster.Full:
            full += 1
            assert q.get() == i - 1
            q.put_nowait(i)
        else:
            assert q.get() == i - 1
    assert full != 0 and held[-1] == 999


def test_a_queue_may_end_before_what_it_has_given():
    q = muster.Queue()
    q.put(numpy.arange(5000))
    array = q.get(copy=False)
    del q
    gc.collect()
    assert array.sum() == 4999 * 2500


def test_a_queue_that_refers_to_its_own_array_ends():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        q = muster.Queue(4, nbytes=40_000, producers=1)
        q.put(numpy.arange(1000))
        q.last = q.get(copy=False)
        q.me = q
        del q
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_objects_that_were_not_made_are_refused():
    class Early(muster.Queue):
        def __init__(self):
            with pytest.raises(RuntimeError, match="__init__"):
                self.put(1)
            super().__init__(4)

    assert Early().capacity == 4

    class Failed(muster.Queue):
        def __init__(self):
            with pytest.raises(ValueError):
                super().__init__(0)

    for q in (Failed(), muster.Queue.__new__(muster.Queue)):
        for call in (lambda: q.put(1), lambda: q.get(False), lambda: next(q), lambda: q.get_many(2)):
            with pytest.raises(RuntimeError, match="__init__ has not been called"):
                call()
    for other in (muster._muster.Message, muster._muster.Lent):
        with pytest.raises(RuntimeError):
            memoryview(other.__new__(other))


def test_threads_share_a_queue():
    q = muster.Queue(16)
    got = []

    def take():
        got.extend(q)

    takers = [threading.Thread(target=take) for _ in range(3)]
    makers = [threading.Thread(target=programs.put_numbers, args=(q, 1000 * n, 500)) for n in range(3)]
    for t in takers + makers:
        t.start()
    for t in makers:
        t.join()
    q.close()
    for t in takers:
        t.join()
    assert sorted(got) == [(1000 * n, 1000 * n + i) for n in range(3) for i in range(500)]


def test_a_waiting_get_leaves_the_others_their_ports():
    q = muster.Queue()
    answer = []
    waiting = threading.Thread(target=lambda: answer.append(q.get(timeout=10)))
    waiting.start()
    time.sleep(0.05)
    with pytest.raises(muster.Empty):
        q.get_nowait()
    q.put("x")
    waiting.join()
    assert answer == ["x"]


def test_all_consumer_ports_in_use():
    q = muster.Queue(producers=1, ports=2)
    threads = [threading.Thread(target=q.get) for _ in range(2)]
    q.put(0)
    q.get()
    for t in threads:
        t.start()
    time.sleep(0.05)
    with pytest.raises(muster.Empty):
        q.get_nowait()
    q.put_many([1, 2])
    for t in threads:
        t.join(10)


@pytest.mark.parametrize("queues", [1, 3])
def test_processes_of_every_kind(context, queues):
    q, answers = muster.Queue(64), muster.Queue(64)
    makers = [context.Process(target=programs.put_numbers, args=(q, 1000 * n, 300)) for n in range(queues)]
    echo = context.Process(target=programs.echo, args=(q, answers))
    for p in [*makers, echo]:
        p.start()
    got = []
    taker = threading.Thread(target=lambda: got.extend(answers))
    taker.start()
    for p in makers:
        p.join()
    q.close()
    echo.join()
    taker.join()
    assert sorted(got) == [(1000 * n, 1000 * n + i) for n in range(queues) for i in range(300)]
    for n in range(queues):  # each in order
        own = [i for first, i in got if first == 1000 * n]
        assert own == sorted(own)
    assert all(p.exitcode == 0 for p in [*makers, echo])


def test_arrays_between_processes(context):
    q = muster.Queue(64, nbytes=1 << 20)
    p = context.Process(target=programs.put_arrays, args=(q, 40))
    p.start()
    for i in range(40):
        got = q.get(copy=bool(i % 2))
        assert got["i"] == i and len(got["a"]) == 10_000 + i and (got["a"] == i).all()
    p.join()


def test_array_queue(context):
    ring = muster.ArrayQueue("f4", (16, 16), 4)
    p = context.Process(target=programs.fill_ring, args=(ring, 50))
    p.start()
    for i in range(50):
        array = ring.get(copy=bool(i % 2))
        assert array.shape == (16, 16) and array.dtype == numpy.float32 and (array == i).all()
        array += 1
        del array
    p.join()
    for i in range(4):
        ring.put(numpy.full((16, 16), i, "f4"))
    with pytest.raises(muster.Full):
        ring.put_nowait(numpy.zeros((16, 16), "f4"))
    with ring_closed(ring):
        assert [int(a[0, 0]) for a in ring] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="in a queue of float32"):
        ring.put(numpy.zeros((16, 16)))
    with pytest.raises(ValueError, match="Python objects"):
        muster.ArrayQueue(object, 3)
    ring = muster.ArrayQueue("i8", 5)
    with ring.loan() as array:
        array[:] = 3
    with pytest.raises(ValueError):
        array[0] = 4  # has been sent
    assert (ring.get() == 3).all()


class ring_closed:
    def __init__(self, ring):
        self.ring = ring

    def __enter__(self):
        self.ring.close()

    def __exit__(self, *error):
        assert self.ring.closed


def test_queues_travel_through_queues_and_pipes():
    outer, inner = muster.Queue(), muster.Queue()
    inner.put("inside")
    outer.put(inner)
    assert outer.get().get() == "inside"
    here, there = multiprocessing.Pipe()
    here.send(inner)
    there.recv().put("back")
    assert inner.get() == "back"


def test_a_forked_child_has_ports_of_its_own():
    q = muster.Queue(producers=2, ports=6)
    q.put(0)
    array = None
    q.put(numpy.arange(1000))
    assert q.get() == 0
    array = q.get(copy=False)
    pid = os.fork()
    if pid == 0:
        try:
            del array
            gc.collect()
            q.put("child")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    q.put("parent")
    assert sorted([q.get(), q.get()]) == ["child", "parent"]
    assert array.sum() == 499500


def test_a_child_that_was_forked_in_a_loan_sends_nothing():
    q = muster.Queue()
    here, there = os.pipe()
    with q.loan(5) as view:
        view[:] = b"hello"
        pid = os.fork()
        if pid == 0:
            os.read(here, 1)
    if pid == 0:
        q.put("child")
        os._exit(0)
    for i in range(3):
        q.put("x" * 100 + str(i))
    os.write(there, b"g")
    assert os.waitpid(pid, 0)[1] == 0
    for i in range(3):
        q.put("y" * 100 + str(i))
    got = q.get_many(20)
    got.remove("child")
    assert got == [b"hello", *("x" * 100 + str(i) for i in range(3)), *("y" * 100 + str(i) for i in range(3))]


def test_a_child_that_a_signal_handler_forks_in_a_get_has_its_own_ports():
    q, answers = muster.Queue(), muster.Queue()
    children = []
    old = signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))
    try:
        main = threading.main_thread().ident
        threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1)).start()
        threading.Timer(0.4, q.put_many, ([1, 2],)).start()
        got = q.get(timeout=30)
        if children == [0]:
            answers.put(got)
            os._exit(0)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert sorted([got, answers.get(timeout=30)]) == [1, 2]
    assert os.waitpid(children[0], 0)[1] == 0
    assert q.empty() and q.recover() == []


def test_more_producers_than_lanes():
    q = muster.Queue(producers=1)
    q.put(1)
    p = multiprocessing.get_context("fork").Process(target=put_fails, args=(q,))
    p.start()
    p.join()
    assert p.exitcode == 0


def put_fails(q):
    with pytest.raises(RuntimeError, match="all lanes have a producer"):
        q.put(2)


@pytest.mark.parametrize("options", [{}, {"timeout": 30}])
def test_control_c_ends_a_wait(options):
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    q = muster.Queue()
    p = context.Process(target=programs.get_and_report, args=(q, there), kwargs=options)
    p.start()
    assert here.recv() == "ready"
    time.sleep(0.2)
    os.kill(p.pid, signal.SIGINT)
    assert here.poll(10) and here.recv() == "interrupted"
    p.join()
    q.put("later")
    assert q.get() == "later"


def test_control_c_ends_a_put():
    q = muster.Queue(1)
    q.put(0)
    main = threading.main_thread().ident
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        q.put(1)
    assert q.get() == 0
    q.put(2)
    assert q.get() == 2


def test_a_named_queue_outlives_its_maker(name):
    context = multiprocessing.get_context("spawn")
    p = context.Process(target=programs.create_and_leave, args=(name, [1, "two", programs.Point(3, 3)]))
    p.start()
    p.join()
    assert muster.names()[name] is False
    q = muster.Queue.open(name)
    assert muster.names()[name] is True
    assert repr(q) == f"<muster.Queue of 4096, name '{name}'>"
    assert [q.get(), q.get(), q.get()] == [1, "two", programs.Point(3, 3)]
    pickle.loads(pickle.dumps(q)).put(4)
    assert q.get() == 4
    with pytest.raises(FileExistsError, match="already exists"):
        muster.Queue(name=name)
    q.unlink()
    q.put(5)
    assert q.get() == 5
    with pytest.raises(FileNotFoundError):
        muster.Queue.open(name)


def test_clean_removes_what_nobody_uses(name):
    q = muster.Queue(name=name, nbytes=1000, producers=1)
    assert name not in muster.clean(name, older=0)
    del q
    gc.collect()
    assert muster.clean(name) == []  # too young
    assert muster.clean(name, older=0) == [name]
    assert name not in muster.names()


def test_a_queue_that_is_being_opened_is_in_use(name):
    muster.Queue(name=name, nbytes=1000, producers=1)
    gc.collect()

    def locked():
        """As names() and clean() lock a file for a moment."""
        file = os.open(f"/dev/shm/muster-{name}", os.O_RDONLY)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    threading.Timer(0.1, os.close, (locked(),)).start()
    q = muster.Queue.open(name)
    assert muster.names()[name] is True and muster.clean(name, older=0) == []
    del q
    gc.collect()

    def remove(file):
        os.unlink(f"/dev/shm/muster-{name}")
        os.close(file)

    threading.Timer(0.1, remove, (locked(),)).start()
    with pytest.raises(FileNotFoundError):
        muster.Queue.open(name)


def test_nothing_is_left_of_a_queue_without_a_name():
    before = len(os.listdir("/proc/self/fd"))
    names = set(os.listdir("/dev/shm"))
    for _ in range(20):
        q = muster.Queue(16, nbytes=1000, producers=1)
        q.put([1, 2])
        q.get()
        del q
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert set(os.listdir("/dev/shm")) == names


def test_no_memory_is_lost():
    q = muster.Queue(nbytes=1 << 18)

    def turn():
        for obj in OBJECTS:
            q.put(obj)
            q.get()
        q.put(numpy.arange(3000))
        q.get(copy=False)
        with pytest.raises(muster.Empty):
            q.get(False)
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            q.put(lambda: 1)
        with q.loan(4) as view:
            view[:] = b"abcd"
        q.get()

    def growth():
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(200):
            turn()
        gc.collect()
        return sys.getallocatedblocks() - before

    # The interpreter's own caches fill at first; a leak grows by a block for each turn, every time.
    assert any(growth() < 50 for _ in range(10))


def test_the_package_is_typed():
    folder = os.path.dirname(muster.__file__)
    assert os.path.exists(os.path.join(folder, "py.typed"))
    assert os.path.exists(os.path.join(folder, "__init__.pyi"))
    stubs = open(os.path.join(folder, "__init__.pyi")).read()
    for public in [*muster.__all__, *(n for n in dir(muster.Queue) if not n.startswith("_"))]:
        assert public in stubs, public


@pytest.mark.parametrize("call", ["q.get()", "[None for _ in q]", "full.put(1)", "q.get(timeout=60)"])
def test_threads_that_wait_do_not_disturb_the_end(call):
    script = f"""if True:
        import muster, threading, time
        q, full = muster.Queue(), muster.Queue(1)
        full.put(0)
        for _ in range(3):
            threading.Thread(target=lambda: {call}, daemon=True).start()
        time.sleep(0.08)
        import json, logging, decimal, email
        """
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stderr == ""


def test_a_subinterpreter_is_refused():
    all_of = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    script = f"""if True:
        import sys, muster, {all_of} as all
        one = all.create()
        try:
            error = all.run_string(one, "import sys; sys.path = " + repr(sys.path) + "; import muster")
        except all.RunFailedError as e:
            error = e
        assert "cannot be used in a subinterpreter" in str(error), error
        all.destroy(one)
        q = muster.Queue()
        q.put([[1, 2]])
        print(q.get())
        """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[[1, 2]]\n", done.stderr


def test_it_starts_in_a_bare_interpreter():
    script = "import muster; q = muster.Queue(); q.put({'a': 1}); print(q.get())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "{'a': 1}\n" and done.stderr == ""
