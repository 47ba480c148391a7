"""Opening and closing a door by its handle, turning its lock."""

from __future__ import annotations

import math
from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, LEFT_PAD, QPOS, TASKS, Task, Triple, compiled, single_precision
from medley.envs.metaworld.tasks.rewards import (
    above,
    funnel,
    gaussian_tolerance,
    grip_effort,
    hamacher,
    pull_reward,
    tolerance,
)
from medley.envs.metaworld.tasks.shared import (
    add,
    distance,
    distance_xy,
    flag,
    load,
    load1,
    object_with_matrix,
    object_with_quat,
    physics_step,
    put,
    report,
    report_v1,
    scaled_distance,
    set_joint,
    store,
    sub,
    tcp,
    vec,
)

LONGEST = 0  # in s.v: how far handle or lock have to go

# ---- door-open, door-close

HANDLE, HANDLE_MAT, DOOR, GOAL_SITE = range(FIRST, FIRST + 4)
DOOR_REFS = ("geom handle", "geom_mat handle", "model_body door", "model_site goal")


@compiled
def _place_door(s: Any, offset: Triple, angle: float) -> None:
    door = vec(s.goal)
    target = add(door, offset)
    put(s.obj_init, door)
    put(s.target, target)
    store(s, DOOR, door)
    store(s, GOAL_SITE, target)
    set_joint(s, angle)
    s.v[LONGEST] = distance_xy(load(s, HANDLE), target)


def open_reset(s: Any) -> None:
    _place_door(s, (-0.3, -0.45, 0.0), 0.0)


def close_reset(s: Any) -> None:
    _place_door(s, (0.2, -0.2, 0.0), -1.5708)


@compiled
def _door_v1(s: Any) -> tuple[float, float]:
    """The reward, and how far the handle is from the target."""
    obj = vec(s.obs[4:])
    pull = distance_xy(obj, vec(s.target))
    return pull_reward(distance(obj, tcp(s)), pull, s.v[LONGEST]), pull


def open_evaluate_v1(s: Any) -> None:
    reward, _ = _door_v1(s)
    report(s, reward, flag(abs(s.obs[4] - s.target[0]) <= 0.08), 0.0, 0.0, 0.0, 0.0, 0.0)


@compiled
def _ready(s: Any) -> float:
    """The hand between handle and door, on a way there that stays above a funnel around the handle."""
    hand, door = vec(s.obs), add(vec(s.obs[4:]), (-0.05, 0.0, 0.0))
    floor = funnel(distance_xy(hand, door), 0.12, 0.04, 0.4)
    at_handle = tolerance(distance(sub(hand, door), (0.05, 0.03, -0.01)), 0.0, 0.06, 0.5)
    return hamacher(above(hand[2], floor, floor / 2), at_handle)


def open_evaluate_v2(s: Any) -> None:
    angle = load1(s, QPOS, 9)
    grip = grip_effort(s)
    ready = _ready(s)
    opened = 0.2 * flag(angle < -math.pi / 90) + 0.8 * tolerance(
        math.pi / 2 + math.pi / 6 + angle, 0.0, 0.5, math.pi / 3
    )
    success = abs(s.obs[4] - s.target[0]) <= 0.08
    reward = 10.0 if success else 2 * hamacher(ready, grip) + 8 * opened
    report(s, reward, flag(success), ready, flag(grip >= 0.5), grip, opened, 0.0)


TASKS.add(
    Task(
        name="door-open",
        model="sawyer_door_pull",
        refs=DOOR_REFS,
        reset=open_reset,
        objects=object_with_matrix,
        evaluate_v1=open_evaluate_v1,
        evaluate_v2=open_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.3, 0.4, 0.1499),
        goal_high=(-0.2, 0.5, 0.1501),
        reset_low=(0.0, 0.85, 0.15),
        reset_high=(0.1, 0.95, 0.15),
    )
)


def close_evaluate_v1(s: Any) -> None:
    reward, pull = _door_v1(s)
    report(s, reward, flag(pull <= 0.08), 0.0, 1.0, 1.0, 0.0, pull)


def close_evaluate_v2(s: Any) -> None:
    obj, target = vec(s.obs[4:]), vec(s.target)
    to_target = distance(obj, target)
    in_place = gaussian_tolerance(to_target, 0.0, 0.05, distance(vec(s.obj_init), target))
    margin = distance(vec(s.hand_init), obj) + 0.1
    hand_in_place = gaussian_tolerance(distance(tcp(s), target), 0.0, 0.25 * 0.05, margin)
    reward = 10.0 if to_target < 0.05 else 3 * hand_in_place + 6 * in_place
    report(s, reward, flag(to_target <= 0.08), 0.0, 1.0, 1.0, hand_in_place, to_target)


