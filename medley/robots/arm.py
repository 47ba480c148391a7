"""What an arm is to medley: something that moves whether or not anybody is ready for it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from medley.errors import MedleyError
from medley.robots.limits import Array, Limits

STALE = 0.02  # seconds that a sample may be older than what was asked for


class ArmFault(MedleyError):
    """The arm does not do or say what it should. It holds its place; the episode is over, the run need not be."""


class Receipt(NamedTuple):
    """What became of an action."""

    t_send: float  # of the monotonic clock, as all times here
    applied: Array  # the target that the arm has now, in metres
    limited: tuple[str, ...]  # limits that changed what was asked for
    fault: str = ""  # why nothing was sent


class Observation(NamedTuple):
    values: Array  # position of the tool
    t_sample: float  # when it was there
    seq: int  # grows with every sample
    t_read: float  # when it was read


class Arm(ABC):
    """A subclass moves something; what may be sent is decided here, for all of them.

    `dt` is the length of a control step in seconds of the clock on the wall.
    """

    def __init__(self, limits: Limits, dt: float) -> None:
        self.limits, self.dt = limits, dt
        self.target: Array = np.full(3, np.nan)
        self._last: Observation | None = None

    # ---- what a subclass provides

    @abstractmethod
    def _place(self, position: Array) -> None:
        """Bring the tool to a position, at rest; returns when it is there."""

    @abstractmethod
    def _transmit(self, target: Array) -> None:
        """Send a target that has passed all limits, to be reached after `dt`. Raises ArmFault if that fails."""

    @abstractmethod
    def _newest(self) -> Observation:
        """The newest sample there is, at once."""

    @abstractmethod
    def health(self) -> str:
        """What is wrong with the arm, in words; empty: nothing."""

    @abstractmethod
    def _stay(self) -> None:
        """Stop where the arm is on its way. Must work whatever is wrong, and never raise."""

    @abstractmethod
    def restart(self) -> None:
        """Try to get a controller that stopped to work again."""

    @abstractmethod
    def close(self) -> None: ...

    # ---- what everyone calls

    def reset(self, position: Array) -> Observation:
        place = self.limits.inside(position)
        asked = time.monotonic()
        self._place(place)
        self.target = place
        self._last = None
        return self.read_observation(asked, patience=1.0)

    def hold(self) -> None:
        """Stay in place; nothing is sent any more before the next reset."""
        self._last = None
        self._stay()

    def send_action(self, action: Any) -> Receipt:
        """Limit an action and send what is left of it; a `fault` in the receipt says that nothing was sent."""
        if self._last is None:
            raise ArmFault("an arm that was not reset does not know where it is")
        command = self.limits.command(action, self.target, self._last.values)
        fault = command.fault or self.health()
        if command.target is None or fault:
            return Receipt(time.monotonic(), self.target, command.limited, fault)
        try:
            self._transmit(command.target)
        except ArmFault as e:
            return Receipt(time.monotonic(), self.target, command.limited, str(e))
        self.target = command.target
        return Receipt(time.monotonic(), self.target, command.limited)

    def read_observation(self, not_before: float, patience: float = STALE) -> Observation:
        """A sample taken at `not_before` or up to 20 ms earlier, that nobody has read yet. Waits for one for up to
        `patience` seconds; then raises ArmFault."""
        give_up = max(time.monotonic(), not_before) + patience
        while True:
            seen = self._newest()
            new = self._last is None or seen.seq > self._last.seq
            if new and seen.t_sample >= not_before - STALE and np.isfinite(seen.values).all():
                self._last = seen
                return seen
            if time.monotonic() > give_up:
                age = time.monotonic() - seen.t_sample
                raise ArmFault(self.health() or f"the newest sample of the arm is {1000 * age:.0f} ms old")
            time.sleep(0.0005)
