"""Reaching a point, with or without a wall in between."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, compiled
from medley.envs.metaworld.tasks.rewards import progress, tolerance
from medley.envs.metaworld.tasks.shared import distance, flag, object_with_matrix, place_object, report, tcp, vec

OBJECT, OBJECT_MAT, GOAL_SITE = range(FIRST, FIRST + 3)
REFS = ("body obj", "geom_mat objGeom", "model_site goal")
MAX_REACH = 0  # in s.v


def reset(s: Any) -> None:
    target = vec(s.goal[3:])
    place_object(s, vec(s.goal), target, GOAL_SITE)
    s.v[MAX_REACH] = distance(vec(s.init_tcp), target)


@compiled
def _in_place(s: Any, reach: float) -> float:
    return tolerance(reach, 0.0, 0.05, distance(vec(s.hand_init), vec(s.target)))


# ---- reach: the package gives the distance as `near_object` and `grasp_reward`


def evaluate_v1(s: Any) -> None:
    reach = distance(tcp(s), vec(s.target))
    report(s, progress(s.v[MAX_REACH], reach), flag(reach <= 0.05), reach, 1.0, reach, 0.0, reach)


def evaluate_v2(s: Any) -> None:
    reach = distance(tcp(s), vec(s.target))
    in_place = _in_place(s, reach)
    report(s, 10 * in_place, flag(reach <= 0.05), reach, 1.0, reach, in_place, reach)


TASKS.add(
    Task(
        name="reach",
        model="sawyer_reach_v3",
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

# ---- reach-wall


def wall_evaluate_v1(s: Any) -> None:
    reach = distance(tcp(s), vec(s.target))
    report(s, progress(s.v[MAX_REACH], reach), flag(reach <= 0.05), 0.0, 0.0, 0.0, 0.0, reach)


def wall_evaluate_v2(s: Any) -> None:
    reach = distance(tcp(s), vec(s.target))
    in_place = _in_place(s, reach)
    report(s, 10 * in_place, flag(reach <= 0.05), 0.0, 0.0, 0.0, in_place, reach)


TASKS.add(
    Task(
        name="reach-wall",
        model="sawyer_reach_wall_v3",
        refs=REFS,
        reset=reset,
        objects=object_with_matrix,
        evaluate_v1=wall_evaluate_v1,
        evaluate_v2=wall_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.05, 0.85, 0.05),
        goal_high=(0.05, 0.9, 0.3),
        reset_low=(-0.05, 0.6, 0.015, -0.05, 0.85, 0.05),
        reset_high=(0.05, 0.65, 0.015, 0.05, 0.9, 0.3),
        min_distance=0.15,
    )
)
