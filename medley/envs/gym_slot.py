"""One Gymnasium env as a slot."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from medley.envs.gym_ids import seeded
from medley.envs.slots import Block, Description
from medley.errors import MedleyError


class GymSlot:
    """One env, and its rows of the block."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self._dtype = self.env.action_space.dtype

    def describe(self) -> Description:
        obs, action = self.env.observation_space, self.env.action_space
        assert isinstance(obs, gym.spaces.Box)
        assert isinstance(action, gym.spaces.Box)
        limit = self.env.spec.max_episode_steps if self.env.spec else None
        return Description(obs, action, limit, self.env.render_mode == "rgb_array")

    def attach(self, block: Block, row: int) -> None:
        shape = self.describe()
        self._seed = block.seed[row : row + 1]
        self._obs = block.obs[row, : shape.observation.shape[0]]
        self._action = block.action[row, : shape.action.shape[0]]
        self._reward, self._flags = block.reward[row : row + 1], block.flags[row]

    def reset(self) -> None:
        seed = int(self._seed[0])
        with seeded(seed):
            # Some envs ignore the seed of `reset`, and some wrappers draw from this generator before the env is reset.
            self.env.unwrapped.np_random = seeding.np_random(seed)[0]
            self._obs[:] = self.env.reset(seed=seed)[0]

    def step(self) -> None:
        flags = self._flags
        obs, self._reward[0], flags[0], flags[1], info = self.env.step(self._action.astype(self._dtype))
        self._obs[:] = obs
        flags[2] = bool(info.get("success", info.get("is_success", False)))

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        try:
            return np.asarray(self.env.render(), dtype=np.uint8)
        except gym.error.Error as error:  # a package that draws is missing
            raise MedleyError(str(error)) from error

    def close(self) -> None:
        self.env.close()
