"""Pushing a mug under a coffee machine, and pulling it away from there."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, QPOS, QVEL, TASKS, Task, Triple, compiled
from medley.envs.metaworld.tasks.rewards import WITH_REACHING, cage, hamacher_single, plus, progress, tolerance
from medley.envs.metaworld.tasks.shared import (
    add,
    distance,
    distance_xy,
    flag,
    forward,
    norm,
    object_with_matrix,
    put,
    report,
    report_v1,
    scaled_distance,
    store,
    store1,
    tcp,
    vec,
)

MUG, MUG_MAT, MACHINE, GOAL_SITE = range(FIRST, FIRST + 4)
REFS = ("body obj", "geom_mat mug", "model_body coffee_machine", "model_site mug_goal")


@compiled
def place_mug(s: Any, position: Triple) -> None:
    """Put the mug somewhere. Its free joint comes first in this model; the velocities that the package clears are
    where other models have their object, here the arm's last joints and the fingers. The mug keeps its own."""
    for i in range(3):
        store1(s, QPOS, i, position[i])
    for i in range(9, 15):
        store1(s, QVEL, i, 0.0)
    forward(s)


@compiled
def _reset(s: Any, machine: Triple) -> None:
    mug, target = vec(s.goal), vec(s.goal[3:])
    # The package moves the machine after the mug, but it has reset once before: the machine stands there already.
    store(s, MACHINE, machine)
    store(s, GOAL_SITE, target)
    place_mug(s, mug)
    put(s.obj_init, mug)
    put(s.target, target)


@compiled
def _evaluate_v1(s: Any, reach_reward: float) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    reward = reach_reward
    if distance(obj, tcp(s)) < 0.05:
        reward += progress(distance_xy(start, target), distance_xy(obj, target))
    away = distance(obj, target)
    report_v1(s, reward, away <= 0.07, away)


def pull_reset(s: Any) -> None:
    _reset(s, add(vec(s.goal), (0.0, 0.22, 0.0)))


def push_reset(s: Any) -> None:
    _reset(s, add(vec(s.goal[3:]), (0.0, 0.22, 0.0)))


def pull_evaluate_v1(s: Any) -> None:
    # Not a distance from the fingers but from the origin: neither point is subtracted from the other.
    _evaluate_v1(s, -norm((s.obs[4], s.obs[5], s.init_tcp[2])))


def push_evaluate_v1(s: Any) -> None:
    _evaluate_v1(s, -distance(vec(s.obs[4:]), tcp(s)))


def evaluate_v2(s: Any) -> None:
    obj, start, target = vec(s.obs[4:]), vec(s.obj_init), vec(s.target)
    scale = (2.0, 2.0, 1.0)
    scaled = scaled_distance(obj, target, scale)
    in_place = tolerance(scaled, 0.0, 0.05, scaled_distance(start, target, scale))
    to_object = distance(obj, tcp(s))
    grasp, single = cage(
        s, obj, start, radius=0.02, xz_reach=0.05, reach_radius=0.04, effort=0.7, average=WITH_REACHING
    )
    reward = hamacher_single(grasp, in_place, single)
    if to_object < 0.04 and s.obs[3] > 0:
        reward = plus(reward, 1.0 + 5.0 * in_place, single)
    if scaled < 0.05:
        reward = 10.0
    away = distance(obj, target)
    # There is never a grasp: the geom whose contacts would tell is the mug's visual mesh, which touches nothing.
    report(s, reward, flag(away <= 0.07), flag(to_object <= 0.03), 0.0, grasp, in_place, away)


TASKS.add(
    Task(
        name="coffee-pull",
        model="sawyer_coffee",
        refs=REFS,
        reset=pull_reset,
        objects=object_with_matrix,
        evaluate_v1=pull_evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=(0.0, 0.4, 0.2),
        goal_low=(-0.1, 0.55, -0.001),
        goal_high=(0.1, 0.65, 0.001),
        reset_low=(-0.05, 0.7, -0.001, -0.1, 0.55, -0.001),
        reset_high=(0.05, 0.75, 0.001, 0.1, 0.65, 0.001),
        min_distance=0.15,
    )
)
TASKS.add(
    Task(
        name="coffee-push",
        model="sawyer_coffee",
        refs=REFS,
        reset=push_reset,
        objects=object_with_matrix,
        evaluate_v1=push_evaluate_v1,
        evaluate_v2=evaluate_v2,
        hand_init=(0.0, 0.4, 0.2),
        goal_low=(-0.05, 0.7, -0.001),
        goal_high=(0.05, 0.75, 0.001),
        reset_low=(-0.1, 0.55, -0.001, -0.05, 0.7, -0.001),
        reset_high=(0.1, 0.65, 0.001, 0.05, 0.75, 0.001),
        min_distance=0.15,
    )
)
