"""Pulling a drawer open and pushing one shut."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import (
    FIRST,
    HAND_HIGH,
    HAND_LOW,
    QPOS,
    TASKS,
    Task,
    Triple,
    compiled,
    single_precision,
)
from medley.envs.metaworld.tasks.rewards import (
    closing,
    gaussian_tolerance,
    hamacher_single,
    pull_reward,
    rounded,
    tolerance,
)
from medley.envs.metaworld.tasks.shared import (
    NO_QUAT,
    add,
    body_quat,
    distance,
    flag,
    forward,
    load,
    place_fixture,
    put,
    put_object,
    report,
    report_v1,
    scaled_distance,
    store,
    store1,
    tcp,
    vec,
)

DRAWER, DRAWER_QUAT, CHEST, GOAL_SITE = range(FIRST, FIRST + 4)
REFS = ("body drawer_link", "body_quat drawer_link", "model_body drawer", "model_site goal")
HAND_INIT = single_precision(0.0, 0.6, 0.2)


@compiled
def _evaluate_v1(s: Any, longest: float) -> tuple[float, float]:
    """The reward, and how far the drawer is from the target along its way."""
    obj = vec(s.obs[4:])
    pull = abs(obj[1] - s.target[1])
    return pull_reward(distance(obj, tcp(s)), pull, longest), pull


# ---- drawer-open

PULL = 0.2  # how far the drawer is to come out


def open_objects(s: Any) -> None:
    put_object(s, 4, add(load(s, DRAWER), (0.0, -0.16, 0.0)), body_quat(s, DRAWER_QUAT))


def open_reset(s: Any) -> None:
    place_fixture(s, CHEST, DRAWER, add(vec(s.goal), (0.0, -0.16 - PULL, 0.09)), GOAL_SITE)


def open_evaluate_v1(s: Any) -> None:
    reward, pull = _evaluate_v1(s, PULL)
    report_v1(s, reward, pull <= 0.03, pull)


def open_evaluate_v2(s: Any) -> None:
    hand, obj, target = vec(s.obs), vec(s.obs[4:]), vec(s.target)
    scale = (3.0, 3.0, 1.0)
    to_target = distance(obj, target)
    opening = tolerance(to_target, 0.0, 0.02, PULL)
    margin = scaled_distance(add(target, (0.0, PULL, 0.0)), vec(s.init_tcp), scale)
    caging = tolerance(scaled_distance(obj, hand, scale), 0.0, 0.01, margin)
    near = flag(distance(obj, hand) <= 0.03)
    report(s, (caging + opening) * 5, flag(to_target <= 0.03), near, flag(s.obs[3] > 0), caging, opening, to_target)


TASKS.add(
    Task(
        name="drawer-open",
        model="sawyer_drawer",
        refs=REFS,
        reset=open_reset,
        objects=open_objects,
        evaluate_v1=open_evaluate_v1,
        evaluate_v2=open_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.1, 0.9, 0.0),
        reset_high=(0.1, 0.9, 0.0),
    )
)

# ---- drawer-close

PUSH = 0.15  # how far it stands open
RADIUS = 0.05
CLOSED = RADIUS + 0.015  # how close to the target counts


@compiled
def _knob(s: Any) -> Triple:
    return add(load(s, DRAWER), (0.0, -0.16, 0.05))


def close_objects(s: Any) -> None:
    put_object(s, 4, _knob(s), NO_QUAT)


def close_reset(s: Any) -> None:
    chest = vec(s.goal)
    target = add(chest, (0.0, -0.16, 0.09))
    put(s.target, target)
    store(s, CHEST, chest)
    store1(s, QPOS, 9, -PUSH)  # its velocity stays what it was
    forward(s)
    put(s.obj_init, _knob(s))
    store(s, GOAL_SITE, target)


def close_evaluate_v1(s: Any) -> None:
    reward, pull = _evaluate_v1(s, PUSH)
    report_v1(s, reward, pull <= CLOSED, pull, grasp_success=1.0)


def close_evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_target, to_object = distance(obj, target), distance(obj, tcp(s))
    in_place = tolerance(to_target, 0.0, RADIUS, abs(distance(start, target) - RADIUS))
    reach = gaussian_tolerance(to_object, 0.0, 0.005, abs(distance(start, vec(s.init_tcp)) - 0.005))
    closed, single = closing(s, 1.0)
    reach = hamacher_single(reach, closed, single)
    reward = 10.0
    if to_target > CLOSED:
        reward = rounded(hamacher_single(reach, in_place, single) * 10, single)
    report(s, reward, flag(to_target <= CLOSED), flag(to_object <= 0.01), 1.0, reach, in_place, to_target)


TASKS.add(
    Task(
        name="drawer-close",
        model="sawyer_drawer",
        refs=REFS,
        reset=close_reset,
        objects=close_objects,
        evaluate_v1=close_evaluate_v1,
        evaluate_v2=close_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.1, 0.9, 0.0),
        reset_high=(0.1, 0.9, 0.0),
    )
)
