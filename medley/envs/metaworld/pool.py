"""Threads that step slots without Python: they wait on a semaphore, take slots from a shared counter, and report.

The caller's thread works along (the others: medley/native/workers.py). Which thread steps a slot does not matter to
the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from medley.envs.api import Array
from medley.envs.cores import available_cores
from medley.envs.metaworld.engine import RESET, STEP, move_slot, reset_slot, step_slot
from medley.envs.metaworld.tasks.base import compiled
from medley.native.intrinsics import array_address, call1, fetch_add
from medley.native.workers import Workers, aligned, c_address, semaphore

# Places in the control block, a cache line (8 words) apart where threads write.
NEXT, COUNT, OPERATION, STOP, WAIT, POST, WORDS = 0, 8, 9, 10, 11, 12, 16


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


class Pool:
    """Runs an operation over slots on `threads` threads (None: one per core, as far as there are slots)."""

    def __init__(self, slots: Array, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"at least one thread must step the slots, not {threads}")
        self.threads = min(threads or available_cores(), len(slots))
        self._slots = slots
        self._order = np.zeros(len(slots), np.int64)
        self._workers = Workers()

    def run(self, operation: int, slots: Array) -> None:
        count = len(slots)
        if not self._workers.alive:
            self._begin()
        self._order[:count] = slots
        self._control[NEXT] = 0
        self._control[COUNT] = count
        self._control[OPERATION] = operation
        helpers = min(self.threads, count) - 1
        _run(self._slots, self._order, self._control, self._start, self._done, helpers)

    def close(self) -> None:
        """Send the workers home; another `run` hires new ones."""
        self._workers.send_home()

    def _begin(self) -> None:
        # Fresh memory: workers of before may not have gone home yet.
        self._control = aligned(WORDS, np.int64)
        self._control[WAIT], self._control[POST] = c_address("sem_wait"), c_address("sem_post")
        self._start, self._done = semaphore(), semaphore()
        if self._start is None:
            self.threads = 1
        arguments = (self._slots, self._order, self._control, self._start, self._done)
        self._workers.hire(self.threads - 1, lambda _: _serve(*arguments), self._control, STOP, self._start)
