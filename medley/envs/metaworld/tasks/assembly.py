"""Putting a nut with a handle over a peg, and taking it off."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled, single_precision
from medley.envs.metaworld.tasks.lifting import HEIGHT, HEIGHT_TARGET, MAX_PLACE, approach, keep_heights, lifting
from medley.envs.metaworld.tasks.rewards import (
    WITH_CAGING,
    WITH_REACHING,
    alignment,
    funnel,
    progress,
    tolerance,
    uncut_progress,
)
from medley.envs.metaworld.tasks.shared import (
    add,
    distance,
    distance_xy,
    flag,
    forward,
    load,
    object_with_quat,
    put,
    report,
    scaled_distance,
    set_free_object,
    store,
    sub,
    tcp,
    vec,
)
from medley.envs.metaworld.tasks.tools import cage_handle, tool_reward

HANDLE, NUT_QUAT, NUT, NUT_CENTER, PEG, PEG_TOP_SITE = range(FIRST, FIRST + 6)
REFS = (
    "site RoundNut-8",
    "body_quat RoundNut",
    "body RoundNut",
    "site RoundNut",
    "model_body peg",
    "model_site pegTop",
)
HALF_HANDLE = 0.01  # as the rewards have it
LYING = 0.707  # w and z of the nut's quaternion when it lies flat


# ---- assembly


def assembly_reset(s: Any) -> None:
    nut, target = vec(s.goal), vec(s.goal[3:])
    put(s.obj_init, nut)
    put(s.target, target)
    set_free_object(s, nut)
    store(s, PEG, sub(target, (0.0, 0.0, 0.05)))
    store(s, PEG_TOP_SITE, target)  # relative to the peg, so that it is drawn in the wrong place, as in the package
    keep_heights(s, load(s, HANDLE)[2], 0.1, target)


def assembly_evaluate_v1(s: Any) -> None:
    handle, nut, fingers, target = vec(s.obs[4:]), load(s, NUT), tcp(s), vec(s.target)
    reach, place = distance(handle, fingers), distance_xy(nut, target)
    to_table = abs(nut[2] - s.v[HEIGHT])
    reward = approach(s, handle, fingers, 0.04, 1.0, s.init_tcp[2])
    held, pick_reward = lifting(s, nut[2], reach, near=0.04, hold=0.03)
    over_peg = abs(nut[0] - target[0]) < 0.03 and abs(nut[1] - target[1]) < 0.03
    reward += 100 * s.v[HEIGHT_TARGET] if over_peg else pick_reward
    if over_peg or held:
        place_reward = uncut_progress(s.v[MAX_PLACE], place)
        if over_peg:
            place_reward += 2 * uncut_progress(s.v[HEIGHT_TARGET], to_table, 0.003, 0.0003)
        reward += max(place_reward, 0.0)
    report(s, reward, flag(over_peg and to_table <= 0.04), 0.0, 0.0, 0.0, 0.0, 0.0)


@compiled
def _over_peg(center: Triple, target: Triple) -> tuple[float, bool]:
    """How near the nut is to going over the peg, and whether it is on it. The way leads through a funnel: high
    while far to the side, down once above the peg. The funnel is wider for a nut that is on."""
    radius = distance_xy(center, target)
    success = radius < 0.02 and target[2] - center[2] > 0.0
    width = 0.02 if success else 0.01
    way = (target[0], target[1], funnel(radius, width, 0.02, 0.2))
    lifted = flag(center[2] > 0.02 or radius < width)
    return 0.1 * lifted + 0.9 * tolerance(scaled_distance(center, way, (1.0, 1.0, 3.0)), 0.0, 0.02, 0.4), success


def assembly_evaluate_v2(s: Any) -> None:
    aligned = alignment(s, LYING, LYING, 0.4)
    grasp, single = cage_handle(s, vec(s.obs[4:]), HALF_HANDLE, WITH_REACHING)
    in_place, success = _over_peg(load(s, NUT_CENTER), vec(s.target))
    reward = 10.0 if success else tool_reward(grasp, single, in_place, aligned)
    report(s, reward, flag(success), aligned, flag(grasp >= 0.5), grasp, in_place, 0.0)


TASKS.add(
    Task(
        name="assembly",
        model="sawyer_assembly_peg",
        refs=REFS,
        reset=assembly_reset,
        objects=object_with_quat,
        evaluate_v1=assembly_evaluate_v1,
        evaluate_v2=assembly_evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.75, 0.1),
        goal_high=(0.1, 0.85, 0.1),
        reset_low=(0.0, 0.6, 0.02, -0.1, 0.75, 0.1),
        reset_high=(0.0, 0.6, 0.02, 0.1, 0.85, 0.1),
        min_distance=0.1,
    )
)

# ---- disassemble


def disassemble_reset(s: Any) -> None:
    nut = vec(s.goal)
    put(s.obj_init, nut)
    put(s.target, add(nut, (0.0, 0.0, 0.15)))
    store(s, PEG, add(nut, (0.0, 0.0, 0.03)))
    store(s, PEG_TOP_SITE, add(nut, (0.0, 0.0, 0.08)))
    forward(s)
    set_free_object(s, nut)
    keep_heights(s, load(s, NUT)[2], 0.05, vec(s.target))


def disassemble_evaluate_v1(s: Any) -> None:
    handle, nut, peg, fingers, target = vec(s.obs[4:]), load(s, NUT), load(s, PEG), tcp(s), vec(s.target)
    reach, place = distance(handle, fingers), distance(handle, target)
    reward = approach(s, handle, fingers, 0.04, 2.0, s.init_tcp[2])
    held, pick_reward = lifting(s, handle[2], reach, near=0.04, hold=0.04)
    reward += pick_reward
    if abs(nut[0] - peg[0]) > 0.05 or abs(nut[1] - peg[1]) > 0.05:
        reward = 100 * s.v[HEIGHT_TARGET]
    if held and reach < 0.03:
        reward += progress(s.v[MAX_PLACE], place)
    report(s, reward, flag(s.obs[6] > target[2]), 0.0, 0.0, 0.0, 0.0, 0.0)


def disassemble_evaluate_v2(s: Any) -> None:
    center, target = load(s, NUT_CENTER), vec(s.target)
    aligned = alignment(s, LYING, LYING, 0.4)
    grasp, single = cage_handle(s, vec(s.obs[4:]), HALF_HANDLE, WITH_CAGING)
    above = add(target, (0.0, 0.0, 0.1))
    in_place = 0.1 * flag(center[2] > 0.02) + 0.9 * tolerance(distance(above, center), 0.0, 0.02, 0.2)
    success = s.obs[6] > target[2]
    reward = 10.0 if success else tool_reward(grasp, single, in_place, aligned)
    report(s, reward, flag(success), aligned, flag(grasp >= 0.5), grasp, in_place, 0.0)


TASKS.add(
    Task(
        name="disassemble",
        model="sawyer_assembly_peg",
        refs=REFS,
        reset=disassemble_reset,
        objects=object_with_quat,
        evaluate_v1=disassemble_evaluate_v1,
        evaluate_v2=disassemble_evaluate_v2,
        hand_init=single_precision(0.0, 0.4, 0.2),
        goal_low=(-0.1, 0.6, 0.1699 + 0.005),
        goal_high=(0.1, 0.75, 0.1701 + 0.005),
        reset_low=(0.0, 0.6, 0.025, -0.1, 0.6, 0.1699),
        reset_high=(0.1, 0.75, 0.02501, 0.1, 0.75, 0.1701),
        min_distance=0.1,
        settles_by_goal=True,
    )
)
