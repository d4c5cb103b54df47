# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Queues between Python processes that survive a kill.

    q = muster.Queue()                  # in place of multiprocessing.Queue()
    q.put(obj); q.get()                 # with the exceptions of queue.Queue; iteration ends when the queue is closed

A process may be killed at any moment: the others continue, and another one gets the object that it was getting.
"""

import asyncio as _asyncio
import fcntl as _fcntl
import os as _os
import threading as _threading
import time as _time
import weakref as _weakref
import types as _types
from multiprocessing import reduction as _reduction
from queue import Empty, Full

try:
    import _interpreters  # Python 3.13
except ImportError:
    try:
        import _xxsubinterpreters as _interpreters
    except ImportError:
        _interpreters = None
if _interpreters is not None and _interpreters.get_current() != _interpreters.get_main():
    # Loading it would disturb the main interpreter.
    raise ImportError("muster cannot be used in a subinterpreter; use a process")

from . import _muster
from ._muster import ShutDown

__all__ = ["ArrayQueue", "Empty", "Full", "Queue", "ShutDown", "clean", "names"]
__version__ = "0.1.0"

_FOLDER = "/dev/shm"
_PREFIX = "muster-"


def _path_of(name):
    if not name or "/" in name or "\0" in name:
        raise ValueError(f"the name {name!r} is empty or contains a slash; choose another")
    return f"{_FOLDER}/{_PREFIX}{name}"


class _Arrivals:
    """A thread that wakes the tasks of event loops when an object may have come. It takes none, so a task that is
    cancelled meanwhile loses nothing."""

    def __init__(self):
        self.process = _os.getpid()
        self._changed = _threading.Condition()
        self._waiting = []
        self._runs = False

    def next(self, queue):
        """A future that is done when an object may have come, after a second at most."""
        future = _asyncio.get_running_loop().create_future()
        with self._changed:
            if not self._runs:
                _threading.Thread(
                    target=self._run, args=(_weakref.ref(queue),), name="muster.Queue.aget", daemon=True
                ).start()
                self._runs = True
            self._waiting.append(future)
            self._changed.notify()
        return future

    def _run(self, queue):
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, timeout=1):
                    self._runs = False
                    return
            error = None
            try:
                # Not longer: a get also looks for the dead. The tasks keep the queue; if they have ended, it may end.
                if (there := queue()) is not None:
                    there._await_object(1.0)
            except Exception as e:
                error = e
            there = None
            with self._changed:
                woken, self._waiting = self._waiting, []
            for future in woken:
                try:
                    future.get_loop().call_soon_threadsafe(self._wake, future, error)
                except RuntimeError:
                    pass  # the loop has been closed

    @staticmethod
    def _wake(future, error):
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


class _Awaitable:
    """The operations of a queue for tasks of an event loop."""

    async def aget(self, copy=True):
        """As get(), but other tasks of the event loop run while it waits. A task that is cancelled loses no object."""
        while True:
            try:
                return self.get(False, None, copy)
            except Empty:
                pass
            queue = self._queue_to_await()
            arrivals = queue.__dict__.get("_arrivals")
            if arrivals is None or arrivals.process != _os.getpid():
                arrivals = queue._arrivals = _Arrivals()
            await arrivals.next(queue)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.aget()
        except ShutDown:
            raise StopAsyncIteration from None


class Queue(_Awaitable, _muster.Queue):
    """A FIFO queue of any objects that can be pickled, between processes and their threads.

    Each producer process may have ``capacity`` objects of ``nbytes`` bytes in all in the queue; beyond that, put()
    waits. Objects of one producer arrive in their order. At most ``producers`` processes can put at a time, and
    ``ports`` bounds all users: one for each process that puts, one for each thread that gets. A process counts from its
    first put until it ends or its object of this class does. ``maxsize`` is the name of ``capacity`` in
    multiprocessing; 0 means the default.

    Without a name, the queue lives as long as a process has it: pass it to multiprocessing.Process, or inherit it. With
    one, it is a file that stays until unlink(), and Queue.open(name) finds it.
    """

    __class_getitem__ = classmethod(_types.GenericAlias)

    def __init__(self, capacity=4096, *, nbytes=1 << 20, name=None, producers=16, ports=62, maxsize=None):
        if maxsize:
            capacity = maxsize
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        # One byte more for the kind of a message, so that a power of two fits.
        super().__init__("" if name is None else _path_of(name), -1, capacity, nbytes + 1, producers,
                         max(ports, producers))

    @classmethod
    def open(cls, name):
        """Opens a queue that has been created with this name."""
        return cls._of(_path_of(name), -1)

    @classmethod
    def _of(cls, path, descriptor):
        self = cls.__new__(cls)
        _muster.Queue.__init__(self, path, descriptor, 0, 0, 0, 0)
        return self

    def _queue_to_await(self):
        return self

    def unlink(self):
        """Removes the name. Processes that have the queue may still use it."""
        if self._path:
            _os.unlink(self._path)

    def put_nowait(self, obj):
        self.put(obj, False)

    def get_nowait(self):
        return self.get(False)

    def put_many(self, objs, block=True, timeout=None):
        """Puts one after another; returns how many, fewer than all only when it gives up. ``timeout`` is for each.

        An iterator has then given away the object for which there was no room: use a sequence to continue with
        ``objs[n:]``."""
        done = 0
        put = self.put
        try:
            for obj in objs:
                put(obj, block, timeout)
                done += 1
        except Full:
            pass
        return done

    def get_many(self, n, block=True, timeout=None):
        """Waits for an object, and returns it with up to ``n`` - 1 more that are there now. An error of a later object
        is raised by the next call. Ctrl-C loses what this call has already got."""
        objs = [self.get(block, timeout)]
        self._get_more(objs, max(n - 1, 0))
        return objs

    def empty(self):
        return self.qsize() == 0

    def full(self):
        """If it has as many objects as one producer may have. When several have put, each may have room for more."""
        return self.qsize() >= self.capacity

    def join_thread(self):
        """For programs written for multiprocessing.Queue, which has a thread. Does nothing."""

    cancel_join_thread = join_thread

    def __reduce__(self):
        if self._path:
            return _open_path, (type(self), self._path)
        return _attach, (type(self), _reduction.DupFd(self.fileno()))

    def __repr__(self):
        where = f"name {self._path[len(_FOLDER) + 1 + len(_PREFIX):]!r}" if self._path else "no name"
        return f"<muster.{type(self).__name__} of {self.capacity}, {where}{', closed' if self.closed else ''}>"


def _open_path(cls, path):
    return cls._of(path, -1)


def _attach(cls, duplicate):
    descriptor = duplicate.detach()
    try:
        return cls._of("", descriptor)
    finally:
        _os.close(descriptor)


class ArrayQueue(_Awaitable):
    """A queue of NumPy arrays of one dtype and shape: no pickle, and no copy unless you ask for one."""

    def __init__(self, dtype, shape, capacity=16, *, name=None, producers=4, ports=62):
        import numpy

        self._dtype = numpy.dtype(dtype)
        if self._dtype.hasobject:
            raise ValueError(f"arrays of {self._dtype} contain Python objects; use Queue")
        self._shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        self._nbytes = self._dtype.itemsize * int(numpy.prod(self._shape, dtype=int))
        # As many arrays as the capacity, each with its last byte, in whole blocks, and one that is being written.
        block = (self._nbytes + 64) // 64 * 64
        self._queue = Queue(capacity, nbytes=(capacity + 1) * block, name=name, producers=producers, ports=ports)

    def _queue_to_await(self):
        return self._queue

    def _array_over(self, memory):
        import numpy

        return numpy.frombuffer(memory, self._dtype).reshape(self._shape)

    def loan(self):
        """A context manager: an array of the queue's memory to fill, sent when the block ends without an error."""
        return self._queue._loan(self._nbytes, self._array_over)

    def put(self, array, block=True, timeout=None):
        import numpy

        array = numpy.asarray(array)
        if array.shape != self._shape or array.dtype != self._dtype:
            raise ValueError(f"an array of {array.dtype} {array.shape} in a queue of {self._dtype} {self._shape}")
        self._queue._put_raw(numpy.ascontiguousarray(array).reshape(-1).view("u1"), block, timeout)

    def get(self, block=True, timeout=None, copy=True):
        """The next array. With copy=False it lies in the queue's memory, which is used again when the array ends."""
        return self._queue._get_as(block, timeout, self._array_copied if copy else self._array_in_place)

    def _array_copied(self, memory):
        return self._array_over(memory).copy()

    def _array_in_place(self, memory):
        array = self._array_over(memory)
        # One that a dead process was getting has been copied, and cannot be written.
        return array if array.flags.writeable else array.copy()

    def put_nowait(self, array):
        self.put(array, False)

    def get_nowait(self):
        return self.get(False)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.get()
        except ShutDown:
            raise StopIteration from None

    def close(self):
        self._queue.close()

    def unlink(self):
        self._queue.unlink()

    @property
    def closed(self):
        return self._queue.closed

    @property
    def capacity(self):
        return self._queue.capacity

    @property
    def dtype(self):
        return self._dtype

    @property
    def shape(self):
        return self._shape

    def qsize(self):
        return self._queue.qsize()


