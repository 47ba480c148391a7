"""Which of the quantities that training reported go onto the page: all of them, as far as they fit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from medley.reporting.run_files import number
from medley.reporting.runs import RunData

_NUMBERS = 400_000  # in all: about 2.5 MB
_FIRST = ("success", "episode_reward", "batch_reward", "critic_loss", "actor_loss", "alpha_value")
_COUNTERS = {"step", "env_step", "frames", "updates", "episode", "duration"}


@dataclass(frozen=True)
class Plan:
    """What is shown of training: so many points of these quantities; `by_task` gives the keys of every task."""

    points: int
    scalars: tuple[str, ...]
    by_task: tuple[tuple[str, tuple[str, ...]], ...]
    left_out: tuple[str, ...]

    @property
    def keys(self) -> list[str]:
        return [*self.scalars, *(key for _, keys in self.by_task for key in keys)]


def plan(runs: Sequence[RunData]) -> Plan:
    """As many quantities as `_NUMBERS` allows, the usual ones first, then alphabetically, those of tasks last."""
    found: dict[str, None] = {}
    for run in runs:
        # The first rows may come before the first update: look at the last ones too.
        for row in run.train[:1] + run.train[-3:]:
            found.update((key, None) for key, value in row.items() if math.isfinite(number(value)))
    names = [key for key in found if key not in _COUNTERS]
    tasks = max((len(run.tasks) for run in runs), default=0)
    by_task: dict[str, tuple[str, ...]] = {}
    for key in names:
        if first := re.fullmatch(r"((.+?)(?:_env_index)?)_0", key):
            by_task[first[2]] = tuple(f"{first[1]}_{index}" for index in range(tasks))
    covered = {key for keys in by_task.values() for key in keys}
    scalars = sorted((key for key in names if key not in covered), key=_order)

    points = max(100, min(400, 24_000 // max(1, len(runs))))
    rows = sum(min(points, len(run.train)) for run in runs)
    room = _NUMBERS // max(1, rows)
    shown = scalars[:room]
    room -= len(shown)
    wide = sorted(by_task, key=_order)
    fit = max(0, room // tasks) if tasks else 0
    left_out = [*scalars[len(shown) :], *(f"{name} by task" for name in wide[fit:])]
    return Plan(points, tuple(shown), tuple((name, by_task[name]) for name in wide[:fit]), tuple(left_out))


def _order(key: str) -> tuple[int, str]:
    return (_FIRST.index(key) if key in _FIRST else len(_FIRST), key)
