"""One dm_control env as a slot: repeated actions, and the newest picture or the state as observation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.dmc.families import Member
from medley.envs.dmc.rendering import Camera, renderer_of, set_quality
from medley.envs.dmc.suite import import_suite
from medley.envs.gl import HOW_TO_GET_VIDEOS
from medley.envs.slots import Block, Description
from medley.errors import ConfigError, MedleyError

_UNLIMITED = 1e9  # MuJoCo writes ±1e10 for an actuator without limits


@dataclass(frozen=True)
class DMCRecipe:
    """How to make the env of a task, wherever it is to run."""

    task: str
    domain: str
    suite_task: str
    pixels: bool
    action_repeat: int
    image_size: int
    camera: int
    profile: str
    action_limit: float | None
    gl: str | None  # the backend that draws
    alone: bool = True  # whether drawing may use all cores
    member: Member | None = None  # a changed model

    def open(self) -> DMCSlot:
        if not self.alone:
            # Read by Mesa when it is loaded: with a process per core, threads of its own only get in the way.
            os.environ.setdefault("LP_NUM_THREADS", "0")
        suite = import_suite(self.gl)
        if self.member is not None:
            return DMCSlot(self, self.member.load(suite))
        # Some draw their model when they are made (lqr): a task is the same whatever the seed of the run.
        return DMCSlot(self, suite.load(self.domain, self.suite_task, {"random": 0}))


class DMCSlot:
    def __init__(self, recipe: DMCRecipe, env: Any) -> None:
        self.env, self._recipe = env, recipe
        self._physics = env.physics
        if recipe.gl is None:
            # A quadruped's terrain is sent to whatever draws; tell it that nothing does.
            self._physics._make_rendering_contexts = lambda: None
        set_quality(self._physics, recipe.profile, recipe.image_size)
        spec = env.action_spec()
        low, high = (np.broadcast_to(bound, spec.shape).astype(np.float64) for bound in (spec.minimum, spec.maximum))
        if max(-low.min(), high.max()) > _UNLIMITED:
            if recipe.action_limit is None:
                raise ConfigError(
                    f"{recipe.task} has actuators without limits; env.action_limit=1 sets one, so that [-1, 1] can be "
                    "scaled to it"
                )
            low, high = np.maximum(low, -recipe.action_limit), np.minimum(high, recipe.action_limit)
        self._actions = gym.spaces.Box(low, high, dtype=np.float64)
        self._cameras: dict[tuple[int, int], Camera] = {}
        if recipe.pixels:
            self._camera(recipe.image_size, recipe.image_size)

    def describe(self) -> Description:
        """Control steps are counted here; agent steps by who repeats actions."""
        r = self._recipe
        if r.pixels:
            space: gym.spaces.Box = gym.spaces.Box(0, 255, (3, r.image_size, r.image_size), np.uint8)
        else:
            width = sum(int(np.prod(part.shape)) for part in self.env.observation_spec().values())
            space = gym.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        limit = self.env._step_limit  # the only place where it stands
        return Description(
            space,
            self._actions,
            None if np.isinf(limit) else ceil(limit),
            True,
            self._physics.get_state().size,
            renderer_of(self._physics) if r.pixels else "",
        )

    def attach(self, block: Block, row: int) -> None:
        shape = self.describe()
        self._seed, self._draw = block.seed[row : row + 1], block.draw[row : row + 1]
        self._obs = block.obs[row] if self._recipe.pixels else block.obs[row, : shape.observation.shape[0]]
        self._action = block.action[row, : shape.action.shape[0]]
        self._reward, self._flags = block.reward[row : row + 1], block.flags[row]
        self._state = block.state[row, : shape.state_dim]

    def reset(self) -> None:
        self.env.task.random.seed(int(self._seed[0]))
        self._observe(self.env.reset().observation)

    def step(self) -> None:
        from dm_control.rl.control import PhysicsError

        total, self._flags[:] = 0.0, 0
        action = self._action.copy()  # tasks may keep what they are given
        try:
            for _ in range(self._recipe.action_repeat):
                now = self.env.step(action)
                total += now.reward or 0.0
                if now.last():
                    # Running out of time is no end: what comes after it still counts.
                    self._flags[0 if now.discount == 0 else 1] = 1
                    break
            self._observe(now.observation)
        except PhysicsError:
            self._flags[:] = (0, 1, 0, 1)  # cut off; the last observation stays
        self._reward[0] = total

    def _observe(self, state: dict[str, Any]) -> None:
        self._state[:] = self._physics.get_state()
        if not self._recipe.pixels:
            self._obs[:] = np.concatenate([np.ravel(part) for part in state.values()])
        elif self._draw[0]:
            size = self._recipe.image_size
            self._obs[:] = self._camera(size, size).take().transpose(2, 0, 1)

    def _camera(self, width: int, height: int) -> Camera:
        if (width, height) not in self._cameras:
            self._cameras[width, height] = Camera(self._physics, width, height, self._recipe.camera)
        return self._cameras[width, height]

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        if self._recipe.gl is None:
            raise MedleyError(HOW_TO_GET_VIDEOS)
        return self._camera(width, height).take().copy()

    def close(self) -> None:
        self._cameras.clear()
        self._physics.free()
