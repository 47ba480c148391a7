"""The simulated arm behind the bridge: what `bridge_server.py --simulated` serves, to try it all without a robot."""

from __future__ import annotations

import math
from collections.abc import Sequence

from medley.robots.bridge_server import Sample
from medley.robots.limits import Array, Limits
from medley.robots.wall_clock import WallClockPanda


class SimulatedBackend:
    """`WallClockPanda` with the methods of `PolymetisArm`. It divides steps into pieces by itself."""

    pace = math.inf

    def __init__(self, low: Sequence[float], high: Sequence[float], stiffness: float, rate: float) -> None:
        corners = (low[0], low[1], low[2]), (high[0], high[1], high[2])
        self.arm = WallClockPanda(Limits(*corners, stiffness=stiffness), rate)  # of these only the stiffness is used

    def sample(self) -> Sample:
        seen = self.arm._newest()
        return Sample(seen.values, seen.t_sample, seen.seq)

    def trouble(self) -> str:
        return self.arm.health()

    def place(self, position: Array) -> None:
        self.arm._place(position)

    def move(self, target: Array) -> None:
        self.arm._transmit(target)

    def hold(self) -> None:
        self.arm.hold()

    def restart(self) -> None:
        self.arm.restart()

    def close(self) -> None:
        self.arm.close()
