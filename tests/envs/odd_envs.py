"""A Gymnasium env that misbehaves when told to: `tests.envs.odd_envs:Odd-v0`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np


class Odd(gym.Env[Any, Any]):
    """Adds up its actions. At step `at` of an episode it `does` something; once only, if there is a `marker` file to
    remember it by."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-2.0, 2.0, (2,), np.float64)

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self, does: str = "nothing", at: int = 5, marker: str | None = None, render_mode: str | None = None
    ) -> None:
        self.does, self.at, self.marker, self.render_mode = does, at, marker, render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.place = 0, self.np_random.normal(size=2)
        return self.place.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place += action
        if self.does == "noise":
            self.place += np.frombuffer(os.urandom(2), dtype=np.uint8)
        elif self.steps == self.at and self._first_time():
            if self.does == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.does == "hang":
                time.sleep(3600)
            if self.does == "raise":
                raise ValueError("so says the env")
        return self.place.copy(), float(self.place.sum()), False, self.steps == 12, {"success": self.place[0] > 1}

    def render(self) -> Any:
        if self.does == "refuse":
            raise gym.error.DependencyNotInstalled("no paint")
        return np.full((4, 6, 3), int(abs(self.place[0]) * 50) % 256, dtype=np.uint8)

    def _first_time(self) -> bool:
        if self.marker is None:
            return True
        if Path(self.marker).exists():
            return False
        Path(self.marker).touch()
        return True


gym.register("Odd-v0", entry_point=Odd)