TASKS.add(
    Task(
        name="door-close",
        model="sawyer_door_pull",
        refs=DOOR_REFS,
        reset=close_reset,
        objects=object_with_matrix,
        evaluate_v1=close_evaluate_v1,
        evaluate_v2=close_evaluate_v2,
        hand_init=single_precision(-0.5, 0.6, 0.2),
        goal_low=(0.2, 0.65, 0.1499),
        goal_high=(0.3, 0.75, 0.1501),
        reset_low=(0.0, 0.85, 0.15),
        reset_high=(0.1, 0.95, 0.15),
    )
)

# ---- door-lock, door-unlock

KNOB, LOCKED_DOOR_QUAT, LOCK, LOCKED_DOOR = range(FIRST, FIRST + 4)
LOCK_REFS = ("site lockStartLock", "body_quat door_link", "body lock_link", "model_body door")
UNLOCK_REFS = ("site lockStartUnlock", "body_quat door_link", "body lock_link", "model_body door")
LOCK_LENGTH = 0.1
LOCK_HAND_INIT = single_precision(0.0, 0.6, 0.2)


@compiled
def _aim(s: Any, offset: Triple) -> None:
    put(s.target, add(load(s, LOCK), offset))
    s.v[LONGEST] = distance(vec(s.target), load(s, LOCK))


def lock_reset(s: Any) -> None:
    store(s, LOCKED_DOOR, vec(s.goal))
    for _ in range(5):
        physics_step(s)
    _aim(s, (0.0, -0.04, -0.1))


def unlock_reset(s: Any) -> None:
    store(s, LOCKED_DOOR, vec(s.goal))
    set_joint(s, 1.5708)
    _aim(s, (0.1, -0.04, 0.0))


def lock_evaluate_v1(s: Any) -> None:
    obj = vec(s.obs[4:])
    pull = distance(obj, vec(s.target))
    report_v1(s, pull_reward(distance(obj, tcp(s)), pull, s.v[LONGEST]), pull <= 0.02, pull)


@compiled
def _report_lock(s: Any, reward: float, to_object: float, to_target: float, near: float, turned: float) -> None:
    report(s, reward, flag(to_target <= 0.02), flag(to_object <= 0.05), flag(s.obs[3] > 0), near, turned, to_target)


def lock_evaluate_v2(s: Any) -> None:
    obj = vec(s.obs[4:])
    to_object = scaled_distance(obj, load(s, LEFT_PAD), (0.25, 1.0, 0.5))
    to_target = abs(s.target[2] - obj[2])
    # The package means the pad's start for the margin, but has a view of where it is.
    near = tolerance(to_object, 0.0, 0.01, to_object)
    turned = tolerance(to_target, 0.0, 0.005, LOCK_LENGTH)
    _report_lock(s, 2 * hamacher(max(s.obs[3], 0.0), near) + 8 * turned, to_object, to_target, near, turned)


def unlock_evaluate_v2(s: Any) -> None:
    obj = vec(s.obs[4:])
    shoulder, scale = (0.0, 0.055, 0.07), (0.25, 1.0, 0.5)  # above the fingers
    to_object = scaled_distance(add(vec(s.obs), shoulder), obj, scale)
    # The package means the lock's start for the margin, but has a view of where it is.
    margin = scaled_distance(add(vec(s.init_tcp), shoulder), load(s, LOCK), scale)
    near = tolerance(to_object, 0.0, 0.02, margin)
    to_target = abs(s.target[0] - obj[0])
    turned = tolerance(to_target, 0.0, 0.005, LOCK_LENGTH)
    _report_lock(s, 2 * near + 8 * turned, to_object, to_target, near, turned)


TASKS.add(
    Task(
        name="door-lock",
        model="sawyer_door_lock",
        refs=LOCK_REFS,
        reset=lock_reset,
        objects=object_with_quat,
        evaluate_v1=lock_evaluate_v1,
        evaluate_v2=lock_evaluate_v2,
        hand_init=LOCK_HAND_INIT,
        hand_low=(-0.5, 0.40, -0.15),
        goal_low=(-0.5, 0.40, -0.15),
        goal_high=(0.5, 1, 0.5),
        reset_low=(-0.1, 0.8, 0.15),
        reset_high=(0.1, 0.85, 0.15),
        settles_by_goal=True,
    )
)
TASKS.add(
    Task(
        name="door-unlock",
        model="sawyer_door_lock",
        refs=UNLOCK_REFS,
        reset=unlock_reset,
        objects=object_with_quat,
        evaluate_v1=lock_evaluate_v1,
        evaluate_v2=unlock_evaluate_v2,
        hand_init=LOCK_HAND_INIT,
        hand_low=(-0.5, 0.40, -0.15),
        goal_low=(0.0, 0.64, 0.2100),
        goal_high=(0.2, 0.7, 0.2111),
        reset_low=(-0.1, 0.8, 0.15),
        reset_high=(0.1, 0.85, 0.15),
        settles_by_goal=True,
    )
)
