"""Reward version 1 of tasks that pick something up: reach it, lift it, bring it somewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from medley.envs.metaworld.tasks.base import Triple, compiled
from medley.envs.metaworld.tasks.rewards import progress, rounded
from medley.envs.metaworld.tasks.shared import distance, distance_xy, tcp, vec

# In s.v: how high the object lies at the reset, how high it is to be lifted, and the way to the target from there.
HEIGHT, HEIGHT_TARGET, MAX_PLACE = range(3)
AFTER_HEIGHTS = 3  # the first place in s.v that is free


@compiled
def keep_heights(s: Any, height: float, lift: float, target: Triple) -> None:
    s.v[HEIGHT] = height
    s.v[HEIGHT_TARGET] = height + lift
    lifted = (s.obj_init[0], s.obj_init[1], s.v[HEIGHT_TARGET])
    s.v[MAX_PLACE] = distance(lifted, target) + s.v[HEIGHT_TARGET]


@compiled
def grip_bonus(s: Any) -> float:
    """For closing the gripper near an object."""
    return rounded(max(s.action[3], np.float32(0.0)) / np.float32(50.0), True)


@compiled
def approach(s: Any, obj: Triple, point: Triple, near: float, weight: float, rest: float) -> float:
    """For reaching an object from above: at the height `rest` until `point` is over it, then straight to it, and
    close the gripper."""
    reach, across = distance(obj, point), distance_xy(obj, point)
    if reach < near:
        return -reach + grip_bonus(s)
    if across < near:
        return -reach
    return -across - weight * abs(point[2] - rest)


@compiled
def lifting(
    s: Any,
    z: float,
    reach: float,
    near: float = 0.1,
    hold: float = math.inf,
    base: float = 0.0,
) -> tuple[bool, float]:
    """For lifting an object that is now at height `z`; the first value says whether it is up (the package also asks
    whether it was dropped, which means: is lower than that). With the hand farther away than `hold` it is never up.
    Heights are counted from `base`."""
    z, height, height_target = z - base, s.v[HEIGHT] - base, s.v[HEIGHT_TARGET] - base
    if z >= height_target - 0.01 and reach < hold:
        return True, 100 * height_target
    if reach < near and z > height + 0.005:
        return False, 100 * min(height_target, z)
    return False, 0.0


@compiled
def pick_up(s: Any, weight: float = 2.0, base: float = 0.0) -> tuple[bool, float]:
    """For reaching and lifting the first object. The first value says whether the hand has it up."""
    obj, fingers = vec(s.obs[4:]), tcp(s)
    reach = distance(obj, fingers)
    up, reward = lifting(s, obj[2], reach, base=base)
    return up and reach < 0.1, reward + approach(s, obj, fingers, 0.05, weight, s.init_tcp[2])


@compiled
def pick_and_place(s: Any, base: float = 0.0) -> tuple[float, float]:
    """The whole reward of tasks that bring the first object to the target, and its distance from there."""
    gap = distance(vec(s.obs[4:]), vec(s.target))
    held, reward = pick_up(s, base=base)
    return reward + progress(s.v[MAX_PLACE], gap) if held else reward, gap
