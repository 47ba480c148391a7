"""`BridgeArm`: an arm on another machine, or in another Python, behind `bridge_server.py`."""

from __future__ import annotations

import contextlib
import time

from medley.robots.arm import STALE, Arm, ArmFault, Observation
from medley.robots.bridge_link import Link, Reply
from medley.robots.bridge_server import FAULT, FINE, HELLO, HOLD, PLACE, RESTART, SAMPLE, TARGET
from medley.robots.limits import Array, Limits

ANSWER_TIME = 0.5  # seconds that the other side may take to say where the arm is
PLACE_TIME = 60.0  # to bring it to its start, by way of its home
RESTART_TIME = 10.0  # to start a controller
RECONNECT_TIME = 5.0  # in which a server that is just being started again is waited for
FRESH = 0.25  # seconds that the last answer speaks for the arm's health


class BridgeArm(Arm):
    """Limits are those of `Arm`; the other side has its own behind them. A line that was lost is set up again by
    `restart`, never in silence."""

    def __init__(self, limits: Limits, dt: float, address: tuple[str, int]) -> None:
        super().__init__(limits, dt)
        self._address = address
        self._link: Link | None = None
        self._lost = ""  # why there is no link
        self._said: Reply | None = None  # the last answer
        self._connect()

    def health(self) -> str:
        try:
            said = self._said
            if self._link is None or said is None or time.monotonic() - said.t_read > FRESH:
                said = self._ask(SAMPLE)
        except ArmFault as e:
            return str(e)
        return said.words if said.status == FAULT else ""

    def restart(self) -> None:
        with contextlib.suppress(ArmFault):  # `health` goes on saying what is wrong
            if self._link is None:
                self._reconnect()
            self._ask(RESTART, seconds=RESTART_TIME)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()  # the other side holds the arm then
        self._link, self._lost = None, "the arm was closed"

    def read_observation(self, not_before: float, patience: float = STALE) -> Observation:
        give_up = max(time.monotonic(), not_before) + patience
        seen = super().read_observation(not_before, patience)
        if seen.t_read > give_up:  # too late to be answered in this step, though it was taken in time
            raise ArmFault(f"the arm's sample came {1000 * (seen.t_read - give_up):.0f} ms too late")
        assert self._link is not None
        if self._link.refused:  # answers come in order: that to the last target is here
            raise ArmFault(f"the arm did not take its last target: {self._link.refused}")
        return seen

    def _place(self, position: Array) -> None:
        said = self._ask(PLACE, *position, seconds=PLACE_TIME)
        if said.status != FINE:
            raise ArmFault(f"the arm could not be brought to its start: {said.words}")
        assert self._link is not None
        self._link.refused = ""

    def _transmit(self, target: Array) -> None:
        """Without waiting: what became of it is known with the next sample."""
        if self._link is None:
            raise ArmFault(self._lost)
        try:
            self._link.post(TARGET, *target)
        except ArmFault as e:
            self._forget(e)
            raise

    def _newest(self) -> Observation:
        said = self._ask(SAMPLE)
        return Observation(said.position, said.t_sample, said.seq, said.t_read)

    def _stay(self) -> None:
        with contextlib.suppress(ArmFault):
            self._ask(HOLD)

    def _connect(self) -> None:
        limits = self.limits
        link = Link(self._address)
        said = link.ask(HELLO, *limits.low, *limits.high, self.dt, limits.step, limits.stiffness, seconds=ANSWER_TIME)
        if said.status not in (FINE, FAULT):  # what is wrong with the arm is for `health` to say
            link.close()
            raise ArmFault(f"the limits of the arm at {'{}:{}'.format(*self._address)} differ: {said.words}")
        self._link, self._said, self._lost = link, said, ""

    def _reconnect(self) -> None:
        give_up = time.monotonic() + RECONNECT_TIME
        while True:
            try:
                return self._connect()
            except ArmFault as e:
                self._lost = str(e)
                if time.monotonic() > give_up:
                    raise
            time.sleep(0.2)

    def _ask(self, kind: int, *numbers: float, seconds: float = ANSWER_TIME) -> Reply:
        if self._link is None:
            raise ArmFault(self._lost)
        try:
            self._said = self._link.ask(kind, *numbers, seconds=seconds)
        except ArmFault as e:
            self._forget(e)
            raise
        return self._said

    def _forget(self, fault: ArmFault) -> None:
        self._link, self._lost = None, str(fault)