def names():
    """The names of all queues on this machine, each with whether a process has it open now."""
    found = {}
    for file in sorted(_os.listdir(_FOLDER)):
        if file.startswith(_PREFIX):
            try:
                descriptor = _os.open(f"{_FOLDER}/{file}", _os.O_RDONLY | _os.O_CLOEXEC)
            except OSError:
                continue  # gone, or another user's
            try:
                _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
                found[file[len(_PREFIX):]] = False
            except BlockingIOError:
                found[file[len(_PREFIX):]] = True
            finally:
                _os.close(descriptor)
    return found


def clean(prefix="", *, older=60.0):
    """Removes the queues whose name begins with ``prefix``, that no process has open, and that were created more than
    ``older`` seconds ago, with what is in them. Returns their names."""
    removed = []
    for file in sorted(_os.listdir(_FOLDER)):
        if not file.startswith(_PREFIX + prefix):
            continue
        path = f"{_FOLDER}/{file}"
        try:
            descriptor = _os.open(path, _os.O_RDONLY | _os.O_CLOEXEC)
        except OSError:
            continue  # gone, or another user's
        try:
            # Locked until it is removed: a process that opens it meanwhile waits, and finds it gone.
            _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
            there = _os.fstat(descriptor)
            if _os.path.samestat(there, _os.stat(path)) and _time.time() - there.st_ctime >= older:
                _os.unlink(path)
                removed.append(file[len(_PREFIX):])
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            _os.close(descriptor)
    return removed
