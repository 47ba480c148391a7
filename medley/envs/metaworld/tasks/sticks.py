"""Moving a thermos with a stick: pushing it, and pulling it by its handle."""

from __future__ import annotations

from typing import Any

from medley.envs.metaworld.tasks.base import FIRST, QPOS, QVEL, TASKS, Task, Triple, compiled
from medley.envs.metaworld.tasks.lifting import AFTER_HEIGHTS, MAX_PLACE, grip_bonus, keep_heights, lifting
from medley.envs.metaworld.tasks.rewards import bonus, cage, hamacher_single, lifted, tolerance, uncut_progress
from medley.envs.metaworld.tasks.shared import (
    NO_QUAT,
    add,
    distance,
    distance_xy,
    flag,
    forward,
    load,
    matrix_to_quat,
    put,
    put_object,
    report,
    report_v1,
    scaled_distance,
    set_free_object,
    store,
    store1,
    tcp,
    touching,
    vec,
)

STICK, STICK_MAT, STICK_END, STICK_GEOM, THERMOS, INSERTION, GOAL_SITE = range(FIRST, FIRST + 7)
REFS = (
    "body stick",
    "body_mat stick",
    "site stick_end",
    "geom_id objGeom",
    "body object",
    "site insertion",
    "model_site goal",
)
STICK_INIT, MAX_MOVE = AFTER_HEIGHTS, AFTER_HEIGHTS + 3  # in s.v; STICK_INIT takes three places
STICK_Z = 0.02


@compiled
def _reset(s: Any, target_z: float, thermos_y: float) -> None:
    stick, target = (s.goal[0], s.goal[1], STICK_Z), (s.goal[3], s.goal[4], target_z)
    put(s.v[STICK_INIT:], stick)
    put(s.target, target)
    set_free_object(s, stick)
    # The thermos on its two slides. Of its velocities (15 and 16) only the second is cleared, as in the package.
    store1(s, QPOS, 16, 0.0)
    store1(s, QPOS, 17, thermos_y)
    store1(s, QVEL, 16, 0.0)
    forward(s)
    thermos = load(s, THERMOS)
    put(s.obj_init, thermos)
    store(s, GOAL_SITE, target)
    keep_heights(s, load(s, STICK)[2], 0.04, stick)  # the way is from the thermos to the stick
    s.v[MAX_MOVE] = distance_xy(thermos, target)


@compiled
def _reward_v1(s: Any, wide: float, narrow: float) -> tuple[float, float]:
    """The reward and the distance still to go. The thermos is taken to be at places 6 to 8 of the observation, which
    are the stick's height and the beginning of its quaternion, as in the package."""
    stick, thermos = vec(s.obs[4:]), vec(s.obs[6:])
    reach, place, move = distance(stick, tcp(s)), distance(stick, thermos), distance_xy(thermos, vec(s.target))
    reward = -reach + (grip_bonus(s) if reach < 0.05 else 0.0)
    held, pick_reward = lifting(s, stick[2], reach)
    reward += pick_reward
    if held and reach < 0.1:
        move_reward = uncut_progress(s.v[MAX_PLACE], place)
        if place < 0.05:
            move_reward += 1000 * (s.v[MAX_MOVE] - move) + 2000 * bonus(move, wide, narrow)
        reward += max(move_reward, 0.0)
    return reward, move


# ---- stick-push


def push_objects(s: Any) -> None:
    put_object(s, 4, load(s, STICK), matrix_to_quat(s, STICK_MAT))
    put_object(s, 11, add(load(s, INSERTION), (0.0, 0.09, 0.0)), NO_QUAT)


def push_reset(s: Any) -> None:
    _reset(s, load(s, INSERTION)[2], 0.0)


def push_evaluate_v1(s: Any) -> None:
    reward, move = _reward_v1(s, 0.001, 0.0001)
    # Success asks for a grasp, which version 1 never reports.
    report_v1(s, reward, False, move)


