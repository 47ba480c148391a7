"""Threads that step slots without Python: they wait on a semaphore, take slots from a shared counter, and report.

The threads are Python threads that enter compiled code once and stay there, without the interpreter lock, until the
pool is closed. The caller's thread works along. Which thread steps a slot does not matter to the result.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import weakref
from functools import cache
from typing import Any

import numpy as np

from medley.envs.api import Array
from medley.envs.metaworld.engine import RESET, STEP, move_slot, reset_slot, step_slot
from medley.envs.metaworld.native import array_address, call1, fetch_add
from medley.envs.metaworld.tasks.base import compiled

# Places in the control block, a cache line (8 words) apart where threads write.
NEXT, COUNT, OPERATION, STOP, WAIT, POST, WORDS = 0, 8, 9, 10, 11, 12, 16
SEMAPHORE_BYTES = 64  # sem_t is 32 on 64-bit Linux


@compiled
def _work(slots: Any, order: Any, control: Any) -> None:
    """Take slots until none is left."""
    while True:
        k = fetch_add(array_address(control) + 8 * NEXT, 1)
        if k >= control[COUNT]:
            return
        s = slots[order[k]]
        if control[OPERATION] == STEP:
            step_slot(s)
        elif control[OPERATION] == RESET:
            reset_slot(s)
        else:
            move_slot(s)


@compiled
def _wait(control: Any, semaphore: Any) -> None:
    while call1(control[WAIT], array_address(semaphore)) != 0:  # a signal woke us
        pass


@compiled
def _serve(slots: Any, order: Any, control: Any, start: Any, done: Any) -> None:
    """The life of a worker."""
    while True:
        _wait(control, start)
        if control[STOP]:
            return
        _work(slots, order, control)
        call1(control[POST], array_address(done))


@compiled
def _run(slots: Any, order: Any, control: Any, start: Any, done: Any, helpers: int) -> None:
    for _ in range(helpers):
        call1(control[POST], array_address(start))
    _work(slots, order, control)
    for _ in range(helpers):
        _wait(control, done)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """Runs an operation over slots on `threads` threads (None: one per core, as far as there are slots)."""

    def __init__(self, slots: Array, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"at least one thread must step the slots, not {threads}")
        self.threads = min(threads or available_cores(), len(slots))
        self._slots = slots
        self._order = np.zeros(len(slots), np.int64)
        self._process = 0  # whose threads these are; a fork has none, and neither has a pool that was closed

    def run(self, operation: int, slots: Array) -> None:
        count = len(slots)
        if self._process != os.getpid():
            self._begin()
        self._order[:count] = slots
        self._control[NEXT] = 0
        self._control[COUNT] = count
        self._control[OPERATION] = operation
        helpers = min(self.threads, count) - 1
        _run(self._slots, self._order, self._control, self._start, self._done, helpers)

    def close(self) -> None:
        """Send the workers home; another `run` hires new ones."""
        if self._process:
            self._finalizer()
            self._process = 0

    def _begin(self) -> None:
        self._process = os.getpid()
        self._control = np.zeros(WORDS, np.int64)
        self._start, self._done = (np.zeros(SEMAPHORE_BYTES, np.uint8) for _ in range(2))
        for place, name in ((WAIT, "sem_wait"), (POST, "sem_post")):
            self._control[place] = ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0
        for semaphore in (self._start, self._done):
            if _libc().sem_init(ctypes.c_void_p(semaphore.ctypes.data), 0, 0) != 0:
                self.threads = 1  # macOS has no semaphores of this kind
        arguments = (self._slots, self._order, self._control, self._start, self._done)
        for number in range(self.threads - 1):
            threading.Thread(target=_live, args=arguments, daemon=True, name=f"metaworld-{number}").start()
        self._finalizer = weakref.finalize(self, _dismiss, self._control, self._start, self.threads - 1, os.getpid())


def _live(*arguments: Any) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are the main thread's
    _serve(*arguments)


def _dismiss(control: Array, start: Array, workers: int, process: int) -> None:
    if process != os.getpid():
        return
    control[STOP] = 1
    for _ in range(workers):
        _libc().sem_post(ctypes.c_void_p(start.ctypes.data))
