"""Picking things up where something is in the way: out of a hole, onto a shelf, from bin to bin."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled, single_precision
from medley.envs.metaworld.tasks.lifting import (
    AFTER_HEIGHTS,
    HEIGHT,
    HEIGHT_TARGET,
    MAX_PLACE,
    grip_bonus,
    keep_heights,
    lifting,
    pick_and_place,
)
from medley.envs.metaworld.tasks.pick_place import evaluate_v1
from medley.envs.metaworld.tasks.rewards import (
    PLAIN,
    above,
    cage,
    funnel,
    hamacher,
    hamacher_single,
    lifted,
    plus,
    progress,
    report_v2,
    rounded,
    tolerance,
)
from medley.envs.metaworld.tasks.shared import (
    add,
    distance,
    distance_xy,
    flag,
    forward,
    load,
    object_with_matrix,
    object_with_quat,
    place_object,
    put,
    report,
    report_v1,
    set_free_object,
    store,
    tcp,
    vec,
)

# ---- pick-out-of-hole

PUCK, PUCK_QUAT, HOLE_GOAL_SITE = range(FIRST, FIRST + 3)
HOLE_REFS = ("body obj", "body_quat obj", "model_site goal")


def hole_reset(s: Any) -> None:
    target = vec(s.goal[3:])
    place_object(s, vec(s.goal), target, HOLE_GOAL_SITE)
    keep_heights(s, load(s, PUCK)[2], 0.11, target)


def hole_evaluate_v1(s: Any) -> None:
    reward, gap = pick_and_place(s, base=s.v[HEIGHT] - 0.02)
    report_v1(s, reward, gap <= 0.07, gap)


def hole_evaluate_v2(s: Any) -> None:
    obj, start, target, fingers = vec(s.obs[4:]), vec(s.obj_init), vec(s.target), tcp(s)
    to_object, to_target = distance(obj, fingers), distance(obj, target)
    in_place = tolerance(to_target, 0.0, 0.02, distance(start, target))
    clear = above(fingers[2], funnel(distance_xy(fingers, start), 0.03, 0.015, 0.15), 0.02)
    grasp, single = cage(s, obj, start, radius=0.015, pad_reach=0.02, xz_reach=0.03, effort=0.1)
    reward = hamacher_single(grasp, in_place, single)
    grasped = to_object < 0.04 and obj[2] - 0.02 > start[2] and s.obs[3] >= 0.33
    if grasped:
        reward = plus(reward, 1.0 + 5.0 * hamacher(in_place, clear), single)
    report_v2(s, reward, 0.07, flag(grasped), grasp, in_place)


TASKS.add(
    Task(
        name="pick-out-of-hole",
        model="sawyer_pick_out_of_hole",
        refs=HOLE_REFS,
        reset=hole_reset,
        objects=object_with_quat,
        evaluate_v1=hole_evaluate_v1,
        evaluate_v2=hole_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        hand_low=(-0.5, 0.40, -0.05),
        goal_low=(-0.1, 0.5, 0.15),
        goal_high=(0.1, 0.6, 0.3),
        reset_low=(0.0, 0.75, 0.02, -0.1, 0.5, 0.15),
        reset_high=(0.0, 0.75, 0.02, 0.1, 0.6, 0.3),
        min_distance=0.15,
    )
)

# ---- shelf-place

BLOCK, BLOCK_MAT, BLOCK_GEOM, SHELF_SITE, SHELF = range(FIRST, FIRST + 5)
SHELF_REFS = ("body obj", "geom_mat objGeom", "geom_id objGeom", "model_site goal", "model_body shelf")


def shelf_reset(s: Any) -> None:
    block = (s.goal[0], s.goal[1], load(s, BLOCK)[2])  # as high as it lay while the hand came to rest
    shelf = (s.goal[3], s.goal[4], s.goal[5] - 0.3)
    put(s.obj_init, block)
    store(s, SHELF, shelf)
    forward(s)
    put(s.target, add(load(s, SHELF_SITE), shelf))
    set_free_object(s, block)
    keep_heights(s, load(s, BLOCK)[2], 0.04, vec(s.target))


def shelf_evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    in_place = tolerance(to_target, 0.0, 0.05, distance(start, target))
    grasp, single = cage(s, obj, start, radius=0.02, average=PLAIN)
    reward = hamacher_single(grasp, in_place, single)
    if 0.0 < obj[2] < 0.24 and target[0] - 0.15 < obj[0] < target[0] + 0.15:  # lower than the shelf
        front = target[1] - 3 * 0.05
        if front < obj[1] < target[1]:
            loss = hamacher((obj[1] - front) / (3 * 0.05), (0.24 - obj[2]) / 0.24)
            in_place, single = min(max(in_place - loss, 0.0), 1.0), False
        elif obj[1] > target[1]:
            in_place = 0.0
    if to_object < 0.025 and s.obs[3] > 0 and obj[2] - 0.01 > start[2]:
        reward = plus(reward, 1.0 + 5.0 * in_place, single)
    report_v2(s, reward, 0.07, lifted(s, BLOCK_GEOM), grasp, in_place)


TASKS.add(
    Task(
        name="shelf-place",
        model="sawyer_shelf_placing",
        refs=SHELF_REFS,
        reset=shelf_reset,
        objects=object_with_matrix,
        evaluate_v1=evaluate_v1,
        evaluate_v2=shelf_evaluate_v2,
        hand_init=single_precision(0.0, 0.6, 0.2),
        goal_low=(-0.1, 0.8, 0.299),
        goal_high=(0.1, 0.9, 0.301),
        reset_low=(-0.1, 0.5, 0.019, -0.1, 0.8, 0.299),
        reset_high=(0.1, 0.6, 0.021, 0.1, 0.9, 0.301),
        min_distance=0.1,
    )
)

# ---- bin-picking

CUBE, CUBE_QUAT, BIN = range(FIRST, FIRST + 3)
BIN_REFS = ("body obj", "body_quat obj", "body bin_goal")
FIRST_GAP = AFTER_HEIGHTS  # in s.v: distance to the target after the first step; -1 until then


def bin_reset(s: Any) -> None:
    cube = (s.goal[0], s.goal[1], load(s, CUBE)[2])  # as high as it lay while the hand came to rest
    put(s.obj_init, cube)
    set_free_object(s, cube)
    put(s.target, load(s, BIN))
    keep_heights(s, load(s, CUBE)[2], 0.1, vec(s.target))
    s.v[MAX_PLACE] = distance_xy(cube, vec(s.target)) + s.v[HEIGHT_TARGET]
    s.v[FIRST_GAP] = -1.0


def bin_evaluate_v1(s: Any) -> None:
    obj, fingers, target = vec(s.obs[4:]), tcp(s), vec(s.target)
    reach, across, gap = distance(obj, fingers), distance_xy(obj, fingers), distance_xy(obj, target)
    over_bin = abs(obj[0] - target[0]) < 0.05 and abs(obj[1] - target[1]) < 0.05
    opening = rounded(-200 * s.action[3], True)
    if over_bin and obj[2] < s.v[HEIGHT] + 0.05:
        reward = opening + progress(s.v[MAX_PLACE], gap)
    else:
        reward = -reach if across < 0.06 else -across - abs(fingers[2] - s.init_tcp[2])
        if reach < 0.05:
            reward = -reach + grip_bonus(s)
        up, lift = lifting(s, obj[2], reach)
        reward += lift
        if up and reach < 0.1:
            reward += progress(s.v[MAX_PLACE], gap) + (opening if over_bin else 0.0)
    report(s, reward, flag(gap <= 0.05), 0.0, 0.0, 0.0, 0.0, gap)


@compiled
def _bin_floor(hand: Triple, way_down: Triple) -> float:
    return funnel(distance_xy(hand, way_down), 0.03, 0.02, 0.2)


def bin_evaluate_v2(s: Any) -> None:
    hand, obj, start, target = vec(s.obs), vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    to_target = distance(obj, target)
    if s.v[FIRST_GAP] < 0:
        s.v[FIRST_GAP] = to_target
    in_place = tolerance(to_target, 0.0, 0.05, s.v[FIRST_GAP])
    # Ways down over both bins, where the cube was and where it has to go.
    clear = above(hand[2], min(_bin_floor(hand, start), _bin_floor(hand, target)), 0.05)
    grasp, single = cage(s, obj, start, radius=0.015, effort=0.7)
    reward = hamacher_single(grasp, in_place, single)
    near = distance(obj, hand) < 0.04
    grasped = near and obj[2] - 0.02 > start[2] and s.obs[3] >= 0.43
    if grasped:
        reward = plus(reward, 1.0 + 5.0 * hamacher(clear, in_place), single)
    if to_target < 0.05:
        reward = 10.0
    report(s, reward, flag(to_target <= 0.05), flag(near), flag(grasped), grasp, in_place, to_target)


TASKS.add(
    Task(
        name="bin-picking",
        model="sawyer_bin_picking",
        refs=BIN_REFS,
        reset=bin_reset,
        objects=object_with_quat,
        evaluate_v1=bin_evaluate_v1,
        evaluate_v2=bin_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        hand_low=(-0.5, 0.40, 0.07),
        goal_low=(0.1199, 0.699, -0.001),
        goal_high=(0.1201, 0.701, 0.001),
        reset_low=(-0.21, 0.65, 0.02, 0.1199, 0.699, -0.001),
        reset_high=(-0.03, 0.75, 0.02, 0.1201, 0.701, 0.001),
    )
)
