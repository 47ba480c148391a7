"""Putting a peg into a hole in the side of a box, and pulling one out."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, QPOS, QVEL, TASKS, Task, Triple, compiled
from medley.envs.metaworld.tasks.lifting import AFTER_HEIGHTS, MAX_PLACE, approach, keep_heights, pick_up
from medley.envs.metaworld.tasks.rewards import cage, hamacher, hamacher_single, plus, progress, tolerance
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
    scaled_distance,
    store,
    store1,
    tcp,
    vec,
)

# ---- peg-insert-side

GRASP, GRASP_MAT, HEAD, PEG, BOX, GOAL_SITE, RIGHT_1, LEFT_1, RIGHT_2, LEFT_2 = range(FIRST, FIRST + 10)
INSERT_REFS = (
    "site pegGrasp",
    "site_mat pegGrasp",
    "site pegHead",
    "body peg",
    "model_body box",
    "model_site goal",
    "site bottom_right_corner_collision_box_1",
    "site top_left_corner_collision_box_1",
    "site bottom_right_corner_collision_box_2",
    "site top_left_corner_collision_box_2",
)
HEAD_INIT = AFTER_HEIGHTS  # in s.v, three places


def insert_reset(s: Any) -> None:
    box = vec(s.goal[3:])
    put(s.v[HEAD_INIT:], load(s, HEAD))  # where it was before the peg was moved
    place_object(s, vec(s.goal), add(box, (0.03, 0.0, 0.13)), GOAL_SITE)
    store(s, BOX, box)
    keep_heights(s, load(s, PEG)[2], 0.11, vec(s.target))


def insert_evaluate_v1(s: Any) -> None:
    target = vec(s.target)
    place, place_head = distance(vec(s.obs[4:]), target), distance(load(s, HEAD), target)
    held, reward = pick_up(s, weight=1.0)
    if held:
        reward += progress(s.v[MAX_PLACE], place if place_head <= 0.05 else place_head)
    report_v1(s, reward, place <= 0.07, place)


@compiled
def _between(x: float, a: float, b: float) -> bool:
    return a <= x <= b if b >= a else b <= x <= a


@compiled
def _prism_tolerance(x: Triple, zero: Triple, one: Triple) -> float:
    """Within the box between two corners: the product of how far along each side; 1 outside."""
    if not (_between(x[0], zero[0], one[0]) and _between(x[1], zero[1], one[1]) and _between(x[2], zero[2], one[2])):
        return 1.0
    return (
        (x[0] - zero[0])
        / (one[0] - zero[0])
        * ((x[1] - zero[1]) / (one[1] - zero[1]))
        * ((x[2] - zero[2]) / (one[2] - zero[2]))
    )


def insert_evaluate_v2(s: Any) -> None:
    obj, head, target, fingers = vec(s.obs[4:]), load(s, HEAD), vec(s.target), tcp(s)
    scale = (1.0, 2.0, 2.0)
    to_object = distance(obj, fingers)
    to_target = scaled_distance(head, target, scale)
    in_place = tolerance(to_target, 0.0, 0.07, scaled_distance(vec(s.v[HEAD_INIT:]), target, scale))
    walls = hamacher(
        _prism_tolerance(head, load(s, RIGHT_2), load(s, LEFT_2)),
        _prism_tolerance(head, load(s, RIGHT_1), load(s, LEFT_1)),
    )
    in_place = hamacher(in_place, walls)
    grasp, single = cage(s, obj, vec(s.obj_init), radius=0.0075, pad_reach=0.03, xz_reach=0.005)
    lifted = s.obs[3] > 0 and obj[2] - 0.01 > s.obj_init[2]
    if to_object < 0.08 and lifted:
        grasp, single = 1.0, False
    reward = hamacher_single(grasp, in_place, single)
    if to_object < 0.08 and lifted:
        reward += 1.0 + 5 * in_place
    if to_target <= 0.07:
        reward = 10.0
    grasped = flag(to_object < 0.02 and lifted)
    report(s, reward, flag(to_target <= 0.07), flag(to_object <= 0.03), grasped, grasp, in_place, to_target)


TASKS.add(
    Task(
        name="peg-insert-side",
        model="sawyer_peg_insertion_side",
        refs=INSERT_REFS,
        reset=insert_reset,
        objects=object_with_matrix,
        evaluate_v1=insert_evaluate_v1,
        evaluate_v2=insert_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.35 + 0.03, 0.4, -0.001 + 0.13),
        goal_high=(-0.25 + 0.03, 0.7, 0.001 + 0.13),
        reset_low=(0.0, 0.5, 0.02, -0.35, 0.4, -0.001),
        reset_high=(0.2, 0.7, 0.02, -0.25, 0.7, 0.001),
        min_distance=0.1,
    )
)

# ---- peg-unplug-side

PLUG_END, PLUG_QUAT, WALL, UNPLUG_GOAL_SITE = range(FIRST, FIRST + 4)
UNPLUG_REFS = ("site pegEnd", "body_quat plug1", "model_body box", "model_site goal")
UNPLUG_MAX_PLACE = 0  # in s.v


def unplug_reset(s: Any) -> None:
    wall = vec(s.goal)
    store(s, WALL, wall)
    plug = add(wall, (0.044, 0.0, 0.131))
    # Straight, and not moving; but it goes on turning as it did (it falls while the hand comes to rest).
    for i in range(3):
        store1(s, QPOS, 9 + i, plug[i])
        store1(s, QPOS, 13 + i, 0.0)
        store1(s, QVEL, 9 + i, 0.0)
    store1(s, QPOS, 12, 1.0)
    forward(s)
    put(s.obj_init, load(s, PLUG_END))
    target = add(plug, (0.15, 0.0, 0.0))
    put(s.target, target)
    store(s, UNPLUG_GOAL_SITE, target)
    s.v[UNPLUG_MAX_PLACE] = distance(target, vec(s.obj_init))


def unplug_evaluate_v1(s: Any) -> None:
    obj, fingers, target = vec(s.obs[4:]), tcp(s), vec(s.target)
    place = distance_xy(obj, target)
    reward = approach(s, obj, fingers, 0.05, 2.0, s.hand_init[2])
    if distance(obj, fingers) < 0.05:
        reward += progress(s.v[UNPLUG_MAX_PLACE], place)
    report_v1(s, reward, place <= 0.07, place)


def unplug_evaluate_v2(s: Any) -> None:
    obj, target, start = vec(s.obs[4:]), vec(s.target), vec(s.obj_init)
    to_object, to_target = distance(obj, tcp(s)), distance(obj, target)
    grasp, single = cage(s, obj, start, radius=0.025, xz_reach=0.005, effort=0.8)
    in_place = tolerance(to_target, 0.0, 0.05, distance(start, target))
    pulled = s.obs[3] > 0.5 and obj[0] - start[0] > 0.015
    reward = 2 * grasp
    if pulled and to_object < 0.035:
        reward = plus(plus(1.0, 2 * grasp, single), 5 * in_place, single)
    if to_target <= 0.05:
        reward = 10.0
    report(s, reward, flag(to_target <= 0.07), flag(to_object <= 0.03), flag(pulled), grasp, in_place, to_target)


TASKS.add(
    Task(
        name="peg-unplug-side",
        model="sawyer_peg_unplug_side",
        refs=UNPLUG_REFS,
        reset=unplug_reset,
        objects=object_with_quat,
        evaluate_v1=unplug_evaluate_v1,
        evaluate_v2=unplug_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(-0.25 + 0.194, 0.6, -0.001 + 0.131),
        goal_high=(-0.15 + 0.194, 0.8, 0.001 + 0.131),
        reset_low=(-0.25, 0.6, -0.001),
        reset_high=(-0.15, 0.8, 0.001),
        settles_by_goal=True,
    )
)
