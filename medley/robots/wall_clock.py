"""`WallClockPanda`: the simulated arm as a real one is, moving in its own process while everybody else thinks.

The double on which everything about real time is tested. Unattended it holds its last target.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from typing import Any

from medley.envs.panda.config import DT
from medley.envs.panda.simulated import SUBTARGET_DT
from medley.robots.arm import STALE, Arm, ArmFault, Observation
from medley.robots.arm_process import FINE, Snapshot, Trouble, Window, live
from medley.robots.limits import Array, Limits

START_TIME, ANSWER_TIME = 60.0, 2.0  # seconds
SILENCE = 0.25  # seconds without a sample that are no accident any more


class WallClockPanda(Arm):
    """`rate` 2 makes time pass twice as fast, for tests."""

    def __init__(self, limits: Limits, rate: float = 1.0) -> None:
        super().__init__(limits, DT / rate)
        context = multiprocessing.get_context("spawn")  # forking a program with threads can leave it hanging
        memory = context.RawArray("d", Window.SIZE)
        self._window, self._number = Window(memory), 0
        self._messages, theirs = context.Pipe()
        arguments = memory, theirs, limits.stiffness, rate, round(DT / SUBTARGET_DT)
        self._process = context.Process(target=live, args=arguments, daemon=True, name="arm")
        self._process.start()
        theirs.close()
        self._await(lambda seen: seen.seq > 0, START_TIME, "the simulated arm did not start")

    def trouble(self, **what: Any) -> None:
        """Make the arm suffer from `Trouble(**what)`, and from nothing else."""
        self._post("trouble", Trouble(**what))  # an arm that was frozen could not answer

    def health(self) -> str:
        if not self._process.is_alive():
            return "the process of the arm has ended"
        try:
            seen = self._window.read()
        except ArmFault as e:
            return str(e)
        if seen.controller != FINE:
            return "the controller of the arm has stopped"
        if (age := time.monotonic() - seen.t_sample) > SILENCE:
            return f"nothing was heard of the arm for {age:.2f} s"
        return ""

    def _stay(self) -> None:
        with contextlib.suppress(ArmFault):
            self._post("hold")

    def restart(self) -> None:
        with contextlib.suppress(ArmFault):
            self._ask("restart")

    def close(self) -> None:
        self._messages.close()  # its process ends when nobody is there
        self._process.join(ANSWER_TIME)
        if self._process.is_alive():
            self._process.kill()

    def _place(self, position: Array) -> None:
        self._ask("place", position)

    def _transmit(self, target: Array) -> None:
        self._post("target", target)

    def _newest(self) -> Observation:
        seen = self._window.read()
        return Observation(seen.position, seen.t_sample, seen.seq, time.monotonic())

    def read_observation(self, not_before: float, patience: float = STALE) -> Observation:
        seen = super().read_observation(not_before, patience)
        if self._window.read().received < self._number:
            raise ArmFault("the arm did not receive its last target")
        return seen

    def _post(self, what: str, content: Any = None) -> None:
        self._number += 1
        try:
            self._messages.send((self._number, what, content))
        except OSError as e:
            raise ArmFault(f"the arm cannot be reached: {e.strerror or 'its process has ended'}") from None

    def _ask(self, what: str, content: Any = None) -> None:
        """Returns when it has been obeyed."""
        self._post(what, content)
        number = self._number
        self._await(lambda seen: seen.received >= number, ANSWER_TIME, "the arm does not answer")

    def _await(self, ready: Any, seconds: float, otherwise: str) -> Snapshot:
        give_up = time.monotonic() + seconds
        while not ready(seen := self._window.read()):
            if time.monotonic() > give_up or not self._process.is_alive():
                raise ArmFault(otherwise)
            time.sleep(0.001)
        return seen
