"""Putting the lid on a box."""

from __future__ import annotations

from typing import Any

import numpy as np

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled, single_precision
from medley.envs.metaworld.tasks.lifting import keep_heights, pick_and_place
from medley.envs.metaworld.tasks.rewards import above, alignment, funnel, grip_effort, hamacher, tolerance
from medley.envs.metaworld.tasks.shared import (
    add,
    distance,
    distance_xy,
    flag,
    load,
    object_with_quat,
    physics_step,
    put,
    report,
    scaled_distance,
    set_free_object,
    store,
    vec,
)

LID, LID_QUAT, LID_HANDLE, BOX, BOX_BODY, GOAL_SITE = range(FIRST, FIRST + 6)
REFS = (
    "body top_link",
    "body_quat top_link",
    "geom BoxHandleGeom",
    "body boxbody",
    "model_body boxbody",
    "model_site goal",
)
LID_Z = float(np.float32(0.02))
RESET_STEPS = 5  # of physics, between moving the box and placing the lid


def reset(s: Any) -> None:
    lid, target = (s.goal[0], s.goal[1], LID_Z), vec(s.goal[3:])
    put(s.obj_init, lid)
    put(s.target, target)
    store(s, BOX_BODY, (target[0], target[1], load(s, BOX)[2]))
    for _ in range(RESET_STEPS):
        physics_step(s)
    set_free_object(s, lid)
    store(s, GOAL_SITE, target)
    keep_heights(s, load(s, LID_HANDLE)[2], 0.12, target)


def evaluate_v1(s: Any) -> None:
    reward, gap = pick_and_place(s)
    report(s, reward, flag(gap < 0.08), 0.0, 0.0, 0.0, 0.0, 0.0)


@compiled
def _at_handle(hand: Triple, handle: Triple) -> float:
    """How well the hand is placed to lift the lid: at its handle, not lower than a funnel around it."""
    floor = funnel(distance_xy(hand, handle), 0.02, 0.04, 0.4)
    return hamacher(above(hand[2], floor, floor / 2), tolerance(distance(hand, handle), 0.0, 0.02, 0.5))


def evaluate_v2(s: Any) -> None:
    lid, target = vec(s.obs[4:]), vec(s.target)
    handle = add(lid, (0.0, 0.0, 0.02))
    grasp = grip_effort(s)
    ready = _at_handle(vec(s.obs), handle)
    error = scaled_distance(target, handle, (1.0, 1.0, 3.0))
    in_place = 0.2 * flag(handle[2] > 0.04) + 0.8 * tolerance(error, 0.0, 0.05, 0.25)
    success = distance(lid, target) < 0.08
    reward = 10.0 if success else 2 * hamacher(grasp, ready) + 8 * in_place
    reward *= alignment(s, 0.707, 0.707, 0.2)  # or a lid that was kicked onto the box would count
    report(s, reward, flag(success), ready, flag(grasp >= 0.5), grasp, in_place, 0.0)


TASKS.add(
    Task(
        name="box-close",
        model="sawyer_box",
        refs=REFS,
        reset=reset,
        objects=object_with_quat,
        evaluate_v1=evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.7, 0.133),
        goal_high=(0.1, 0.8, 0.133),
        reset_low=(-0.05, 0.5, 0.02, -0.1, 0.7, 0.133),
        reset_high=(0.05, 0.55, 0.02, 0.1, 0.8, 0.133),
        min_distance=0.25,
        settles_by_goal=True,
    )
)
