"""Pressing a button: on the front or the top of a box, with or without a wall before it, and on a coffee machine."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import (
    FIRST,
    HAND_HIGH,
    HAND_LOW,
    LEFT_TIP,
    TASKS,
    Task,
    Triple,
    compiled,
    single_precision,
)
from medley.envs.metaworld.tasks.coffee import place_mug
from medley.envs.metaworld.tasks.rewards import hamacher, pull_reward, tolerance
from medley.envs.metaworld.tasks.shared import (
    add,
    body_quat,
    distance,
    flag,
    forward,
    load,
    put,
    put_object,
    report,
    report_v1,
    set_joint,
    store,
    tcp,
    vec,
)

BUTTON, BUTTON_QUAT, BUTTON_START, HOLE, BOX = range(FIRST, FIRST + 5)
REFS = ("body button", "body_quat button", "site buttonStart", "site hole", "model_body box")
GAP, WIDEST = 0, 1  # in s.v: how far the button can go in, for version 2 and for version 1
Y, Z = 1, 2  # the axis along which a button goes in

# ---- what all have in common


@compiled
def _put_button(s: Any, offset: Triple) -> None:
    put_object(s, 4, add(load(s, BUTTON), offset), body_quat(s, BUTTON_QUAT))


@compiled
def _place_box(s: Any) -> None:
    put(s.obj_init, vec(s.goal))
    store(s, BOX, vec(s.goal))


@compiled
def _aim(s: Any, axis: int, axis_v1: int) -> None:
    """The target is the hole that the button goes into."""
    hole, start = load(s, HOLE), load(s, BUTTON_START)
    put(s.target, hole)
    s.v[GAP] = abs(hole[axis] - start[axis])
    s.v[WIDEST] = abs(hole[axis_v1] - start[axis_v1])


@compiled
def _evaluate_v1(s: Any, axis: int, fingers: Triple, success_gap: float) -> None:
    obj = vec(s.obs[4:])
    reach, gap = distance(obj, fingers), abs(obj[axis] - s.target[axis])
    report_v1(s, pull_reward(reach, gap, s.v[WIDEST]), gap <= success_gap, gap)


@compiled
def _progress(s: Any, axis: int, near_radius: float) -> tuple[float, float, float, float]:
    """Distance to the button, how far it still has to go in, and the two as parts of the reward."""
    obj = vec(s.obs[4:])
    to_object, gap = distance(obj, tcp(s)), abs(s.target[axis] - obj[axis])
    near = tolerance(to_object, 0.0, near_radius, distance(obj, vec(s.init_tcp)))
    return to_object, gap, near, tolerance(gap, 0.0, 0.005, s.v[GAP])


@compiled
def _report_v2(
    s: Any, reward: float, to_object: float, gap: float, near: float, pressed: float, success_gap: float
) -> None:
    report(s, reward, flag(gap <= success_gap), flag(to_object <= 0.05), flag(s.obs[3] > 0), near, pressed, gap)


@compiled
def _evaluate_front_v2(s: Any) -> None:
    to_object, gap, near, pressed = _progress(s, Y, 0.05)
    reward = 2 * hamacher(s.obs[3], near)
    if to_object <= 0.05:
        reward += 8 * pressed
    _report_v2(s, reward, to_object, gap, near, pressed, 0.02)


@compiled
def _evaluate_top_v2(s: Any, grip: float) -> None:
    to_object, gap, near, pressed = _progress(s, Z, 0.01)
    reward = 5 * hamacher(grip, near)
    if to_object <= 0.03:
        reward += 5 * pressed
    _report_v2(s, reward, to_object, gap, near, pressed, 0.024)


# ---- button-press


def front_objects(s: Any) -> None:
    _put_button(s, (0.0, -0.193, 0.0))


def front_reset(s: Any) -> None:
    _place_box(s)
    set_joint(s, 0.0)
    _aim(s, Y, Y)


def front_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, Y, load(s, LEFT_TIP), 0.02)


def front_evaluate_v2(s: Any) -> None:
    _evaluate_front_v2(s)


# ---- button-press-wall


def wall_reset(s: Any) -> None:
    _place_box(s)
    set_joint(s, 0.0)
    _aim(s, Y, Z)  # in version 1 along the wrong axis: 0


def wall_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, Y, load(s, LEFT_TIP), 0.03)


def wall_evaluate_v2(s: Any) -> None:
    to_object, gap, near, pressed = _progress(s, Y, 0.01)
    # The gripper should be closed on the way (behind the wall) and open at the button.
    if to_object > 0.07:
        reward = 2 * hamacher((1 - s.obs[3]) / 2.0, near)
    else:
        reward = 2 + 2 * (1 + s.obs[3]) + 4 * (pressed * pressed)
    _report_v2(s, reward, to_object, gap, near, pressed, 0.03)


# ---- button-press-topdown, button-press-topdown-wall


def top_objects(s: Any) -> None:
    _put_button(s, (0.0, 0.0, 0.193))


def top_reset(s: Any) -> None:
    _place_box(s)
    forward(s)
    _aim(s, Z, Z)


def top_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, Z, tcp(s), 0.024)


def top_evaluate_v2(s: Any) -> None:
    _evaluate_top_v2(s, 1 - s.obs[3])


def top_wall_evaluate_v2(s: Any) -> None:
    _evaluate_top_v2(s, s.obs[3])


# ---- coffee-button

MACHINE_BUTTON, MACHINE = range(FIRST, FIRST + 2)
COFFEE_REFS = ("site buttonStart", "model_body coffee_machine")
DEPTH = 0.03  # how far the machine's button goes in


def coffee_objects(s: Any) -> None:
    put_object(s, 4, load(s, MACHINE_BUTTON), (1.0, 0.0, 0.0, 0.0))


def coffee_reset(s: Any) -> None:
    machine = vec(s.goal)
    put(s.obj_init, machine)
    store(s, MACHINE, machine)
    place_mug(s, add(machine, (0.0, -0.22, 0.0)))
    put(s.target, add(add(machine, (0.0, -0.22, 0.3)), (0.0, DEPTH, 0.0)))
    s.v[GAP] = DEPTH
    s.v[WIDEST] = abs(load(s, MACHINE_BUTTON)[Y] - s.target[Y])


# ---- the tasks

HAND_INIT = single_precision(0.0, 0.4, 0.2)

TASKS.add(
    Task(
        name="button-press",
        model="sawyer_button_press",
        refs=REFS,
        reset=front_reset,
        objects=front_objects,
        evaluate_v1=front_evaluate_v1,
        evaluate_v2=front_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.1, 0.85, 0.115),
        reset_high=(0.1, 0.9, 0.115),
    )
)
TASKS.add(
    Task(
        name="button-press-wall",
        model="sawyer_button_press_wall",
        refs=REFS,
        reset=wall_reset,
        objects=front_objects,
        evaluate_v1=wall_evaluate_v1,
        evaluate_v2=wall_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.05, 0.85, 0.1149),
        reset_high=(0.05, 0.9, 0.1151),
    )
)
TASKS.add(
    Task(
        name="button-press-topdown",
        model="sawyer_button_press_topdown",
        refs=REFS,
        reset=top_reset,
        objects=top_objects,
        evaluate_v1=top_evaluate_v1,
        evaluate_v2=top_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.1, 0.8, 0.115),
        reset_high=(0.1, 0.9, 0.115),
    )
)
TASKS.add(
    Task(
        name="button-press-topdown-wall",
        model="sawyer_button_press_topdown_wall",
        refs=REFS,
        reset=top_reset,
        objects=top_objects,
        evaluate_v1=top_evaluate_v1,
        evaluate_v2=top_wall_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.1, 0.8, 0.115),
        reset_high=(0.1, 0.9, 0.115),
    )
)
TASKS.add(
    Task(
        name="coffee-button",
        model="sawyer_coffee",
        refs=COFFEE_REFS,
        reset=coffee_reset,
        objects=coffee_objects,
        evaluate_v1=front_evaluate_v1,
        evaluate_v2=front_evaluate_v2,
        hand_init=(0.0, 0.4, 0.2),
        goal_low=(-0.1 - 0.001, 0.8 + (-0.22 + DEPTH), -0.001 + 0.299),
        goal_high=(0.1 + 0.001, 0.9 + (-0.22 + DEPTH), 0.001 + 0.301),
        reset_low=(-0.1, 0.8, -0.001),
        reset_high=(0.1, 0.9, 0.001),
    )
)
