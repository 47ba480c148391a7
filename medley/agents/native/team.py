"""Threads that work on one update together, without Python: they sleep on a semaphore between updates, and meet at
barriers within one.

The threads are Python threads that enter compiled code once and stay there, without the interpreter lock, until the
team is closed. The caller's thread is the first of them. What each does depends on its number and on the size of the
team alone, so that a run is repeatable.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import weakref
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.agents.native.blas import Blas
from medley.agents.native.machine import atomic_load, atomic_store, call0, call1, call3, compiled, fetch_add, longs

# Places in the control block, a cache line (8 words) apart where threads write.
ARRIVED, ROUND, STOP, SIZE, WAIT, POST, YIELD, SET_THREADS, WORK, JOB = 0, 8, 16, 17, 18, 19, 20, 21, 22, 23
WORDS = 24
SPINS = 2000  # looks at a barrier before the core is offered to others
SEMAPHORE_BYTES = 64  # sem_t is 32 on 64-bit Linux


@compiled
def barrier(control: int) -> None:
    """Wait until every thread of the team has come here."""
    c = longs(control, WORDS)
    size = c[SIZE]
    if size == 1:
        return
    now = atomic_load(control + 8 * ROUND)
    if fetch_add(control + 8 * ARRIVED, 1) == size - 1:
        atomic_store(control + 8 * ARRIVED, 0)
        atomic_store(control + 8 * ROUND, now + 1)
        return
    spins = 0
    while atomic_load(control + 8 * ROUND) == now:
        spins += 1
        if spins > SPINS:
            call0(c[YIELD])


@compiled
def _serve(control: int, start: int, number: int) -> None:
    """The life of a worker."""
    c = longs(control, WORDS)
    call1(c[SET_THREADS], 1)
    while True:
        while call1(c[WAIT], start) != 0:  # a signal woke us
            pass
        if atomic_load(control + 8 * STOP) != 0:
            return
        call3(c[WORK], c[JOB], control, number)
        barrier(control)


@compiled
def _run(control: int, start: int) -> None:
    c = longs(control, WORDS)
    for _ in range(c[SIZE] - 1):
        call1(c[POST], start)
    before = call1(c[SET_THREADS], 1)
    call3(c[WORK], c[JOB], control, 0)
    barrier(control)
    call1(c[SET_THREADS], before)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)


class Team:
    """Runs the C function `work(job, control, number)` on `threads` threads at once, `number` from 0. `control` is what
    `barrier` takes."""

    def __init__(self, threads: int, work: int, blas: Blas) -> None:
        self.threads = threads if sys.platform == "linux" else 1  # macOS has no semaphores of this kind
        self._work, self._blas = work, blas
        self._process = 0  # whose threads these are; a fork has none, and neither has a team that was closed

    def run(self, job: int) -> None:
        if self._process != os.getpid():
            self._begin()
        self._control[JOB] = job
        _run(self._places[0], self._places[1])

    def close(self) -> None:
        """Send the workers home; another `run` hires new ones."""
        if self._process:
            self._finalizer()
            self._process = 0

    def _begin(self) -> None:
        self._process = os.getpid()
        # Fresh memory: workers of before may not have gone home yet.
        control, start = aligned(WORDS, np.int64), aligned(SEMAPHORE_BYTES, np.uint8)
        for place, name in ((WAIT, "sem_wait"), (POST, "sem_post"), (YIELD, "sched_yield")):
            control[place] = ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0
        if _libc().sem_init(ctypes.c_void_p(start.ctypes.data), 0, 0) != 0:
            raise OSError("the threads of the update need a semaphore, and there is none")
        control[WORK], control[SET_THREADS], control[SIZE] = self._work, self._blas.set_threads, self.threads
        self._control, self._start = control, start
        self._places = (control.ctypes.data, start.ctypes.data)
        for number in range(1, self.threads):
            threading.Thread(target=_live, args=(control, start, number), daemon=True, name=f"update-{number}").start()
        self._finalizer = weakref.finalize(self, _dismiss, control, start, self.threads - 1, os.getpid())


def aligned(count: int, kind: Any) -> npt.NDArray[Any]:
    """Zeros that begin on a cache line."""
    size = np.dtype(kind).itemsize
    room = np.zeros(count * size + 64, np.uint8)
    skip = -room.ctypes.data % 64
    return room[skip : skip + count * size].view(kind)


def _live(control: npt.NDArray[Any], start: npt.NDArray[Any], number: int) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are the main thread's
    _serve(control.ctypes.data, start.ctypes.data, number)


def _dismiss(control: npt.NDArray[Any], start: npt.NDArray[Any], workers: int, process: int) -> None:
    if process != os.getpid():
        return
    control[STOP] = 1
    for _ in range(workers):
        _libc().sem_post(ctypes.c_void_p(start.ctypes.data))
