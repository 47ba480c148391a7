"""Turning a faucet's handle one way or the other."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, TASKS, Task, Triple, compiled
from medley.envs.metaworld.tasks.rewards import gaussian_tolerance, pull_reward, tolerance
from medley.envs.metaworld.tasks.shared import (
    add,
    body_quat,
    distance,
    flag,
    forward,
    load,
    place_fixture,
    put_object,
    report,
    report_v1,
    tcp,
    vec,
)

HANDLE, FAUCET_QUAT, FAUCET, GOAL_SITE = range(FIRST, FIRST + 4)
OPEN_REFS = ("site handleStartOpen", "body_quat faucetBase", "model_body faucetBase", "model_site goal_open")
CLOSE_REFS = ("site handleStartClose", "body_quat faucetBase", "model_body faucetBase", "model_site goal_close")
HANDLE_LENGTH = 0.175
RADIUS = 0.07  # how close to the target counts


def objects(s: Any) -> None:
    put_object(s, 4, add(load(s, HANDLE), (0.0, 0.0, -0.01)), body_quat(s, FAUCET_QUAT))


@compiled
def _place(s: Any, way: float) -> None:
    place_fixture(s, FAUCET, HANDLE, add(vec(s.goal), (way * HANDLE_LENGTH, 0.0, 0.125)), GOAL_SITE)


def open_reset(s: Any) -> None:
    _place(s, 1.0)


def close_reset(s: Any) -> None:
    _place(s, -1.0)
    forward(s)


def evaluate_v1(s: Any) -> None:
    obj, target = vec(s.obs[4:]), vec(s.target)
    pull = distance(obj, target)
    reward = pull_reward(distance(obj, tcp(s)), pull, distance(target, vec(s.obj_init)))
    report_v1(s, reward, pull <= RADIUS, pull, grasp_success=1.0)


@compiled
def _evaluate_v2(s: Any, obj: Triple) -> None:
    start, target = vec(s.obj_init), vec(s.target)
    to_target, to_object = distance(obj, target), distance(obj, tcp(s))
    in_place = tolerance(to_target, 0.0, RADIUS, abs(distance(start, target) - RADIUS))
    reach = gaussian_tolerance(to_object, 0.0, 0.01, abs(distance(start, vec(s.init_tcp)) - 0.01))
    reward = 10.0 if to_target <= RADIUS else (2 * reach + 3 * in_place) * 2
    report(s, reward, flag(to_target <= RADIUS), flag(to_object <= 0.01), 1.0, reach, in_place, to_target)


def open_evaluate_v2(s: Any) -> None:
    _evaluate_v2(s, add(vec(s.obs[4:]), (-0.04, 0.0, 0.03)))


def close_evaluate_v2(s: Any) -> None:
    _evaluate_v2(s, vec(s.obs[4:]))


TASKS.add(
    Task(
        name="faucet-open",
        model="sawyer_faucet",
        refs=OPEN_REFS,
        reset=open_reset,
        objects=objects,
        evaluate_v1=evaluate_v1,
        evaluate_v2=open_evaluate_v2,
        hand_init=(0.0, 0.4, 0.2),
        hand_low=(-0.5, 0.40, -0.15),
        goal_low=(-0.5, 0.40, -0.15),
        goal_high=(0.5, 1, 0.5),
        reset_low=(-0.05, 0.8, 0.0),
        reset_high=(0.05, 0.85, 0.0),
    )
)
TASKS.add(
    Task(
        name="faucet-close",
        model="sawyer_faucet",
        refs=CLOSE_REFS,
        reset=close_reset,
        objects=objects,
        evaluate_v1=evaluate_v1,
        evaluate_v2=close_evaluate_v2,
        hand_init=(0.0, 0.4, 0.2),
        hand_low=(-0.5, 0.40, -0.15),
        goal_low=(-0.5, 0.40, -0.15),
        goal_high=(0.5, 1, 0.5),
        reset_low=(-0.1, 0.8, 0.0),
        reset_high=(0.1, 0.85, 0.0),
    )
)
