"""Pressing a handle down or pulling it up, from the front or from the side."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, HAND_HIGH, HAND_LOW, LEFT_TIP, TASKS, Task, compiled
from medley.envs.metaworld.tasks.rewards import cage, hamacher, hamacher_single, plus, pull_reward, tolerance
from medley.envs.metaworld.tasks.shared import (
    NO_QUAT,
    distance,
    flag,
    load,
    load1,
    put,
    put_object,
    report,
    report_v1,
    set_joint,
    store,
    tcp,
    vec,
)

# HANDLE is the point of the handle that is observed; the rest is the same for all.
HANDLE, BOX, GOAL_PRESS, GOAL_PULL, HANDLE_START, HANDLE_START_LOCAL = range(FIRST, FIRST + 6)
_BOX_REFS = (
    "model_body box",
    "site goalPress",
    "site goalPull",
    "site handleStart",
    "model_site handleStart",  # only read
)
PRESS_REFS = ("site handleStart", *_BOX_REFS)
PULL_REFS = ("site handleRight", *_BOX_REFS)
PULL_SIDE_REFS = ("site handleCenter", *_BOX_REFS)
WIDEST = 0  # in s.v: the way from the handle's start to the target, for version 1


def objects(s: Any) -> None:
    put_object(s, 4, load(s, HANDLE), NO_QUAT)


@compiled
def _place(s: Any, joint: float, target: int) -> None:
    store(s, BOX, vec(s.goal))
    set_joint(s, joint)
    put(s.target, load(s, target))


@compiled
def _evaluate_v1(s: Any, radius: float, grasp_success: float) -> None:
    obj = vec(s.obs[4:])
    reach, gap = distance(obj, load(s, LEFT_TIP)), abs(obj[2] - s.target[2])
    report_v1(s, pull_reward(reach, gap, s.v[WIDEST]), gap <= radius, gap, grasp_success)


# ---- handle-press, handle-press-side


def press_reset(s: Any) -> None:
    _place(s, -0.001, GOAL_PRESS)
    put(s.obj_init, load(s, HANDLE))
    s.v[WIDEST] = abs(s.obj_init[2] - s.target[2])


def press_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, 0.02, 1.0)


def press_evaluate_v2(s: Any) -> None:
    obj, start = vec(s.obs[4:]), vec(s.obj_init)
    gap = abs(obj[2] - s.target[2])
    in_place = tolerance(gap, 0.0, 0.02, abs(abs(start[2] - s.target[2]) - 0.02))
    to_object = distance(obj, tcp(s))
    reach = tolerance(to_object, 0.0, 0.02, abs(distance(start, vec(s.init_tcp)) - 0.02))
    reward = 10.0 if gap <= 0.02 else 10 * hamacher(reach, in_place)
    report(s, reward, flag(gap <= 0.02), flag(to_object <= 0.05), 1.0, reach, in_place, gap)


# ---- handle-pull, handle-pull-side


@compiled
def _report_pull(
    s: Any,
    gap: float,
    success_gap: float,
    in_place: float,
    grasp: float,
    single: bool,
    raised: bool,
) -> None:
    obj = vec(s.obs[4:])
    to_object, opened = distance(obj, tcp(s)), s.obs[3] > 0
    reward = hamacher_single(grasp, in_place, single)
    if to_object < 0.035 and opened and raised:
        reward = plus(reward, 1.0 + 5.0 * in_place, single)
    if gap < 0.05:
        reward = 10.0
    grasped = flag(opened and obj[2] - 0.03 > s.obj_init[2])
    report(s, reward, flag(gap <= success_gap), flag(to_object <= 0.05), grasped, grasp, in_place, gap)


def pull_reset(s: Any) -> None:
    _place(s, -0.1, GOAL_PULL)
    put(s.obj_init, vec(s.goal))
    # A height within the handle's body against one in the world.
    s.v[WIDEST] = abs(load1(s, HANDLE_START_LOCAL, 2) - s.target[2])


def pull_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, 0.05, 0.0)


def pull_evaluate_v2(s: Any) -> None:
    obj, start = vec(s.obs[4:]), vec(s.obj_init)
    gap = abs(s.target[2] - obj[2])
    in_place = tolerance(gap, 0.0, 0.05, abs(s.target[2] - start[2]))
    grasp, single = cage(s, obj, start, radius=0.022)
    # Whether it has been raised compares the height at the start with a y: always so.
    _report_pull(s, gap, 0.05, in_place, grasp, single, obj[1] - 0.01 > start[2])


def pull_side_reset(s: Any) -> None:
    _place(s, -0.1, GOAL_PULL)
    put(s.obj_init, load(s, HANDLE))
    s.v[WIDEST] = abs(load(s, HANDLE_START)[2] - s.target[2])


def pull_side_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, 0.08, 0.0)


def pull_side_evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    gap = distance(obj, target)
    in_place = tolerance(gap, 0.0, 0.05, distance(start, target))
    grasp, single = cage(s, obj, start, radius=0.032, pad_reach=0.06)
    _report_pull(s, gap, 0.08, in_place, grasp, single, obj[2] - 0.01 > start[2])


# ---- the tasks

TASKS.add(
    Task(
        name="handle-press",
        model="sawyer_handle_press",
        refs=PRESS_REFS,
        reset=press_reset,
        objects=objects,
        evaluate_v1=press_evaluate_v1,
        evaluate_v2=press_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.55, 0.04),
        goal_high=(0.1, 0.70, 0.08),
        reset_low=(-0.1, 0.8, -0.001),
        reset_high=(0.1, 0.9, 0.001),
        settles_by_goal=True,
    )
)
TASKS.add(
    Task(
        name="handle-press-side",
        model="sawyer_handle_press_sideways",
        refs=PRESS_REFS,
        reset=press_reset,
        objects=objects,
        evaluate_v1=press_evaluate_v1,
        evaluate_v2=press_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.35, 0.65, -0.001),
        reset_high=(-0.25, 0.75, 0.001),
        settles_by_goal=True,
    )
)
TASKS.add(
    Task(
        name="handle-pull",
        model="sawyer_handle_press",
        refs=PULL_REFS,
        reset=pull_reset,
        objects=objects,
        evaluate_v1=pull_evaluate_v1,
        evaluate_v2=pull_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.55, 0.04),
        goal_high=(0.1, 0.70, 0.18),
        reset_low=(-0.1, 0.8, -0.001),
        reset_high=(0.1, 0.9, 0.001),
        settles_by_goal=True,
    )
)
TASKS.add(
    Task(
        name="handle-pull-side",
        model="sawyer_handle_press_sideways",
        refs=PULL_SIDE_REFS,
        reset=pull_side_reset,
        objects=objects,
        evaluate_v1=pull_side_evaluate_v1,
        evaluate_v2=pull_side_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.35, 0.65, 0.0),
        reset_high=(-0.25, 0.75, 0.0),
        settles_by_goal=True,
    )
)
