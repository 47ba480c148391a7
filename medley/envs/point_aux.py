"""`point-aux`: one point in one world, and several places where one may want it to be.

Rewards are 1 in a place and 0 outside: somebody who wanders at random seldom sees one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medley.config.options import opt
from medley.envs.api import Array, StepResult, stream_seed
from medley.envs.point import HORIZON, MAX_SPEED, SUCCESS_RADIUS, PointConfig, PointEnv, point_tasks


@dataclass
class PointAuxConfig(PointConfig):
    name: str = opt("point-aux", "name of the environment, the first part of the run folder")
    builder: str = opt("point-aux", "which kind of environment this is (see `medley list envs`)")
    num_tasks: int = opt(3, "how many directions, one intention each (1 to 16); the first is the main one")


class PointAuxEnv(PointEnv):
    """With `each` a task per intention, each scored by its own; else one task, the main one."""

    def __init__(self, num_tasks: int, slots_per_task: int, horizon: int, seed: int, each: bool) -> None:
        super().__init__(num_tasks if each else 1, slots_per_task, horizon, seed)
        self.intentions = tuple(point_tasks(PointConfig(num_tasks=num_tasks)))
        self._places = PointEnv(num_tasks)._goals

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        result = super()._step_slots(slots, actions)
        apart = self._position[slots][:, None] - self._places  # [slots, intentions, 2]
        successes = np.sqrt(np.square(apart).sum(-1)) < SUCCESS_RADIUS
        extra = {**result.extra, "rewards": successes.astype(np.float64), "successes": successes}
        return result._replace(reward=result.success.astype(np.float64), extra=extra)

    def success_examples(self, intention: int, count: int, rng: np.random.Generator) -> Array:
        angle, radius = rng.uniform(0, 2 * np.pi, count), SUCCESS_RADIUS * np.sqrt(rng.uniform(0, 0.8, count))
        position = self._places[intention] + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        velocity = rng.uniform(-0.3, 0.3, (count, 2)) * MAX_SPEED  # arriving, not racing through
        return np.concatenate([position, velocity / MAX_SPEED], axis=1).astype(np.float32)

    def expert_actions(self, obs: Array, wanted: Array) -> Array:
        position, velocity = obs[:, :2], obs[:, 2:] * MAX_SPEED
        return np.clip((self._places[wanted] - position - velocity) / MAX_SPEED, -1.0, 1.0).astype(np.float32)


def build_point_aux(cfg: PointAuxConfig, slots_per_task: int, seed: int, evaluation: bool) -> PointAuxEnv:
    return PointAuxEnv(cfg.num_tasks, slots_per_task, cfg.horizon or HORIZON, stream_seed(seed, evaluation), each=False)


def build_point_each(cfg: PointAuxConfig, slots_per_task: int, seed: int) -> PointAuxEnv:
    return PointAuxEnv(cfg.num_tasks, slots_per_task, cfg.horizon or HORIZON, stream_seed(seed, True), each=True)


def main_task(cfg: PointAuxConfig) -> list[str]:
    return point_tasks(cfg)[:1]
