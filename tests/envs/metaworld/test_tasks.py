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
from tests.envs.metaworld.parity import compare, goals_of

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


def move_objects(env: Any, rng: np.random.Generator, way: Array) -> None:
    """A free object by `way`, what is on a hinge or a slide anywhere within its range."""
    model, data = env.model, env.data
    for joint in range(model.njnt):
        if arm_joint(model.joint(joint).name):
            continue
        first, speed = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            data.qpos[first : first + 3] += way
            data.qvel[speed : speed + 6] = 0
            if rng.random() < 0.1:
                turned = rng.normal(size=4)
                data.qpos[first + 3 : first + 7] = turned / np.linalg.norm(turned)
        elif rng.random() < 0.5:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-0.3, 0.3)
            data.qpos[first] = rng.uniform(low, high)
            data.qvel[speed] = 0


def move_hand(env: Any, way: Array) -> None:
    """As fast as the physics pull it."""
    env.data.mocap_pos[0] = np.clip(env.data.mocap_pos[0] + way, env.mocap_low, env.mocap_high)
    mujoco.mj_step(env.model, env.data, 40)


def disturb(env: Any, rng: np.random.Generator) -> None:
    """One time in four an object or the hand is suddenly elsewhere: at the other, at the target, anywhere."""
    seen = np.resize(env._get_pos_objects(), 3)  # two numbers in some tasks with a plate
    fingers, target = env.tcp_center, np.array(env._target_pos)
    anywhere = rng.uniform((-0.3, 0.5, 0.0), (0.3, 1.0, 0.35))
    noise = rng.normal(0, rng.choice((0.002, 0.01, 0.05)), 3)
    chance = rng.random()
    if chance < 0.12:
        move_objects(env, rng, fingers - seen + noise)
    elif chance < 0.16:
        move_objects(env, rng, target - seen + noise)
    elif chance < 0.18:
        move_objects(env, rng, anywhere - seen)
    elif chance < 0.22:
        move_hand(env, seen - fingers + noise)
    elif chance < 0.24:
        move_hand(env, target - fingers + noise)
    elif chance < 0.25:
        move_hand(env, anywhere - fingers)


@pytest.mark.parametrize("task", ALL_TASKS)
def test_odd_states(task: str) -> None:
    """Rewards and all else are the package's where no policy leads."""
    difference = compare(task, ["chasing", "noisy", "chasing"], steps=100, seed=3, disturb=disturb)
    assert difference.equal, difference.first


# ---- grasps


@pytest.mark.parametrize("task", ["pick-place", "sweep", "hand-insert", "stick-push"])
def test_touching_is_the_package_s(task: str) -> None:
    """While the scripted policy grasps and lets go (a third of its actions are random)."""
    oracle, simulator, policy = Oracle(task), Simulator([task], threads=1), scripted_policy(task)
    geom = len(COMMON_REFS) + TASKS.tasks[task].refs.index("geom_id objGeom")
    rng = np.random.default_rng(0)
    (goal,) = goals_of(task, 1)
    slot = simulator.slots[0]
    slot["goal"][: len(goal)] = goal
    simulator.reset()
    obs = oracle.reset(goal)
    ours, theirs = [], []
    for step in range(150):
        action = np.asarray(policy.get_action(obs), dtype=np.float32)
        if step > 70 and rng.random() < 0.3:
            action[3] = rng.uniform(-1, 1)
        obs, *_ = oracle.step(action)
        slot["action"] = action
        simulator.step()
        ours.append(touching(slot, geom))
        theirs.append(oracle.env.touching_main_object)
    assert ours == theirs
    assert set(ours) == {False, True}
    simulator.close()


# ---- policies

GOALS = 10


def our_successes(task: str, env: MetaworldEnv) -> list[bool]:
    policy = scripted_policy(task)
    obs, _ = env.reset()
    succeeded = np.zeros(env.num_envs, dtype=bool)
    for _ in range(env.horizon):
        obs, _, _, _, info = env.step(np.stack([policy.get_action(row) for row in obs]).astype(np.float32))
        succeeded |= info["success"]
        if succeeded.all():
            break
    return [bool(x) for x in succeeded]


def their_success(task: str, oracle: Oracle, goal: Array, horizon: int) -> bool:
    policy = scripted_policy(task)
    obs = oracle.reset(goal)
    for _ in range(horizon):
        obs, _, info = oracle.step(np.asarray(policy.get_action(obs), dtype=np.float32))
        if info["success"]:
            return True
    return False


@pytest.mark.long
def test_scripted_policies_succeed_as_often_as_in_the_package() -> None:
    """The table is printed: `pytest -m long -s`."""
    ours, theirs = {}, {}
    for task in ALL_TASKS:
        env = MetaworldEnv(MetaworldConfig(tasks=[task], goals="order"), GOALS, seed=1, evaluation=True)
        oracle = Oracle(task)
        ours[task] = our_successes(task, env)
        theirs[task] = [their_success(task, oracle, goal, env.horizon) for goal in env.task_goals[0][:GOALS]]
        print(f"{task:28s} {sum(ours[task]):2d} {sum(theirs[task]):2d} of {GOALS}", flush=True)
        env.close()
    print(f"{'mean':28s} {np.mean(list(ours.values())):.3f} {np.mean(list(theirs.values())):.3f}")
    assert ours == theirs
