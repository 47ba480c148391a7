"""Sweeping a puck off the table or into a hole, and a ball into a goal."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled
from medley.envs.metaworld.tasks.push import MAX_PUSH, pinch, place_puck, wide_evaluate_v1
from medley.envs.metaworld.tasks.rewards import hamacher, lifted, pull_reward, tolerance
from medley.envs.metaworld.tasks.shared import (
    distance,
    distance_xy,
    flag,
    load,
    object_with_matrix,
    object_with_quat,
    report,
    report_v1,
    scaled_distance,
    store,
    tcp,
    touching,
    vec,
)

# ---- sweep and sweep-into

OBJECT, OBJECT_TURN, OBJECT_GEOM, GOAL_SITE = range(FIRST, FIRST + 4)
SWEEP_REFS = ("body obj", "body_quat obj", "geom_id objGeom", "model_site goal")
INTO_REFS = ("body obj", "geom_mat objGeom", "geom_id objGeom", "model_site goal")


def sweep_reset(s: Any) -> None:
    place_puck(s, (s.goal[0], s.goal[1], 0.02), (0.5, s.goal[1], 0.01), GOAL_SITE)


def into_reset(s: Any) -> None:
    height = load(s, OBJECT)[2]  # as the puck lay while the hand came to rest
    place_puck(s, (s.goal[0], s.goal[1], height), (0.0, 0.84, 0.02), GOAL_SITE)


@compiled
def _sweeping_v1(s: Any, fallen: bool) -> None:
    obj = vec(s.obs[4:])
    reach, gap = distance(obj, tcp(s)), distance_xy(obj, vec(s.target))
    if fallen:
        # It is where it should be, and the hand need not follow.
        report_v1(s, reach + pull_reward(reach, 0.0, s.v[MAX_PUSH]), True, 0.0)
    else:
        report_v1(s, pull_reward(reach, gap, s.v[MAX_PUSH]), gap <= 0.05, gap)


def sweep_evaluate_v1(s: Any) -> None:
    _sweeping_v1(s, s.obs[6] < s.obj_init[2] - 0.05)


def into_evaluate_v1(s: Any) -> None:
    _sweeping_v1(s, s.obs[6] < s.obj_init[2] - 0.05 and 0.4 < s.obs[5] < 1.0)


@compiled
def _sweeping_v2(s: Any, target: Triple, grasp: float) -> None:
    obj = vec(s.obs[4:])
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    in_place = tolerance(to_target, 0.0, 0.05, distance(vec(s.obj_init), target))
    reward = 2 * grasp + 6 * hamacher(grasp, in_place)
    if to_target < 0.05:
        reward = 10.0
    held = flag(touching(s, OBJECT_GEOM) and s.obs[3] > 0)
    report(s, reward, flag(to_target <= 0.05), flag(to_object <= 0.03), held, grasp, in_place, to_target)


def sweep_evaluate_v2(s: Any) -> None:
    _sweeping_v2(s, vec(s.target), pinch(s, vec(s.obs[4:]), 0.02, 0.02 + 0.01, 0.005))


def into_evaluate_v2(s: Any) -> None:
    # Heights do not count, or the hole would be a way off.
    target = (s.target[0], s.target[1], s.obs[6])
    _sweeping_v2(s, target, pinch(s, vec(s.obs[4:]), 0.02, 0.02 + 0.005, 0.01))


TASKS.add(
    Task(
        name="sweep",
        model="sawyer_sweep_v3",
        refs=SWEEP_REFS,
        reset=sweep_reset,
        objects=object_with_quat,
        evaluate_v1=sweep_evaluate_v1,
        evaluate_v2=sweep_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(0.49, 0.6, 0.0),
        goal_high=(0.51, 0.7, 0.02),
        reset_low=(-0.1, 0.6, 0.02),
        reset_high=(0.1, 0.7, 0.02),
    )
)

TASKS.add(
    Task(
        name="sweep-into",
        model="sawyer_table_with_hole",
        refs=INTO_REFS,
        reset=into_reset,
        objects=object_with_matrix,
        evaluate_v1=into_evaluate_v1,
        evaluate_v2=into_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.001, 0.8399, 0.0199),
        goal_high=(0.001, 0.8401, 0.0201),
        reset_low=(-0.1, 0.6, 0.02, -0.001, 0.8399, 0.0199),
        reset_high=(0.1, 0.7, 0.02, 0.001, 0.8401, 0.0201),
        min_distance=0.15,
        fixed_target=(0.0, 0.84),
    )
)

# ---- soccer

BALL, BALL_MAT, BALL_GEOM, BALL_GOAL_SITE, GOAL_BODY = range(FIRST, FIRST + 5)
SOCCER_REFS = (
    "body soccer_ball",
    "body_mat soccer_ball",
    "geom_id objGeom",
    "model_site goal",
    "model_body goal_whole",
)


def soccer_reset(s: Any) -> None:
    target = vec(s.goal[3:])
    store(s, GOAL_BODY, target)
    place_puck(s, (s.goal[0], s.goal[1], 0.03), target, BALL_GOAL_SITE)


def soccer_evaluate_v2(s: Any) -> None:
    obj, target = vec(s.obs[4:]), vec(s.target)
    scale = (3.0, 1.0, 1.0)
    to_object, to_target = distance(obj, tcp(s)), scaled_distance(obj, target, scale)
    # The margin is the way the ball has come, not the way it has to go.
    in_place = tolerance(to_target, 0.0, 0.07, scaled_distance(obj, vec(s.obj_init), scale))
    goal_line = target[1] - 0.1
    if obj[1] > goal_line and abs(obj[0] - target[0]) > 0.10:  # beside the goal
        in_place = min(max(in_place - 2 * ((obj[1] - goal_line) / (1 - goal_line)), 0.0), 1.0)
    grasp = pinch(s, obj, 0.013, 0.013 + 0.01, 0.005)
    reward = 10.0 if to_target < 0.07 else 3 * grasp + 6.5 * in_place
    gap = distance(obj, target)
    report(s, reward, flag(gap <= 0.07), flag(to_object <= 0.03), lifted(s, BALL_GEOM), grasp, in_place, gap)


TASKS.add(
    Task(
        name="soccer",
        model="sawyer_soccer",
        refs=SOCCER_REFS,
        reset=soccer_reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=soccer_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.8, 0.0),
        goal_high=(0.1, 0.9, 0.0),
        reset_low=(-0.1, 0.6, 0.03, -0.1, 0.8, 0.0),
        reset_high=(0.1, 0.7, 0.03, 0.1, 0.9, 0.0),
        min_distance=0.15,
    )
)
