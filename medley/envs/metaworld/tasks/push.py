"""Pushing a puck over the table to a target: away from the robot, around a wall, or towards it."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled, single_precision
from medley.envs.metaworld.tasks.rewards import (
    cage,
    cage_around,
    hamacher,
    lifted,
    pads_around,
    plus,
    pull_reward,
    report_v2,
    tolerance,
)
from medley.envs.metaworld.tasks.shared import (
    distance,
    distance_xy,
    load,
    object_with_matrix,
    place_object,
    report_v1,
    scaled_distance,
    tcp,
    vec,
)

OBJECT, OBJECT_MAT, OBJECT_GEOM, GOAL_SITE = range(FIRST, FIRST + 4)
REFS = ("body obj", "geom_mat objGeom", "geom_id objGeom", "model_site goal")
GEOM_REFS = ("geom objGeom", *REFS[1:])
MAX_PUSH = 0  # in s.v: how far the object is from the target at the reset, in the plane


@compiled
def place_puck(s: Any, puck: Triple, target: Triple, site: int) -> None:
    place_object(s, puck, target, site)
    s.v[MAX_PUSH] = distance_xy(puck, target)


def reset(s: Any) -> None:
    height = load(s, OBJECT)[2]  # as the puck lay while the hand came to rest; the vector's heights have no effect
    place_puck(s, (s.goal[0], s.goal[1], height), (s.goal[3], s.goal[4], height), GOAL_SITE)


@compiled
def pushing(s: Any, radius: float) -> None:
    """Version 1 of all tasks that push."""
    obj = vec(s.obs[4:])
    gap = distance_xy(obj, vec(s.target))
    report_v1(s, pull_reward(distance(obj, tcp(s)), gap, s.v[MAX_PUSH]), gap <= radius, gap)


@compiled
def pinch(s: Any, obj: Triple, radius: float, grip: float, xz_reach: float) -> float:
    """A gripper-caging reward that goes by the pads alone: around the object, then within `grip` of its middle."""
    caging = cage_around(s, obj, radius, xz_reach)
    gripping = pads_around(s, obj, radius, grip) if caging > 0.95 else 0.0
    return (caging + gripping) / 2


def wide_evaluate_v1(s: Any) -> None:
    pushing(s, 0.07)


# ---- push


def push_evaluate_v1(s: Any) -> None:
    pushing(s, 0.05)


def push_evaluate_v2(s: Any) -> None:
    obj, target = vec(s.obs[4:]), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    in_place = tolerance(to_target, 0.0, 0.05, distance(vec(s.obj_init), target))
    grasp, single = cage(s, obj, vec(s.obj_init), radius=0.015, xz_reach=0.005)
    reward = 2 * grasp
    if to_object < 0.02 and s.obs[3] > 0:
        # What was earned so far counts twice.
        reward = plus(reward, plus(plus(1.0, reward, single), 5.0 * in_place, single), single)
    report_v2(s, reward, 0.05, lifted(s, OBJECT_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="push",
        model="sawyer_push_v3",
        refs=REFS,
        reset=reset,
        objects=object_with_matrix,
        evaluate_v1=push_evaluate_v1,
        evaluate_v2=push_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.8, 0.01),
        goal_high=(0.1, 0.9, 0.02),
        reset_low=(-0.1, 0.6, 0.02, -0.1, 0.8, 0.01),
        reset_high=(0.1, 0.7, 0.02, 0.1, 0.9, 0.02),
        min_distance=0.15,
    )
)

# ---- push-wall


@compiled
def detour(obj: Triple, start: Triple, midpoint: Triple, scale: Triple) -> float:
    """How close the object is to a point on the way around or over a wall."""
    return tolerance(scaled_distance(obj, midpoint, scale), 0.0, 0.05, scaled_distance(start, midpoint, scale))


@compiled
def past_wall(reward: float, y: float, halfway: float, in_place: float, single: bool) -> float:
    """Add to the reward of a grasped object: for the way to the wall, or beyond it for the way to the target."""
    reward = plus(reward, 1.0, single)
    if y > 0.75:
        return plus(plus(reward, 4.0, single), 3.0 * in_place, single)
    return plus(reward, 4.0 * halfway, single)


def wall_evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    halfway = detour(obj, start, (-0.05, 0.77, obj[2]), (3.0, 1.0, 1.0))
    in_place = tolerance(to_target, 0.0, 0.05, distance(start, target))
    grasp, single = cage(s, obj, start, radius=0.015, xz_reach=0.005)
    reward = 2 * grasp
    if to_object < 0.02 and s.obs[3] > 0:
        reward = past_wall(reward, obj[1], halfway, in_place, single)
    report_v2(s, reward, 0.07, lifted(s, OBJECT_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="push-wall",
        model="sawyer_push_wall_v3",
        refs=GEOM_REFS,
        reset=reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=wall_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.05, 0.85, 0.01),
        goal_high=(0.05, 0.9, 0.02),
        reset_low=(-0.05, 0.6, 0.015, -0.05, 0.85, 0.01),
        reset_high=(0.05, 0.65, 0.015, 0.05, 0.9, 0.02),
        min_distance=0.15,
    )
)

# ---- push-back


def back_evaluate_v2(s: Any) -> None:
    obj, target = vec(s.obs[4:]), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    to_target_init = distance(vec(s.obj_init), target)
    in_place = tolerance(to_target, 0.0, 0.05, to_target_init)
    grasp = pinch(s, obj, 0.007, 0.007 + 0.003, 0.01)
    reward = hamacher(grasp, in_place)
    if to_object < 0.01 and 0 < s.obs[3] < 0.55 and to_target_init - to_target > 0.01:
        reward += 1.0 + 5.0 * in_place
    report_v2(s, reward, 0.07, lifted(s, OBJECT_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="push-back",
        model="sawyer_push_back_v3",
        refs=GEOM_REFS,
        reset=reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=back_evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.6, 0.0199),
        goal_high=(0.1, 0.7, 0.0201),
        reset_low=(-0.1, 0.8, 0.02, -0.1, 0.6, 0.0199),
        reset_high=(0.1, 0.85, 0.02, 0.1, 0.7, 0.0201),
        min_distance=0.15,
    )
)
