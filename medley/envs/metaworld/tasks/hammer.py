"""Driving a nail into a block with a hammer."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task
from medley.envs.metaworld.tasks.lifting import MAX_PLACE, grip_bonus, keep_heights, lifting
from medley.envs.metaworld.tasks.rewards import WITH_CAGING, alignment, progress, tolerance
from medley.envs.metaworld.tasks.shared import (
    add,
    body_quat,
    distance,
    flag,
    load,
    load1,
    put,
    put_object,
    report,
    set_free_object,
    tcp,
    vec,
)
from medley.envs.metaworld.tasks.tools import cage_handle, tool_reward

HAMMER, HAMMER_QUAT, HEAD, NAIL, NAIL_QUAT, NAIL_JOINT, NAIL_HEAD, GOAL = range(FIRST, FIRST + 8)
REFS = (
    "body hammer",
    "body_quat hammer",
    "geom HammerHead",
    "body nail_link",
    "body_quat nail_link",
    "joint NailSlideJoint",
    "site nailHead",
    "site goal",
)
HALF_HANDLE = 0.07


def objects(s: Any) -> None:
    put_object(s, 4, load(s, HAMMER), body_quat(s, HAMMER_QUAT))
    put_object(s, 11, load(s, NAIL), body_quat(s, NAIL_QUAT))


def reset(s: Any) -> None:
    hammer, target = vec(s.goal), load(s, GOAL)  # block and nail are where the model has them
    put(s.obj_init, hammer)
    put(s.target, target)
    set_free_object(s, hammer)
    # The way from where the hammer is lifted leads back to where it was, instead of to the nail, as in the package.
    keep_heights(s, load(s, HAMMER)[2], 0.09, hammer)
    s.v[MAX_PLACE] += abs(hammer[1] - target[1])


def evaluate_v1(s: Any) -> None:
    # The site at the nail's head belongs to the block: it does not move with the nail.
    hammer, nail = vec(s.obs[4:]), load(s, NAIL_HEAD)
    reach, hit = distance(hammer, tcp(s)), distance(nail, load(s, HEAD))
    reward = -reach + (grip_bonus(s) if reach < 0.05 else 0.0)
    held, pick_reward = lifting(s, hammer[2], reach)
    reward += pick_reward
    if held and reach < 0.1:
        reward += progress(s.v[MAX_PLACE], hit + abs(nail[1] - s.target[1]))
    report(s, reward, flag(load1(s, NAIL_JOINT, 0) > 0.09), 0.0, 0.0, 0.0, 0.0, 0.0)


def evaluate_v2(s: Any) -> None:
    hammer = vec(s.obs[4:])
    head = add(hammer, (0.16, 0.06, 0.0))
    aligned = alignment(s, 1.0, 0.0, 0.4)
    grasp, single = cage_handle(s, hammer, HALF_HANDLE, WITH_CAGING)
    in_place = 0.1 * flag(head[2] > 0.02) + 0.9 * tolerance(distance(vec(s.target), head), 0.0, 0.02, 0.2)
    reward = tool_reward(grasp, single, in_place, aligned)
    success = load1(s, NAIL_JOINT, 0) > 0.09
    if success and reward > 5.0:  # not for a nail that was driven in some other way
        reward = 10.0
    report(s, reward, flag(success), aligned, flag(grasp >= 0.5), grasp, in_place, 0.0)


TASKS.add(
    Task(
        name="hammer",
        model="sawyer_hammer",
        refs=REFS,
        reset=reset,
        objects=objects,
        evaluate_v1=evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=(0.0, 0.4, 0.2),
        goal_low=(0.2399, 0.7399, 0.109),
        goal_high=(0.2401, 0.7401, 0.111),
        reset_low=(-0.1, 0.4, 0.0),
        reset_high=(0.1, 0.5, 0.0),
    )
)
