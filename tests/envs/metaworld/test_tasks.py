"""Task functions where whole episodes seldom lead: odd states, real grasps, all orientations, success by policy."""

from __future__ import annotations

import itertools
from typing import Any

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from medley.envs.metaworld.config import MetaworldConfig
from medley.envs.metaworld.env import MetaworldEnv
from medley.envs.metaworld.simulator import Simulator
from medley.envs.metaworld.slot import SLOT
from medley.envs.metaworld.tasks import TASKS
from medley.envs.metaworld.tasks.base import COMMON_REFS
from medley.envs.metaworld.tasks.shared import matrix_to_quat, touching
from tests.envs.metaworld.oracle import Array, Oracle, scripted_policy
from tests.envs.metaworld.parity import compare, copy_physics, goals_of

ALL_TASKS = sorted(TASKS.tasks)

# ---- orientations


def quat_of(matrix: Array) -> Array:
    slot = np.zeros(1, SLOT)
    numbers = np.ascontiguousarray(matrix, dtype=np.float64)
    slot["refs"][0, 0] = numbers.ctypes.data
    return np.array(matrix_to_quat(slot[0], 0))


def axis_aligned() -> list[Array]:
    """The 24 rotations that map axes to axes."""
    orders, signs = itertools.permutations(range(3)), list(itertools.product((1, -1), repeat=3))
    matrices = [np.diag(sign) @ np.eye(3)[list(order)] for order in orders for sign in signs]
    return [matrix for matrix in matrices if np.linalg.det(matrix) > 0]


def test_quaternions_are_scipy_s() -> None:
    """Sign included: the package shows them in observations."""
    assert len(axis_aligned()) == 24
    for matrix in [*Rotation.random(5000, random_state=0).as_matrix(), *axis_aligned()]:
        np.testing.assert_allclose(quat_of(matrix), Rotation.from_matrix(matrix).as_quat(), rtol=0, atol=1e-12)


# ---- rewards in odd states


def arm_joint(name: str) -> bool:
    return name.startswith("right_j") or name in ("r_close", "l_close")


def things(env: Any) -> tuple[Array, Array]:
    """Where the package sees the first object and the second (the first again if there is none)."""
    seen = env._get_pos_objects()
    first = np.resize(seen, 3)  # two numbers in tasks with a plate
    return first, seen[3:6] if len(seen) >= 6 else first


def move_objects(env: Any, rng: np.random.Generator, place: Array) -> None:
    """A free object, by the point that is seen of it or by its middle, to `place`; what is on a slide to the target or
    anywhere in its range, what is on a hinge too."""
    model, data = env.model, env.data
    seen, last = things(env)
    to_target = np.array(env._target_pos) - last
    for joint in range(model.njnt):
        if arm_joint(model.joint(joint).name):
            continue
        first, speed = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            data.qpos[first : first + 3] = place + (data.qpos[first : first + 3] - seen if rng.random() < 0.7 else 0.0)
            data.qvel[speed : speed + 6] = 0
            if rng.random() < 0.1:
                turned = rng.normal(size=4)
                data.qpos[first + 3 : first + 7] = turned / np.linalg.norm(turned)
        elif rng.random() < 0.5:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-0.3, 0.3)
            turn = rng.uniform(low, high)
            if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE and rng.random() < 0.5:
                turn = np.clip(data.qpos[first] + data.xaxis[joint] @ to_target, low, high)
            data.qpos[first], data.qvel[speed] = turn, 0


def move_hand(env: Any, way: Array) -> None:
    """As fast as the physics pull it."""
    env.data.mocap_pos[0] = np.clip(env.data.mocap_pos[0] + way, env.mocap_low, env.mocap_high)
    mujoco.mj_step(env.model, env.data, 40)


def disturb(env: Any, rng: np.random.Generator) -> None:
    """One time in four the hand or the objects or both are suddenly elsewhere."""
    if rng.random() < 0.75:
        return
    first, second = things(env)
    anywhere = rng.uniform((-0.3, 0.5, 0.0), (0.3, 1.0, 0.35))
    place = (first, second, np.array(env._target_pos), anywhere)[rng.integers(4)]
    place = place + rng.normal(0, rng.choice((0.002, 0.01, 0.05)), 3)
    if rng.random() < 0.4:
        move_hand(env, place - env.tcp_center)
    if rng.random() < 0.6:
        fingers = env.tcp_center + rng.normal(0, 0.004, 3)
        move_objects(env, rng, fingers if rng.random() < 0.6 else place)


