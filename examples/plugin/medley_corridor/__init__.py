"""A plugin for medley: `env=corridor`, a cart on a line that must go left or right."""

from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np

import medley
from medley.config.options import opt
from medley.envs.api import MultiTaskEnv, StepResult, stream_seed
from medley.envs.registry import EnvConfig, EnvKind


@dataclass
class CorridorConfig(EnvConfig):
    goal: float = opt(0.8, "how far from the middle the goals are")


class Corridor(MultiTaskEnv):
    def __init__(self, cfg, slots_per_task, seed, evaluation):
        super().__init__(
            tasks=["left", "right"],
            slots_per_task=slots_per_task,
            single_observation_space=gym.spaces.Box(-1.0, 1.0, (1,), np.float32),
            single_action_space=gym.spaces.Box(-1.0, 1.0, (1,), np.float32),
            horizon=cfg.horizon or 30,
            seed=stream_seed(seed, evaluation),
            terminate_on_success=cfg.terminate_on_success,
        )
        self._goal = np.where(self.task_ids == 0, -cfg.goal, cfg.goal)
        self._x = np.zeros(self.num_envs)

    def _observe(self, slots):
        return self._x[slots, None].astype(np.float32)

    def _reset_slots(self, slots):
        for slot in slots:
            self._x[slot] = self.episode_rng(slot).uniform(-0.2, 0.2)
        return self._observe(slots)

    def _step_slots(self, slots, actions):
        self._x[slots] = np.clip(self._x[slots] + 0.1 * np.clip(actions[:, 0], -1, 1), -1, 1)
        distance = np.abs(self._x[slots] - self._goal[slots])
        never = np.zeros(len(slots), dtype=bool)
        return StepResult(self._observe(slots), -distance, terminated=never, success=distance < 0.1, extra={})

    def _dynamics_state(self):
        return {"x": self._x.copy()}

    def _set_dynamics_state(self, state):
        self._x = state["x"].copy()


def register():
    medley.register_env("corridor", EnvKind(CorridorConfig, Corridor, tasks=lambda cfg: ["left", "right"]))
    medley.add_config_dir(Path(__file__).parent / "config")
