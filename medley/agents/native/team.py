"""Threads that work on one update together, without Python: they sleep on a semaphore between updates, and meet at
barriers within one.

The caller's thread is the first of them (the others: medley/native/workers.py). What each does depends on its number
and on the size of the team alone, so that a run is repeatable.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np

from medley.agents.native.blas import Blas
from medley.agents.native.machine import compiled, longs
from medley.native.intrinsics import atomic_load, atomic_store, call0, call1, call3, fetch_add
from medley.native.workers import Array, Workers, aligned, c_address, semaphore

# Places in the control block, a cache line (8 words) apart where threads write.
ARRIVED, ROUND, STOP, SIZE, WAIT, POST, YIELD, SET_THREADS, WORK, JOB = 0, 8, 16, 17, 18, 19, 20, 21, 22, 23
WORDS = 24
SPINS = 2000  # looks at a barrier before the core is offered to others


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


class Team:
    """Runs the C function `work(job, control, number)` on `threads` threads at once, `number` from 0. `control` is what
    `barrier` takes."""

    def __init__(self, threads: int, work: int, blas: Blas) -> None:
        self.threads = threads if sys.platform == "linux" else 1  # macOS has no semaphores of this kind
        self._work, self._blas = work, blas
        self._workers = Workers()

    def run(self, job: int) -> None:
        if not self._workers.alive:
            self._begin()
        self._control[JOB] = job
        _run(self._places[0], self._places[1])

    def close(self) -> None:
        """Send the workers home; another `run` hires new ones."""
        self._workers.send_home()

    def _begin(self) -> None:
        # Fresh memory: workers of before may not have gone home yet.
        control, start = aligned(WORDS, np.int64), semaphore()
        if start is None:
            raise OSError("the threads of the update need a semaphore, and there is none")
        for place, name in ((WAIT, "sem_wait"), (POST, "sem_post"), (YIELD, "sched_yield")):
            control[place] = c_address(name)
        control[WORK], control[SET_THREADS], control[SIZE] = self._work, self._blas.set_threads, self.threads
        self._control, self._start = control, start
        self._places = (control.ctypes.data, start.ctypes.data)
        self._workers.hire(self.threads - 1, partial(_live, control, start), control, STOP, start)


def _live(control: Array, start: Array, number: int) -> None:
    _serve(control.ctypes.data, start.ctypes.data, number)  # the arrays are held as long as the thread lives
