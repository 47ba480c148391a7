"""The process in which a simulated arm lives in wall-clock time, and the memory through which it is seen."""

from __future__ import annotations

import math
import random
import signal
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from medley.envs.panda.simulated import SUBTARGET_DT, SimulatedArm
from medley.robots.arm import ArmFault
from medley.robots.clock import Clock
from medley.robots.limits import Array

FINE, STOPPED = 0, 1  # states of the controller


@dataclass(frozen=True)
class Trouble:
    """What to suffer from, for tests of how it is borne."""

    latency: float = 0.0  # seconds by which samples appear late
    jitter: float = 0.0  # seconds that may come on top, at random
    freeze: float = 0.0  # seconds from now in which nothing appears
    drop: float = 0.0  # share of the targets that get lost
    stop: int = 0  # the controller stops now, and again after so many restarts less one


class Snapshot(NamedTuple):
    seq: int
    t_sample: float
    received: int  # number of the newest message that was obeyed
    controller: int
    position: Array


class Window:
    """Snapshots in shared memory, by one writer for any number of readers, without locks.

    The number at the front is odd while a snapshot is written. A reader that finds it odd, or changed after reading,
    reads again: it never sees half of one snapshot and half of another.
    """

    SIZE = 8
    PATIENCE = 0.1  # seconds: a writer that died at it will never finish

    def __init__(self, memory: Any) -> None:
        self._cells = np.frombuffer(memory, dtype=np.float64)
        assert self._cells.size == self.SIZE

    def write(self, snapshot: Snapshot) -> None:
        cells = self._cells
        cells[0] += 1
        cells[1:5] = snapshot.seq, snapshot.t_sample, snapshot.received, snapshot.controller
        cells[5:] = snapshot.position
        cells[0] += 1

    def read(self) -> Snapshot:
        give_up = time.monotonic() + self.PATIENCE
        while time.monotonic() < give_up:
            before = self._cells[0]
            values = self._cells.copy()
            if before % 2 == 0 and before == values[0] == self._cells[0]:
                return Snapshot(int(values[1]), float(values[2]), int(values[3]), int(values[4]), values[5:])
        raise ArmFault("a sample of the arm was begun and never finished")


def live(memory: Any, messages: Connection, stiffness: float, rate: float, steps: int) -> None:
    """What the process does: until nobody is there any more, 10 ms of simulated time every 10 ms over `rate`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever holds the other end
    _Life(Window(memory), SimulatedArm(stiffness), steps).lead(messages, Clock(SUBTARGET_DT / rate))


class _Life:
    def __init__(self, window: Window, arm: SimulatedArm, steps: int) -> None:
        self._window, self._arm, self._steps = window, arm, steps
        self._way: deque[Array] = deque()  # targets of the next 10 ms each; when there are none left, the last stays
        self._late: deque[tuple[float, Snapshot]] = deque()  # snapshots that will appear later
        self._trouble, self._frozen_until, self._stops = Trouble(), -math.inf, 0
        self._received = self._seq = 0
        self._controller = FINE
        self._random = random.Random(0)

    def lead(self, messages: Connection, clock: Clock) -> None:
        self._arm.place(np.array([0.5, 0.0, 0.4]))
        clock.start()
        while True:
            try:
                while messages.poll():
                    self._obey(clock.now(), *messages.recv())
            except (EOFError, OSError):
                return
            if self._controller == FINE:
                if self._way:
                    self._arm.draw_to(self._way.popleft())
                else:
                    self._arm.draw_to(self._arm.target)
                self._arm.settle()
            self._show(clock.now())
            clock.wait()

    def _obey(self, now: float, number: int, what: str, content: Any) -> None:
        if what == "target":
            if self._random.random() < self._trouble.drop:
                return
            self._way = deque(np.linspace(self._arm.target, content, self._steps + 1)[1:])
        elif what == "place":
            self._way.clear()
            self._arm.place(content)
        elif what == "hold":
            self._way.clear()
        elif what == "restart":
            self._way.clear()
            self._stops -= 1
            self._controller = STOPPED if self._stops > 0 else FINE
        elif what == "trouble":
            self._trouble, self._frozen_until = content, now + content.freeze
            if content.stop:
                self._stops, self._controller = content.stop, STOPPED
        self._received = number

    def _show(self, now: float) -> None:
        self._seq += 1
        snapshot = Snapshot(self._seq, now, self._received, self._controller, self._arm.position)
        delay = self._trouble.latency + self._trouble.jitter * self._random.random()
        self._late.append((now + delay, snapshot))
        newest = None
        while self._late and self._late[0][0] <= now:
            newest = self._late.popleft()[1]
        if newest is not None and now >= self._frozen_until:
            self._window.write(newest)