@pytest.mark.parametrize("task", ALL_TASKS)
def test_odd_states(task: str) -> None:
    """Rewards and all else are the package's where no policy leads."""
    difference = compare(task, ["chasing", "noisy", "chasing"], steps=100, seed=3, disturb=disturb)
    assert difference.equal, difference.first


# ---- grasps


@pytest.mark.parametrize("task", ["pick-place", "push-back", "sweep", "stick-push"])
def test_touching_is_the_package_s(task: str) -> None:
    """While the scripted policy grasps and lets go, and then with objects between the fingers, beside them, or not."""
    oracle, simulator, policy = Oracle(task), Simulator([task], threads=1), scripted_policy(task)
    geom = len(COMMON_REFS) + TASKS.tasks[task].refs.index("geom_id objGeom")
    rng = np.random.default_rng(0)
    (goal,) = goals_of(task, 1)
    slot = simulator.slots[0]
    slot["goal"][: len(goal)] = goal
    simulator.reset()
    obs = oracle.reset(goal)
    ours, theirs = [], []
    for step in range(400):
        action = np.asarray(policy.get_action(obs), dtype=np.float32)
        if step > 70 and rng.random() < 0.3:
            action[3] = rng.uniform(-1, 1)
        if step > 150:
            disturb(oracle.env, rng)
            copy_physics(oracle.env, simulator)
        obs, *_ = oracle.step(action)
        slot["action"] = action
        simulator.step()
        ours.append(touching(slot, geom))
        theirs.append(oracle.env.touching_main_object)
    assert ours == theirs
    assert set(ours[:150]) == {False, True}
    simulator.close()


# ---- policies

GOALS = 10
NEVER = -1


def our_successes(task: str, env: MetaworldEnv) -> list[int]:
    """The step at which each slot's first episode succeeds."""
    policy = scripted_policy(task)
    obs, _ = env.reset()
    first = np.full(env.num_envs, NEVER)
    for step in range(env.horizon):
        obs, _, _, _, info = env.step(np.stack([policy.get_action(row) for row in obs]).astype(np.float32))
        first[info["success"] & (first == NEVER)] = step
        if (first != NEVER).all():
            break
    return [int(step) for step in first]


def their_success(task: str, oracle: Oracle, goal: Array, horizon: int) -> int:
    policy = scripted_policy(task)
    obs = oracle.reset(goal)
    for step in range(horizon):
        obs, _, info = oracle.step(np.asarray(policy.get_action(obs), dtype=np.float32))
        if info["success"]:
            return step
    return NEVER


def rate(steps: list[int]) -> float:
    return float(np.mean([step != NEVER for step in steps]))


def test_no_reward_is_above_the_largest() -> None:
    """By which bounds of values are set; experts come as near to it as anybody."""
    env = MetaworldEnv(MetaworldConfig(benchmark="mt50"), 1, seed=1)
    policies = [scripted_policy(task) for task in env.tasks]
    obs, _ = env.reset()
    best = np.zeros(env.num_envs)
    for _ in range(200):
        action = np.stack([policy.get_action(row) for policy, row in zip(policies, obs, strict=True)])
        obs, reward, *_ = env.step(action.astype(np.float32))
        assert (reward >= 0).all()
        best = np.maximum(best, reward)
    env.close()
    assert len(best) == 50
    assert env.max_reward is not None
    assert best.max() <= env.max_reward
    assert (best == env.max_reward).mean() > 0.5  # and it is no larger than it needs to be


@pytest.mark.long
def test_scripted_policies_succeed_as_in_the_package() -> None:
    """With the same goals, in the same step. The rates are printed: `pytest -m long -s`."""
    ours, theirs = {}, {}
    for task in ALL_TASKS:
        env = MetaworldEnv(MetaworldConfig(tasks=[task], goals="order"), GOALS, seed=1, evaluation=True)
        oracle = Oracle(task)
        ours[task] = our_successes(task, env)
        theirs[task] = [their_success(task, oracle, goal, env.horizon) for goal in env.task_goals[0][:GOALS]]
        print(f"{task:28s} {rate(ours[task]):.1f} {rate(theirs[task]):.1f}", flush=True)
        env.close()
    print(f"{'mean':28s} {np.mean([*map(rate, ours.values())]):.3f} {np.mean([*map(rate, theirs.values())]):.3f}")
    assert ours == theirs
