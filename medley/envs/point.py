"""`point`: a point mass that must move to its task's goal. Small enough that an agent learns it in seconds.

The observation (position and velocity) does not reveal the goal: only the task does. A policy that ignores
the task cannot succeed in more than one of them, which is what tests of multi-task agents need.

With `image_size` the observation is a stack of small pictures, which need no OpenGL. They do show the goal; where the
point is going follows from several of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.config.options import opt
from medley.envs.api import Array, MultiTaskEnv, StepResult, stream_seed
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError

_COMPASS = ("east", "north", "west", "south", "northeast", "northwest", "southwest", "southeast")
# Half-winds, on a second circle of directions: sixteen tasks in all.
_HALF_WINDS = tuple(f"half_{name}" for name in _COMPASS)
_ANGLES = np.pi * np.array([0, 2, 4, 6, 1, 3, 5, 7, 0.5, 2.5, 4.5, 6.5, 1.5, 3.5, 5.5, 7.5]) / 4.0

GOAL_DISTANCE = 0.7
SUCCESS_RADIUS = 0.15
START_RADIUS = 0.3
INERTIA = 0.5  # share of the velocity that survives a step
MAX_SPEED = 0.1  # distance covered per step at full action, once at speed
HORIZON = 40


@dataclass
class PointConfig(EnvConfig):
    """Options of the built-in point world."""

    name: str = opt("point", "name of the environment, the first part of the run folder")
    builder: str = opt("point", "which kind of environment this is (see `medley list envs`)")
    num_tasks: int = opt(3, "how many directions, one task each (1 to 16)")
    image_size: int | None = opt(None, "observe pictures of so many pixels in height and width; null: numbers")
    frame_stack: int = opt(3, "pictures in an observation")


def point_tasks(cfg: PointConfig) -> list[str]:
    names = _COMPASS + _HALF_WINDS
    if not 1 <= cfg.num_tasks <= len(names):
        raise ConfigError(f"env.num_tasks must be between 1 and {len(names)}, not {cfg.num_tasks}")
    for key, value, least in (("image_size", cfg.image_size, 4), ("frame_stack", cfg.frame_stack, 1)):
        if value is not None and value < least:
            raise ConfigError(f"env.{key}={value} must be at least {least}.")
    return list(names[: cfg.num_tasks])


class PointEnv(MultiTaskEnv):
    """All slots in two arrays, stepped by a few NumPy expressions."""

    def __init__(
        self,
        num_tasks: int = 3,
        slots_per_task: int = 1,
        horizon: int = HORIZON,
        seed: int = 0,
        terminate_on_success: bool = False,
        image_size: int | None = None,
        frame_stack: int = 3,
    ) -> None:
        self.frame_channels = None if image_size is None else 3
        super().__init__(
            point_tasks(PointConfig(num_tasks=num_tasks, image_size=image_size, frame_stack=frame_stack)),
            slots_per_task,
            _space(image_size, frame_stack),
            gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
            horizon,
            seed,
            terminate_on_success,
        )
        angles = _ANGLES[self.task_ids]
        self._goals = GOAL_DISTANCE * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        self._position = np.zeros((self.num_envs, 2))
        self._velocity = np.zeros((self.num_envs, 2))
        self._pictures = None if image_size is None else _Pictures(self._goals, image_size)

    def _observe(self, slots: Array, first: bool = False) -> Array:
        if self._pictures is not None:
            frame = self._pictures.draw(slots, self._position[slots])
            before = np.tile(frame, (1, self._obs.shape[1] // 3, 1, 1)) if first else self._obs[slots]
            return np.concatenate([before[:, 3:], frame], axis=1)
        velocity = np.clip(self._velocity[slots] / MAX_SPEED, -1.0, 1.0)
        return np.concatenate([self._position[slots], velocity], axis=1).astype(np.float32)

    def _reset_slots(self, slots: Array) -> Array:
        for slot in slots:
            self._position[slot] = self.episode_rng(slot).uniform(-START_RADIUS, START_RADIUS, size=2)
        self._velocity[slots] = 0.0
        return self._observe(slots, first=True)

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        push = MAX_SPEED * np.clip(actions.astype(np.float64), -1.0, 1.0)
        # The velocity moves the point, and only then does the push change it: a reward says nothing about the
        # action just taken, so an agent without a working value function learns nothing here.
        self._position[slots] = np.clip(self._position[slots] + self._velocity[slots], -1.0, 1.0)
        self._velocity[slots] = INERTIA * self._velocity[slots] + (1.0 - INERTIA) * push
        distance = np.sqrt(np.square(self._position[slots] - self._goals[slots]).sum(axis=1))
        reward = 1.0 - np.tanh(2.0 * distance)
        success = distance < SUCCESS_RADIUS
        return StepResult(
            obs=self._observe(slots),
            reward=reward,
            terminated=np.zeros(len(slots), dtype=np.bool_),
            success=success,
            extra={"distance": distance},
        )

    def _dynamics_state(self) -> dict[str, Array]:
        return {"position": self._position.copy(), "velocity": self._velocity.copy()}

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        self._position = state["position"].astype(np.float64)
        self._velocity = state["velocity"].astype(np.float64)

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        picture = np.full((height, width, 3), 245, dtype=np.uint8)
        scale = 0.5 * min(width, height)
        rows, columns = np.mgrid[0:height, 0:width]
        x, y = (columns + 0.5 - width / 2) / scale, (height / 2 - rows - 0.5) / scale

        def disc(centre: Array, radius: float, colour: tuple[int, int, int]) -> None:
            picture[(x - centre[0]) ** 2 + (y - centre[1]) ** 2 <= radius**2] = colour

        picture[(np.abs(x) > 1.0) | (np.abs(y) > 1.0)] = (205, 205, 205)
        disc(self._goals[slot], SUCCESS_RADIUS, (90, 180, 100))
        disc(self._position[slot], 0.05, (40, 70, 160))
        return picture


def build_point(cfg: PointConfig, slots_per_task: int, seed: int, evaluation: bool) -> PointEnv:
    return PointEnv(
        cfg.num_tasks,
        slots_per_task,
        cfg.horizon or HORIZON,
        stream_seed(seed, evaluation),
        cfg.terminate_on_success,
        cfg.image_size,
        cfg.frame_stack,
    )


def _space(image_size: int | None, frame_stack: int) -> gym.spaces.Box:
    if image_size is None:  # position within the unit box; velocity scaled to the same range
        return gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    return gym.spaces.Box(0, 255, (3 * frame_stack, image_size, image_size), np.uint8)


class _Pictures:
    """Two discs with soft edges on black: the goal in green, the point in red and blue."""

    GOAL, POINT = 0.2, 0.16  # radii

    def __init__(self, goals: Array, size: int) -> None:
        self._size = size
        self._places = ((np.arange(size) + 0.5) / size * 2.0 - 1.0).astype(np.float32)
        self._goals = self._disc(goals, self.GOAL)

    def draw(self, slots: Array, positions: Array) -> npt.NDArray[np.uint8]:
        point = self._disc(positions, self.POINT)
        return np.stack([point, self._goals[slots], point], axis=1)

    def _disc(self, centres: Array, radius: float) -> npt.NDArray[np.uint8]:
        x = self._places[None, None, :] - centres[:, 0, None, None].astype(np.float32)
        y = -self._places[None, :, None] - centres[:, 1, None, None].astype(np.float32)
        inside = (radius - np.sqrt(x * x + y * y)) * (self._size / 2) + 0.5  # edges are one pixel wide
        return np.rint(255 * np.clip(inside, 0.0, 1.0)).astype(np.uint8)
