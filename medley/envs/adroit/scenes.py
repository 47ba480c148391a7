"""The three scenes: what is random about them, what is seen of them, and when something in them is done.

Everything is as in gymnasium-robotics (`AdroitHandDoor`, `AdroitHandHammer`, `AdroitHandRelocate`), except that the
dense reward of its v1 envs pays for keeping the palm away from the object: the sign is mended here. Lengths are in
metres, angles in radians. *Way left* is a distance to the palm, and what the object lacks to count as grasped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from medley.envs.api import Array

PALM = "S_grasp"  # the site in front of the palm where things are held


class Judged(NamedTuple):
    """A state as the intentions see it."""

    reward: float  # dense, of the main task
    main: bool
    reach: bool
    grasp: bool
    to_reach: float  # ways left
    to_grasp: float


class Scene(ABC):
    """Reads one simulation; `model` is its own, because where things stand is part of it."""

    obs_dim = 39
    layout: dict[str, list[int]] = {}
    camera = (1.5, 90.0)  # distance and azimuth

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = model, data
        self.palm = data.site(PALM).xpos

    @abstractmethod
    def arrange(self, rng: np.random.Generator) -> None:
        """Put what differs between episodes into its place."""

    @abstractmethod
    def places(self) -> list[Array]:
        """Views of the model's numbers that `arrange` sets: part of a state."""

    @abstractmethod
    def observe(self) -> Array: ...

    @abstractmethod
    def judge(self) -> Judged: ...


class Door(Scene):
    layout = {"hand": [0, 27], "latch": [27, 28], "hinge": [28, 29], "palm": [29, 32], "handle": [32, 35]}
    layout |= {"palm - handle": [35, 38], "open": [38, 39]}

    def __init__(self, model: Any, data: Any) -> None:
        super().__init__(model, data)
        self.handle = data.site("S_handle").xpos
        self.frame = model.body("frame").pos
        self.qpos, self.qvel = data.qpos, data.qvel  # the last two: hinge, latch

    def arrange(self, rng: np.random.Generator) -> None:
        self.frame[:] = rng.uniform([-0.3, 0.25, 0.252], [-0.2, 0.35, 0.35])

    def places(self) -> list[Array]:
        return [self.frame]

    def observe(self) -> Array:
        hinge, latch = self.qpos[-2:]
        apart = self.palm - self.handle
        opened = 1.0 if hinge > 1.0 else -1.0
        return np.concatenate([self.qpos[1:-2], [latch, hinge], self.palm, self.handle, apart, [opened]])

    def judge(self) -> Judged:
        hinge, latch = self.qpos[-2:]
        apart = _length(self.palm - self.handle)
        reward = -0.1 * apart - 0.1 * (hinge - 1.57) ** 2 - 1e-5 * np.square(self.qvel).sum()
        reward += 2 * (hinge > 0.2) + 8 * (hinge > 1.0) + 10 * (hinge > 1.35)
        to_grasp = apart + max(0.0, 1.4 - latch)
        return Judged(reward, hinge >= 1.35, apart < 0.045, latch > 1.4, apart, to_grasp)


class Hammer(Scene):
    obs_dim = 46
    layout = {"hand": [0, 26], "nail": [26, 27], "hammer velocity": [27, 33], "palm": [33, 36], "hammer": [36, 39]}
    layout |= {"hammer rotation": [39, 42], "nail head": [42, 45], "impact": [45, 46]}
    camera = (2.0, 45.0)

    def __init__(self, model: Any, data: Any) -> None:
        super().__init__(model, data)
        self.hammer, self.turned = data.body("Object").xpos, data.body("Object").xmat
        self.head, self.nail, self.goal = (data.site(name).xpos for name in ("tool", "S_target", "nail_goal"))
        self.impact = data.sensor("S_nail").data
        self.board = model.body("nail_board").pos
        self.qpos, self.qvel = data.qpos, data.qvel  # the last six: the hammer's, before them the nail's

    def arrange(self, rng: np.random.Generator) -> None:
        self.board[2] = rng.uniform(0.1, 0.25)

    def places(self) -> list[Array]:
        return [self.board]

    def observe(self) -> Array:
        velocity, impact = np.clip(self.qvel[-6:], -1.0, 1.0), np.clip(self.impact, -1.0, 1.0)
        rotation = _angles(self.turned.reshape(3, 3))
        return np.concatenate([self.qpos[:-6], velocity, self.palm, self.hammer, rotation, self.nail, impact])

    def judge(self) -> Judged:
        apart, left = _length(self.palm - self.hammer), _length(self.nail - self.goal)
        height = self.hammer[2]
        reward = -0.1 * apart - _length(self.head - self.nail) - 10 * left - 1e-2 * _length(self.qvel)
        reward += 2 * (height > 0.04 and self.head[2] > 0.04) + 25 * (left < 0.02) + 75 * (left < 0.01)
        return Judged(reward, left < 0.01, apart < 0.035, height > 0.05, apart, apart + max(0.0, 0.05 - height))


class Relocate(Scene):
    layout = {"hand": [0, 30], "palm - ball": [30, 33], "palm - target": [33, 36], "ball - target": [36, 39]}

    def __init__(self, model: Any, data: Any) -> None:
        super().__init__(model, data)
        self.ball, self.target = data.body("Object").xpos, data.site("target").xpos
        self.ball_place, self.target_place = model.body("Object").pos, model.site("target").pos
        self.qpos = data.qpos  # the last six: the ball's, from its place

    def arrange(self, rng: np.random.Generator) -> None:
        self.ball_place[:2] = rng.uniform([-0.15, -0.15], [0.15, 0.3])
        self.target_place[:] = rng.uniform([-0.2, -0.2, 0.15], [0.2, 0.2, 0.35])

    def places(self) -> list[Array]:
        return [self.ball_place, self.target_place]

    def observe(self) -> Array:
        palm, ball, target = self.palm, self.ball, self.target
        return np.concatenate([self.qpos[:-6], palm - ball, palm - target, ball - target])

    def judge(self) -> Judged:
        apart, left = _length(self.palm - self.ball), _length(self.ball - self.target)
        height = self.ball[2]
        reward = -0.1 * apart + 10 * (left < 0.1) + 20 * (left < 0.05)
        if height > 0.04:
            reward += 1.0 - 0.5 * _length(self.palm - self.target) - 0.5 * left
        return Judged(reward, left < 0.1, apart < 0.045, height > 0.05, apart, apart + max(0.0, 0.05 - height))


def _length(vector: Array) -> float:
    return float(np.sqrt(vector @ vector))


def _angles(turned: Array) -> Array:
    """Rotations about x, then y, then z of the turned axes that make this matrix."""
    middle = np.hypot(turned[1, 2], turned[2, 2])
    if middle > 1e-15:
        first, last = -np.arctan2(turned[1, 2], turned[2, 2]), -np.arctan2(turned[0, 1], turned[0, 0])
    else:  # upright: only the sum of the two is decided
        first, last = 0.0, np.arctan2(turned[1, 0], turned[1, 1])
    return np.array([first, np.arctan2(turned[0, 2], middle), last])


SCENES: dict[str, type[Scene]] = {"door": Door, "hammer": Hammer, "relocate": Relocate}
