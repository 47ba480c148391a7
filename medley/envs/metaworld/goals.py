"""The goals of Meta-World's benchmarks: the vectors that decide where objects and targets are in an episode.

The package draws them by resetting the whole simulation twice per goal. Only the random numbers matter, so
here they are drawn alone, in the same order and under the same rejection rule: equal to the package's bit for
bit (tests/envs/test_metaworld.py compares all fifty tasks), and without touching NumPy's global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from medley.envs.api import Array
from medley.envs.metaworld.tasks.base import Task

GOALS_PER_TASK = 50


class _Uniform(Protocol):
    """What NumPy's legacy and new generators have in common."""

    def uniform(self, low: Array, high: Array, size: int) -> Array: ...


@dataclass(frozen=True)
class GoalSpace:
    """Where the goals of one task lie, and which draws are refused."""

    low: Array
    high: Array
    min_distance: float
    target: Array | None  # a target that does not move; None: the vector's second half

    @classmethod
    def of(cls, task: Task) -> GoalSpace:
        target = None if task.fixed_target is None else np.array(task.fixed_target)
        return cls(np.array(task.reset_low), np.array(task.reset_high), task.min_distance, target)

    def draw(self, rng: _Uniform) -> Array:
        """One goal vector."""
        while True:
            vector = rng.uniform(self.low, self.high, size=self.low.size).astype(np.float64)
            target = vector[3:5] if self.target is None else self.target
            if not self.min_distance or np.linalg.norm(vector[:2] - target) >= self.min_distance:
                return vector


_CACHE: dict[tuple[tuple[str, ...], int], list[Array]] = {}


def benchmark_goals(tasks: Sequence[str], spaces: Sequence[GoalSpace], seed: int) -> list[Array]:
    """Fifty goals for each of `tasks`, `[50, dim]`, as the package's benchmark of these tasks draws them.

    One stream runs through all tasks, so a task's goals depend on the tasks before it: `metaworld.MT10(seed)`
    is all ten at once, `metaworld.MT1(task, seed)` a list of one.
    """
    key = (tuple(tasks), seed)
    if key not in _CACHE:
        rng = np.random.RandomState(seed)  # the generator behind `np.random.seed`
        # A package reset draws twice and keeps the second vector.
        drawn = [[(space.draw(rng), space.draw(rng))[1] for _ in range(GOALS_PER_TASK)] for space in spaces]
        _CACHE[key] = [np.stack(vectors) for vectors in drawn]
    return [vectors.copy() for vectors in _CACHE[key]]
