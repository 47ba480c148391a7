"""Sliding a window open or shut."""

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
from medley.envs.metaworld.tasks.rewards import gaussian_tolerance, hamacher, tolerance, uncut_progress
from medley.envs.metaworld.tasks.shared import (
    NO_QUAT,
    add,
    distance,
    flag,
    load,
    place_fixture,
    put,
    put_object,
    report,
    report_v1,
    store1,
    tcp,
    vec,
)

HANDLE, WINDOW, GOAL_SITE = range(FIRST, FIRST + 3)
OPEN_REFS = ("site handleOpenStart", "model_body window", "model_site goal")
CLOSE_REFS = ("site handleCloseStart", "model_body window", "model_site goal")
HANDLE_INIT = 0  # in s.v, three places
WAY = 0.2  # how far the window slides
RADIUS = 0.05  # how close to the target counts
HAND_INIT = single_precision(0.0, 0.4, 0.2)


def objects(s: Any) -> None:
    put_object(s, 4, load(s, HANDLE), NO_QUAT)


@compiled
def _place(s: Any, target: Triple, slid: float) -> None:
    """Put the window where the goal says. The joint is set without computing positions anew, so the first
    observation of an episode shows the handle as if it stood at 0."""
    place_fixture(s, WINDOW, HANDLE, target, GOAL_SITE)
    put(s.v[HANDLE_INIT:], add(load(s, HANDLE), (slid, 0.0, 0.0)))
    store1(s, QPOS, 9, slid)


def open_reset(s: Any) -> None:
    _place(s, add(vec(s.goal), (WAY, 0.0, 0.0)), 0.0)


def close_reset(s: Any) -> None:
    _place(s, vec(s.goal), WAY)


def evaluate_v1(s: Any) -> None:
    obj = vec(s.obs[4:])
    pull, reach = abs(obj[0] - s.target[0]), distance(obj, tcp(s))
    reward = -reach
    if reach < 0.05:  # not cut off at 0, unlike `pull_reward`
        reward += uncut_progress(WAY, pull)
    report_v1(s, reward, pull <= RADIUS, pull, grasp_success=1.0)


@compiled
def _evaluate_v2(s: Any, start: float, bell: bool) -> None:
    """`start` is the x from which the way to the target is measured, `bell` the shape of the reward for reaching."""
    obj, target = vec(s.obs[4:]), s.target[0]
    to_target, to_object = abs(obj[0] - target), distance(obj, tcp(s))
    in_place = tolerance(to_target, 0.0, RADIUS, abs(abs(start - target) - RADIUS))
    margin = abs(distance(vec(s.v[HANDLE_INIT:]), vec(s.init_tcp)) - 0.02)
    reach = gaussian_tolerance(to_object, 0.0, 0.02, margin) if bell else tolerance(to_object, 0.0, 0.02, margin)
    reward = 10 * hamacher(reach, in_place)
    report(s, reward, flag(to_target <= RADIUS), flag(to_object <= 0.05), 1.0, reach, in_place, to_target)


def open_evaluate_v2(s: Any) -> None:
    _evaluate_v2(s, s.obj_init[0], False)


def close_evaluate_v2(s: Any) -> None:
    _evaluate_v2(s, s.v[HANDLE_INIT], True)


TASKS.add(
    Task(
        name="window-open",
        model="sawyer_window_horizontal",
        refs=OPEN_REFS,
        reset=open_reset,
        objects=objects,
        evaluate_v1=evaluate_v1,
        evaluate_v2=open_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(-0.1, 0.7, 0.16),
        reset_high=(0.1, 0.9, 0.16),
    )
)
TASKS.add(
    Task(
        name="window-close",
        model="sawyer_window_horizontal",
        refs=CLOSE_REFS,
        reset=close_reset,
        objects=objects,
        evaluate_v1=evaluate_v1,
        evaluate_v2=close_evaluate_v2,
        hand_init=HAND_INIT,
        goal_low=HAND_LOW,
        goal_high=HAND_HIGH,
        reset_low=(0.0, 0.75, 0.2),
        reset_high=(0.0, 0.9, 0.2),
    )
)
