"""`metaworld-aux`: one Meta-World task, and beside it reaching and grasping its object as tasks of their own."""

from __future__ import annotations

import numpy as np

from medley.envs.api import Array, StepResult
from medley.envs.metaworld import intentions as aux
from medley.envs.metaworld.aux_config import MetaworldAuxConfig, aux_intentions
from medley.envs.metaworld.env import MetaworldEnv

GRASP = 2  # among the intentions


class MetaworldAuxEnv(MetaworldEnv):
    """`info["successes"]` and `info["rewards"]` have a column per intention. The main one's are the task's own;
    a reward of the others is by how much the way that is left became shorter.

    With `each` a task per intention, scored by its own; else one task, the main one.
    """

    def __init__(
        self, cfg: MetaworldAuxConfig, slots_per_task: int, seed: int, evaluation: bool, each: bool = False
    ) -> None:
        intentions = aux_intentions(cfg)
        super().__init__(cfg, slots_per_task, seed, evaluation, names=intentions if each else intentions[:1])
        self.intentions = tuple(intentions)
        self._thing = aux.thing_of(self.simulator.tasks[0].name)

    def judged(self, obs: Array) -> Array:
        """Whether each auxiliary task is fulfilled in these observations: [rows, intentions - 1]."""
        tests = [aux.reached(obs), aux.grasped(obs, self._thing)]
        return np.stack(tests[: len(self.intentions) - 1], axis=-1)

    def _left(self, obs: Array) -> Array:
        ways = [aux.to_object(obs), aux.distance_to_grasp(obs, self._thing)]
        return np.stack(ways[: len(self.intentions) - 1], axis=-1)

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        before = self._left(self._obs[slots])
        result = super()._step_slots(slots, actions)
        judged = self.judged(result.obs) & ~result.extra["unstable"][:, None]
        successes = np.concatenate([result.success[:, None], judged], axis=1)
        rewards = np.concatenate([result.reward[:, None], before - self._left(result.obs)], axis=1)
        own, rows = self.task_ids[slots], np.arange(len(slots))
        return result._replace(
            reward=rewards[rows, own],
            success=successes[rows, own],
            extra={**result.extra, "rewards": rewards, "successes": successes},
        )

    def expert_actions(self, obs: Array, wanted: Array) -> Array:
        actions = aux.act(obs, wanted == GRASP, self._thing)
        actions[wanted == 0] = super().expert_actions(obs, wanted)[wanted == 0]
        return actions
