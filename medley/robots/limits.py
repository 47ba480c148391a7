"""What stands between a policy and an arm: every command passes here, and one that breaks a limit is never sent.

The order is that of the specification: finite and of the right shape, within ±1, scaled to metres, no faster than
`max_vel`, inside the box, no harder than `max_force` pushes and still inside the box, no jump. At the end the result is
checked against all limits once more: what does not pass is not sent, and the arm holds its last target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_ROUNDING = 1e-9  # metres: what additions may be off by


class Command(NamedTuple):
    """What may be sent. Without a target nothing may: `fault` says why."""

    target: Array | None
    limited: tuple[str, ...] = ()  # the limits that changed what the policy asked for
    fault: str = ""


@dataclass(frozen=True)
class Limits:
    low: tuple[float, float, float]  # corners of the box, in metres
    high: tuple[float, float, float]
    max_vel: float = 0.2  # m/s
    stiffness: float = 250.0  # N/m of the controller: with it a distance to the target is a force
    max_force: float = 12.5  # N
    dt: float = 0.2  # seconds of a step
    slack: float = 0.01  # metres by which a target may jump beyond what the speed allows

    @property
    def step(self) -> float:
        """Metres that a policy can ask for in one step."""
        return self.max_vel * self.dt

    @property
    def lead(self) -> float:
        """Metres that a target may be away from where the arm is."""
        return self.max_force / self.stiffness

    def inside(self, position: Array) -> Array:
        """The nearest place in the box."""
        return np.asarray(np.clip(position, self.low, self.high))

    def command(self, action: Any, target: Array, measured: Array) -> Command:
        """What to send for an action, where `target` was sent last and the arm is at `measured`."""
        try:
            move = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError):
            return Command(None, fault="the action is not made of numbers")
        if move.shape != (3,):
            return Command(None, fault=f"the action has shape {move.shape}, not (3,)")
        if not np.isfinite(move).all():
            return Command(None, fault="the action is not finite")
        if not (np.isfinite(target).all() and np.isfinite(measured).all()):
            return Command(None, fault="where the arm is, is not known")
        limited = []
        wanted, move = move, np.clip(move, -1.0, 1.0)
        if (wanted != move).any():
            limited.append("action")
        move = move * self.step
        if (length := float(np.linalg.norm(move))) > self.step:
            move *= self.step / length
            limited.append("speed")
        wanted, new = target + move, self.inside(target + move)
        if (wanted != new).any():
            limited.append("box")
        if float(np.linalg.norm(new - measured)) > self.lead:
            new = self._within_force(new, measured)
            limited.append("force")
        if fault := self.broken(new, target, measured):
            return Command(None, tuple(limited), fault)
        return Command(new, tuple(limited))

    def _within_force(self, new: Array, measured: Array) -> Array:
        """The last point within `lead` of the arm on the way to `new` from the place in the box next to the arm. The
        whole way is in the box, also where the arm has overshot and is not."""
        near = self.inside(measured)
        outside, way = near - measured, new - near
        a, b, c = way @ way, outside @ way, outside @ outside - self.lead**2
        if c > 0:  # so far outside that no place in the box is allowed: `broken` says so
            return near
        return np.asarray(near + way * ((-b + np.sqrt(b * b - a * c)) / a))

    def broken(self, new: Array, target: Array, measured: Array) -> str:
        """Which limit a command breaks, in words; empty: none."""
        if not np.isfinite(new).all():
            return "the target is not finite"
        if (new < np.asarray(self.low)).any() or (new > np.asarray(self.high)).any():
            return "the target is outside the box"
        if (ahead := float(np.linalg.norm(new - measured))) > self.lead + _ROUNDING:
            return f"the arm is {100 * ahead:.1f} cm away from any target that is allowed"
        if (jump := float(np.linalg.norm(new - target))) > self.step + self.slack + _ROUNDING:
            return f"the target would jump by {100 * jump:.1f} cm"
        return ""