def push_evaluate_v2(s: Any) -> None:
    stick, thermos, target, start = vec(s.obs[4:]), vec(s.obs[11:]), vec(s.target), vec(s.v[STICK_INIT:])
    middle = add(stick, (0.015, 0.0, 0.0))
    to_stick, to_target = distance(middle, tcp(s)), distance(thermos, target)
    in_place = tolerance(distance(middle, target), 0.0, 0.12, distance(start, target) - 0.12)
    reward, _ = cage(s, middle, start, radius=0.04)
    grasp = reward
    raised = s.obs[3] > 0 and stick[2] - 0.01 > start[2]
    if to_stick < 0.02 and raised:
        grasp = 1.0
        thermos_in_place = tolerance(to_target, 0.0, 0.12, distance(vec(s.obj_init), target) - 0.12)
        reward = 10.0 if to_target <= 0.12 else 2.0 + 5 * in_place + 3 * thermos_in_place
    grasped = touching(s, STICK_GEOM) and raised
    success = flag(grasped and to_target <= 0.12)
    report(s, reward, success, flag(to_stick <= 0.03), flag(grasped), grasp, in_place, to_target)


TASKS.add(
    Task(
        name="stick-push",
        model="sawyer_stick_obj",
        refs=REFS,
        reset=push_reset,
        objects=push_objects,
        evaluate_v1=push_evaluate_v1,
        evaluate_v2=push_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        goal_low=(0.399, 0.55, 0.1319),
        goal_high=(0.401, 0.6, 0.1321),
        reset_low=(-0.08, 0.58, 0.000, 0.399, 0.55, 0.1319),
        reset_high=(-0.03, 0.62, 0.001, 0.401, 0.6, 0.1321),
        min_distance=0.1,
    )
)

# ---- stick-pull


def pull_objects(s: Any) -> None:
    put_object(s, 4, load(s, STICK), matrix_to_quat(s, STICK_MAT))
    put_object(s, 11, load(s, INSERTION), NO_QUAT)


def pull_reset(s: Any) -> None:
    _reset(s, STICK_Z, 0.09)


@compiled
def _inserted(handle: Triple, end: Triple) -> bool:
    return end[0] >= handle[0] and abs(end[1] - handle[1]) <= 0.040 and abs(end[2] - handle[2]) <= 0.060


def pull_evaluate_v1(s: Any) -> None:
    reward, move = _reward_v1(s, 0.01, 0.001)
    handle = vec(s.obs[11:])
    success = distance(handle, vec(s.target)) <= 0.12 and _inserted(handle, load(s, STICK_END))
    report_v1(s, reward, success, move)


def pull_evaluate_v2(s: Any) -> None:
    stick, handle, target, start = vec(s.obs[4:]), vec(s.obs[11:]), vec(s.target), vec(s.v[STICK_INIT:])
    offset, scale = (0.05, 0.0, 0.0), (1.0, 1.0, 2.0)
    thermos, thermos_init = add(handle, offset), vec(s.obj_init)
    to_stick, to_target = distance(stick, tcp(s)), distance(handle, target)
    inserted = _inserted(handle, load(s, STICK_END))
    margin = scaled_distance(start, add(thermos_init, offset), scale)
    in_place = tolerance(scaled_distance(stick, thermos, scale), 0.0, 0.05, margin)

    # The caging is measured from where the thermos was, not the stick, as in the package.
    grasp, single = cage(s, stick, thermos_init, radius=0.014)
    held = to_stick < 0.02 and s.obs[3] > 0 and stick[2] - 0.01 > start[2]
    if held:
        grasp, single = 1.0, False
    reward = hamacher_single(grasp, in_place, single)
    if held and inserted:
        stick_at_target = tolerance(distance(stick, target), 0.0, 0.05, distance(start, target))
        thermos_at_target = tolerance(distance(thermos, target), 0.0, 0.05, distance(thermos_init, target))
        reward = 10.0 if to_target <= 0.12 else 6.0 + reward + 2 * stick_at_target + thermos_at_target
    elif held:
        reward += 1.0 + 5 * in_place
    success = flag(to_target <= 0.12 and inserted)
    report(s, reward, success, flag(to_stick <= 0.03), lifted(s, STICK_GEOM), grasp, in_place, to_target)


TASKS.add(
    Task(
        name="stick-pull",
        model="sawyer_stick_obj",
        refs=REFS,
        reset=pull_reset,
        objects=pull_objects,
        evaluate_v1=pull_evaluate_v1,
        evaluate_v2=pull_evaluate_v2,
        hand_init=(0.0, 0.6, 0.2),
        hand_low=(-0.5, 0.35, 0.05),
        goal_low=(0.35, 0.45, 0.0199),
        goal_high=(0.45, 0.55, 0.0201),
        reset_low=(-0.1, 0.55, 0.000, 0.35, 0.45, 0.0199),
        reset_high=(0.0, 0.65, 0.001, 0.45, 0.55, 0.0201),
        min_distance=0.1,
    )
)
