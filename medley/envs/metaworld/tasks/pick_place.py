"""Picking a puck up and holding it at a target in the air, with or without a wall in between."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled
from medley.envs.metaworld.tasks.lifting import keep_heights, pick_and_place
from medley.envs.metaworld.tasks.push import detour, past_wall
from medley.envs.metaworld.tasks.rewards import (
    PLAIN,
    cage,
    cage_around,
    grip_caged,
    hamacher_single,
    lifted,
    plus,
    report_v2,
    tolerance,
)
from medley.envs.metaworld.tasks.shared import distance, load, object_with_matrix, place_object, report_v1, tcp, vec

OBJECT, OBJECT_MAT, OBJECT_GEOM, GOAL_SITE = range(FIRST, FIRST + 4)
REFS = ("body obj", "geom_mat objGeom", "geom_id objGeom", "model_site goal")
WALL_REFS = ("geom objGeom", *REFS[1:])


def reset(s: Any) -> None:
    target = vec(s.goal[3:])
    place_object(s, vec(s.goal), target, GOAL_SITE)
    keep_heights(s, load(s, OBJECT)[2], 0.04, target)


def evaluate_v1(s: Any) -> None:
    reward, gap = pick_and_place(s)
    report_v1(s, reward, gap <= 0.07, gap)


# ---- pick-place


@compiled
def _grasp(s: Any, obj: Triple) -> tuple[float, bool]:
    """`cage` with `cage_around` for the caging."""
    caging = cage_around(s, obj, 0.015, 0.005)
    gripped, single = grip_caged(s, caging, 1.0)
    return plus(gripped, caging, single) / 2, single


def evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    in_place = tolerance(to_target, 0.0, 0.05, distance(start, target))
    grasp, single = _grasp(s, obj)
    reward = hamacher_single(grasp, in_place, single)
    if to_object < 0.02 and s.obs[3] > 0 and obj[2] - 0.01 > start[2]:
        reward = plus(reward, 1.0 + 5.0 * in_place, single)
    report_v2(s, reward, 0.07, lifted(s, OBJECT_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="pick-place",
        model="sawyer_pick_place_v3",
        refs=REFS,
        reset=reset,
        objects=object_with_matrix,
        evaluate_v1=evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.8, 0.05),
        goal_high=(0.1, 0.9, 0.3),
        reset_low=(-0.1, 0.6, 0.02, -0.1, 0.8, 0.05),
        reset_high=(0.1, 0.7, 0.02, 0.1, 0.9, 0.3),
        min_distance=0.15,
    )
)

# ---- pick-place-wall


def wall_evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    halfway = detour(obj, start, (target[0], 0.77, 0.25), (1.0, 1.0, 3.0))
    in_place = tolerance(to_target, 0.0, 0.05, distance(start, target))
    grasp, single = cage(s, obj, start, radius=0.015, xz_reach=0.005, average=PLAIN)
    reward = hamacher_single(grasp, halfway, single)
    if to_object < 0.02 and s.obs[3] > 0 and obj[2] - 0.015 > start[2]:
        reward = past_wall(reward, obj[1], halfway, in_place, single)
    report_v2(s, reward, 0.07, lifted(s, OBJECT_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="pick-place-wall",
        model="sawyer_pick_place_wall_v3",
        refs=WALL_REFS,
        reset=reset,
        objects=object_with_matrix,
        evaluate_v1=evaluate_v1,
        evaluate_v2=wall_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.05, 0.85, 0.05),
        goal_high=(0.05, 0.9, 0.3),
        reset_low=(-0.05, 0.6, 0.015, -0.05, 0.85, 0.05),
        reset_high=(0.05, 0.65, 0.015, 0.05, 0.9, 0.3),
        min_distance=0.15,
    )
)
