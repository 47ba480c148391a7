"""Sliding a plate into a cabinet, ahead or to the side, and back out."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, QPOS, TASKS, Task, compiled, single_precision
from medley.envs.metaworld.tasks.push import MAX_PUSH, wide_evaluate_v1
from medley.envs.metaworld.tasks.rewards import hamacher, report_v2, tolerance
from medley.envs.metaworld.tasks.shared import (
    distance,
    distance_xy,
    forward,
    load,
    object_with_matrix,
    put,
    store,
    store1,
    tcp,
    vec,
)

PLATE, PLATE_MAT, CABINET, GOAL_SITE = range(FIRST, FIRST + 4)
REFS = ("geom puck", "geom_mat puck", "model_body puck_goal", "model_site goal")
RADIUS = 0.05
HAND_INIT = single_precision(0.0, 0.6, 0.2)


@compiled
def _place(s: Any, x: float, y: float) -> None:
    """Slide the plate to (x, y) from where the model has it; its velocity stays what it was."""
    put(s.obj_init, vec(s.goal))
    put(s.target, vec(s.goal[3:]))
    store1(s, QPOS, 9, x)
    store1(s, QPOS, 10, y)
    forward(s)
    store(s, GOAL_SITE, vec(s.target))


# The cabinet moves in two of the four tasks only. In the other two the package moves a computed position, which
# the next computation puts back.


def slide_reset(s: Any) -> None:
    store(s, CABINET, vec(s.goal[3:]))
    _place(s, 0.0, 0.0)
    s.v[MAX_PUSH] = distance_xy(vec(s.obj_init), vec(s.target))


def side_reset(s: Any) -> None:
    _place(s, 0.0, 0.0)
    s.v[MAX_PUSH] = distance_xy(vec(s.obj_init), vec(s.target))


def back_reset(s: Any) -> None:
    _place(s, 0.0, 0.15)
    s.v[MAX_PUSH] = distance_xy(load(s, PLATE), vec(s.target))


def back_side_reset(s: Any) -> None:
    store(s, CABINET, vec(s.goal))
    _place(s, -0.15, 0.0)
    s.v[MAX_PUSH] = distance_xy(load(s, PLATE), vec(s.target))


@compiled
def _near(s: Any, cut: float) -> tuple[float, float]:
    """How near the hand is to the plate, and the plate to the target, in [0, 1]; margins are shorter by `cut`."""
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    hand = tolerance(distance(tcp(s), obj), 0.0, RADIUS, distance(vec(s.init_tcp), start) - cut)
    return hand, tolerance(distance(obj, target), 0.0, RADIUS, distance(start, target) - cut)


def slide_evaluate_v2(s: Any) -> None:
    grasp, in_place = _near(s, 0.0)
    report_v2(s, 8 * hamacher(grasp, in_place), 0.07, 0.0, grasp, in_place)


def evaluate_v2(s: Any) -> None:
    """Of the three others: reaching counts until the hand is down at the plate."""
    grasp, in_place = _near(s, RADIUS)
    reward = 1.5 * grasp
    fingers = tcp(s)
    if fingers[2] <= 0.03 and distance(fingers, vec(s.obs[4:])) < 0.07:
        reward = 2 + 7 * in_place
    report_v2(s, reward, 0.07, 0.0, grasp, in_place)


TASKS.add(
    Task(
        name="plate-slide",
        model="sawyer_plate_slide",
        refs=REFS,
        reset=slide_reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=slide_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=(-0.1, 0.85, 0.0),
        goal_high=(0.1, 0.9, 0.0),
        reset_low=(0.0, 0.6, 0.0, -0.1, 0.85, 0.0),
        reset_high=(0.0, 0.6, 0.0, 0.1, 0.9, 0.0),
    )
)
TASKS.add(
    Task(
        name="plate-slide-side",
        model="sawyer_plate_slide_sideway",
        refs=REFS,
        reset=side_reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=(-0.3, 0.54, 0.0),
        goal_high=(-0.25, 0.66, 0.0),
        reset_low=(0.0, 0.6, 0.0, -0.3, 0.54, 0.0),
        reset_high=(0.0, 0.6, 0.0, -0.25, 0.66, 0.0),
    )
)
TASKS.add(
    Task(
        name="plate-slide-back",
        model="sawyer_plate_slide",
        refs=REFS,
        reset=back_reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=(-0.1, 0.6, 0.015),
        goal_high=(0.1, 0.6, 0.015),
        reset_low=(0.0, 0.85, 0.0, -0.1, 0.6, 0.015),
        reset_high=(0.0, 0.85, 0.0, 0.1, 0.6, 0.015),
    )
)
TASKS.add(
    Task(
        name="plate-slide-back-side",
        model="sawyer_plate_slide_sideway",
        refs=REFS,
        reset=back_side_reset,
        objects=object_with_matrix,
        evaluate_v1=wide_evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=(-0.05, 0.6, 0.015),
        goal_high=(0.15, 0.6, 0.015),
        reset_low=(-0.25, 0.6, 0.0, -0.05, 0.6, 0.015),
        reset_high=(-0.25, 0.6, 0.0, 0.15, 0.6, 0.015),
    )
)
