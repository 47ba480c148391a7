"""Deadlines that do not drift: the j-th is at t0 + j·dt of the monotonic clock, however late anybody was before."""

from __future__ import annotations

import math
import time
from typing import NamedTuple, Protocol

SPIN = 0.001  # seconds before a deadline in which to look at the clock instead of sleeping: sleeps end late


class Time(Protocol):
    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class Wait(NamedTuple):
    deadline: float
    slept: float  # seconds from the call to the deadline; 0 after an overrun
    late: float  # seconds after the deadline when it was over
    skipped: int  # whole slots that were missed: an overrun of one is never made up for in a hurry


class Clock:
    """`start` when the first command is sent; then `wait` once per slot."""

    def __init__(self, dt: float, source: Time = time) -> None:
        self.dt, self._time = dt, source
        self._start, self._slot = math.nan, 0

    def now(self) -> float:
        return self._time.monotonic()

    def start(self) -> None:
        """A slot begins now, and all others follow from it."""
        self._start, self._slot = self.now(), 0

    @property
    def deadline(self) -> float:
        """The end of the present slot."""
        return self._start + (self._slot + 1) * self.dt

    def left(self) -> float:
        return self.deadline - self.now()

    def wait(self) -> Wait:
        """Until the end of the present slot; if that has passed, until the end of the slot that time is in now."""
        began = self.now()
        skipped = max(0, math.floor((began - self._start) / self.dt) - self._slot)
        self._slot += skipped
        deadline = self.deadline
        while (left := deadline - self.now()) > 0:
            if left > SPIN:
                self._time.sleep(left - SPIN)
        self._slot += 1
        return Wait(deadline, deadline - began, self.now() - deadline, skipped)
