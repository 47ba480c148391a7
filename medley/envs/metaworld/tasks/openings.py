"""Carrying an object to an opening: a ball to a hoop, a block into a hole in the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, single_precision
from medley.envs.metaworld.tasks.lifting import keep_heights, pick_and_place
from medley.envs.metaworld.tasks.rewards import cage, hamacher_single, lifted, plus, pull_reward, report_v2, tolerance
from medley.envs.metaworld.tasks.shared import (
    distance,
    distance_xy,
    flag,
    load,
    object_with_quat,
    place_object,
    put,
    report,
    report_v1,
    scaled_distance,
    set_free_object,
    store,
    tcp,
    vec,
)

# ---- basketball

BALL, BALL_QUAT, BALL_GEOM, HOOP, BASKET = range(FIRST, FIRST + 5)
BASKETBALL_REFS = ("body bsktball", "body_quat bsktball", "geom objGeom", "site goal", "model_body basket_goal")
BALL_Z = float(np.float32(0.03))
BASKETBALL_RADIUS = 0.08


def basketball_reset(s: Any) -> None:
    ball = (s.goal[0], s.goal[1], BALL_Z)
    put(s.obj_init, ball)
    store(s, BASKET, vec(s.goal[3:]))
    set_free_object(s, ball)
    target = load(s, HOOP)  # part of the basket
    put(s.target, target)
    keep_heights(s, load(s, BALL_GEOM)[2], 0.3, target)


def basketball_evaluate_v1(s: Any) -> None:
    reward, gap = pick_and_place(s)
    report_v1(s, reward, gap <= BASKETBALL_RADIUS, gap)


def basketball_evaluate_v2(s: Any) -> None:
    obj, start, above = vec(s.obs[4:]), vec(s.obj_init), (s.target[0], s.target[1], 0.3)
    scale = (1.0, 1.0, 2.0)
    to_target = scaled_distance(obj, above, scale)
    in_place = tolerance(to_target, 0.0, BASKETBALL_RADIUS, scaled_distance(start, above, scale))
    to_object = distance(obj, tcp(s))
    grasp, single = cage(s, obj, start, radius=0.025, pad_reach=0.06, xz_reach=0.005)
    held = to_object < 0.035 and s.obs[3] > 0 and obj[2] - 0.01 > start[2]
    if held:
        grasp, single = 1.0, False
    reward = hamacher_single(grasp, in_place, single)
    if held:
        reward += 1.0 + 5 * in_place
    if to_target < BASKETBALL_RADIUS:
        reward = 10.0
    success, near = flag(to_target <= BASKETBALL_RADIUS), flag(to_object <= 0.05)
    grasped = flag(s.obs[3] > 0 and obj[2] - 0.03 > start[2])
    report(s, reward, success, near, grasped, grasp, in_place, to_target)


TASKS.add(
    Task(
        name="basketball",
        model="sawyer_basketball",
        refs=BASKETBALL_REFS,
        reset=basketball_reset,
        objects=object_with_quat,
        evaluate_v1=basketball_evaluate_v1,
        evaluate_v2=basketball_evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.85 - 0.083, 0.2499),
        goal_high=(0.1, 0.9 + 1e-7 - 0.083, 0.2501),
        reset_low=(-0.1, 0.6, 0.0299, -0.1, 0.85, 0.0),
        reset_high=(0.1, 0.7, 0.0301, 0.1, 0.9 + 1e-7, 0.0),
        min_distance=0.15,
    )
)

# ---- hand-insert

BLOCK, BLOCK_QUAT, BLOCK_GEOM, GOAL_SITE = range(FIRST, FIRST + 4)
INSERT_REFS = ("body obj", "body_quat obj", "geom_id objGeom", "model_site goal")
BLOCK_Z = 0.05
INSERT_RADIUS = 0.05


def insert_reset(s: Any) -> None:
    place_object(s, (s.goal[0], s.goal[1], BLOCK_Z), vec(s.goal[3:]), GOAL_SITE)


def insert_evaluate_v1(s: Any) -> None:
    fingers, target = tcp(s), vec(s.target)
    across, depth = distance_xy(fingers, target), abs(fingers[2] - target[2])
    reward = pull_reward(across, depth, abs(s.hand_init[2] - target[2]))
    # The block counts as being where it was at the reset, so version 1 never succeeds.
    place = distance(vec(s.obj_init), target)
    report_v1(s, reward, place <= INSERT_RADIUS, place)


def insert_evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    in_place = tolerance(to_target, 0.0, INSERT_RADIUS, distance(start, target))
    grasp, single = cage(s, obj, start, radius=0.015, xz_reach=0.005)
    reward = hamacher_single(grasp, in_place, single)
    if to_object < 0.02 and s.obs[3] > 0:
        reward = plus(reward, 1.0 + 7 * in_place, single)
    report_v2(s, reward, INSERT_RADIUS, lifted(s, BLOCK_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="hand-insert",
        model="sawyer_table_with_hole",
        refs=INSERT_REFS,
        reset=insert_reset,
        objects=object_with_quat,
        evaluate_v1=insert_evaluate_v1,
        evaluate_v2=insert_evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        hand_low=(-0.5, 0.40, -0.15),
        goal_low=(-0.04, 0.8, -0.0201),
        goal_high=(0.04, 0.88, -0.0199),
        reset_low=(-0.1, 0.6, 0.05, -0.04, 0.8, -0.0201),
        reset_high=(0.1, 0.7, 0.05, 0.04, 0.88, -0.0199),
        min_distance=0.15,
    )
)
