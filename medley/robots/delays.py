"""How long things took, step by step, and what to say of an episode."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PERCENTILES = (50, 95, 99)


@dataclass
class Delays:
    """Seconds per step: from an observation being read (and from its being taken) to the action being sent, and what
    was slept. Delays of the first step of an episode are left out: the arm stood still until then."""

    host: list[float] = field(default_factory=list)  # t_send - t_read
    age: list[float] = field(default_factory=list)  # t_send - t_sample
    slept: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # after the deadline when the slot was over
    overruns: int = 0  # slots that were missed

    def summary(self) -> dict[str, float]:
        """Milliseconds: `delay_p50_ms` and so on, and counts. Empty where nothing was measured."""
        row: dict[str, float] = {}
        for name, values in (("delay", self.host), ("age", self.age), ("late", self.late)):
            if values:
                points = np.percentile(values, PERCENTILES)
                row |= {f"{name}_p{p}_ms": 1000 * float(x) for p, x in zip(PERCENTILES, points, strict=True)}
        if self.slept:
            row |= {"slept_ms": 1000 * float(np.mean(self.slept)), "overruns": float(self.overruns)}
        return row

    def take(self) -> Delays:
        """What there is, to begin anew."""
        taken = Delays(self.host, self.age, self.slept, self.late, self.overruns)
        self.host, self.age, self.slept, self.late, self.overruns = [], [], [], [], 0
        return taken

    def add(self, other: Delays) -> None:
        self.host += other.host
        self.age += other.age
        self.slept += other.slept
        self.late += other.late
        self.overruns += other.overruns
