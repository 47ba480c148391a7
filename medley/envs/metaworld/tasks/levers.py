"""Pulling a lever up, and turning a dial."""

from __future__ import annotations

import math
from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled, single_precision
from medley.envs.metaworld.tasks.rewards import (
    closing,
    gaussian_tolerance,
    hamacher,
    hamacher_single,
    pull_reward,
    rounded,
    tolerance,
)
from medley.envs.metaworld.tasks.shared import (
    add,
    body_quat,
    distance,
    flag,
    load,
    load1,
    object_with_matrix,
    place_fixture,
    put,
    put_object,
    report,
    report_v1,
    scaled_distance,
    tcp,
    vec,
)

# ---- lever-pull

KNOB, KNOB_MAT, AXIS, LEVER, LEVER_GOAL = range(FIRST, FIRST + 5)
LEVER_REFS = ("site leverStart", "geom_mat objGeom", "joint LeverAxis", "model_body lever", "model_site goal")
KNOB_INIT = 0  # in s.v, three places


def lever_reset(s: Any) -> None:
    lever = vec(s.goal)
    place_fixture(s, LEVER, KNOB, add(lever, (0.12, 0.0, 0.25 + 0.2)), LEVER_GOAL)
    put(s.v[KNOB_INIT:], add(lever, (0.12, -0.2, 0.25)))


def lever_evaluate_v1(s: Any) -> None:
    knob, target = vec(s.obs[4:]), vec(s.target)
    reach, gap = distance(knob, tcp(s)), distance(knob, target)
    reward = pull_reward(reach, gap, distance(target, vec(s.obj_init)))
    report_v1(s, reward, gap <= math.pi / 24, 0.0)  # a distance, judged by the bound for version 2's angle


def lever_evaluate_v2(s: Any) -> None:
    knob, start, target = vec(s.obs[4:]), vec(s.v[KNOB_INIT:]), vec(s.target)
    # It is the wrist that goes under the lever and lifts it; that it is under it counts more than how far along.
    scale, wrist = (4.0, 1.0, 4.0), (0.0, 0.055, 0.07)
    to_lever = scaled_distance(add(vec(s.obs), wrist), knob, scale)
    to_lever_init = scaled_distance(add(vec(s.init_tcp), wrist), start, scale)
    ready = tolerance(to_lever, 0.0, 0.02, to_lever_init)
    error = abs(-load1(s, AXIS, 0) - math.pi / 2)
    engaged = tolerance(error, 0.0, math.pi / 48, math.pi / 2 - math.pi / 12)
    in_place = tolerance(distance(knob, target), 0.0, 0.04, distance(start, target))
    reward = 10.0 * hamacher(ready, in_place)
    report(s, reward, flag(error <= math.pi / 24), flag(to_lever < 0.03), flag(ready > 0.9), ready, engaged, to_lever)


# ---- dial-turn

DIAL, DIAL_QUAT, TURN, DIAL_BODY, DIAL_GOAL = range(FIRST, FIRST + 5)
DIAL_REFS = ("body dial", "body_quat dial", "joint knob_Joint_1", "model_body dial", "model_site goal")
PUSH_INIT = 0  # in s.v, three places: where to push the dial, at the reset


@compiled
def _mark(s: Any) -> Triple:
    """The mark at the dial's rim, which turns with it."""
    turn = load1(s, TURN, 0)
    return add(load(s, DIAL), (math.sin(turn) * 0.05, -math.cos(turn) * 0.05, 0.0))


@compiled
def _push_point(s: Any) -> Triple:
    return add(_mark(s), (0.05, 0.02, 0.09))


def dial_objects(s: Any) -> None:
    put_object(s, 4, _mark(s), body_quat(s, DIAL_QUAT))


def dial_reset(s: Any) -> None:
    place_fixture(s, DIAL_BODY, DIAL, add(vec(s.goal), (0.0, 0.03, 0.03)), DIAL_GOAL)
    put(s.v[PUSH_INIT:], _push_point(s))


def dial_evaluate_v1(s: Any) -> None:
    mark = vec(s.obs[4:])
    reach, gap = distance(mark, tcp(s)), abs(mark[1] - s.target[1])
    reward = pull_reward(reach, gap, abs(s.target[1] - s.obj_init[1]), wide=0.001, narrow=0.0001)
    report_v1(s, reward, gap <= 0.07, gap, grasp_success=1.0)


def dial_evaluate_v2(s: Any) -> None:
    target, push_init = vec(s.target), vec(s.v[PUSH_INIT:])
    gap = distance(_mark(s), target)
    in_place = tolerance(gap, 0.0, 0.07, abs(distance(push_init, target) - 0.07))
    to_object = distance(_push_point(s), tcp(s))
    near = gaussian_tolerance(to_object, 0.0, 0.005, abs(distance(push_init, vec(s.init_tcp)) - 0.005))
    closed, single = closing(s, 1.0)
    reach = hamacher_single(near, closed, single)
    reward = rounded(10 * hamacher_single(reach, in_place, single), single)
    report(s, reward, flag(gap <= 0.07), flag(to_object <= 0.01), 1.0, reach, in_place, gap)


# ---- the tasks

TASKS.add(
    Task(
        name="lever-pull",
        model="sawyer_lever_pull",
        refs=LEVER_REFS,
        reset=lever_reset,
        objects=object_with_matrix,
        evaluate_v1=lever_evaluate_v1,
        evaluate_v2=lever_evaluate_v2,
        hand_init=single_precision(0.0, 0.4, 0.2),
        hand_low=(-0.5, 0.40, -0.15),
        goal_low=(-0.5, 0.40, -0.15),
        goal_high=(0.5, 1, 0.5),
        reset_low=(-0.1, 0.7, 0.0),
        reset_high=(0.1, 0.8, 0.0),
    )
)
TASKS.add(
    Task(
        name="dial-turn",
        model="sawyer_dial",
        refs=DIAL_REFS,
        reset=dial_reset,
        objects=dial_objects,
        evaluate_v1=dial_evaluate_v1,
        evaluate_v2=dial_evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.73, 0.0299),
        goal_high=(0.1, 0.83, 0.0301),
        reset_low=(-0.1, 0.7, 0.0),
        reset_high=(0.1, 0.8, 0.0),
    )
)
