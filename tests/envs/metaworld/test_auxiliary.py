"""Reaching and grasping beside a Meta-World task: who judges them, and that they can be done."""

from __future__ import annotations

import numpy as np
import pytest

from medley.envs import build, env_kind
from medley.envs.metaworld.aux_config import MetaworldAuxConfig, aux_intentions
from medley.envs.metaworld.auxiliary import MetaworldAuxEnv
from medley.envs.metaworld.config import MetaworldConfig
from medley.envs.metaworld.env import MetaworldEnv
from medley.envs.metaworld.intentions import THINGS, grasped, reached
from medley.errors import ConfigError


def state(tips: tuple[float, float, float], thing: tuple[float, float, float], opening: float) -> np.ndarray:
    obs = np.zeros(39)
    obs[:3] = np.array(tips) + [0, 0, 0.045]
    obs[3], obs[4:7] = opening, thing
    obs[18:36] = 9.0  # the frame before must not matter
    return obs


def test_thresholds() -> None:
    puck, drawer = THINGS["push"], THINGS["drawer-open"]
    assert reached(state((0, 0.6, 0.02), (0, 0.629, 0.02), 1.0))
    assert not reached(state((0, 0.6, 0.02), (0, 0.631, 0.02), 1.0))
    assert grasped(state((0, 0.6, 0.05), (0, 0.6, 0.041), 0.45), puck)
    assert not grasped(state((0, 0.6, 0.05), (0, 0.6, 0.039), 0.45), puck)
    assert not grasped(state((0, 0.6, 0.1), (0, 0.6, 0.06), 0.45), puck)  # in the air, but somewhere else
    assert grasped(state((0, 0.6, 0.09), (0, 0.6, 0.09), 0.49), drawer)
    assert not grasped(state((0, 0.6, 0.09), (0, 0.6, 0.09), 0.51), drawer)


@pytest.mark.parametrize("task", ["drawer-open", "drawer-close", "push", "pick-place", "bin-picking", "box-close"])
def test_scripts_fulfil_every_intention(task: str) -> None:
    cfg = MetaworldAuxConfig(task=task)
    slots = 4
    env = env_kind("metaworld-aux").build_each(cfg, slots, 1)  # type: ignore[misc]
    assert env.tasks == env.intentions == tuple(aux_intentions(cfg))
    obs, _ = env.reset()
    done = np.zeros(env.num_envs, bool)
    returns = np.zeros(env.num_envs)
    for _ in range(160):
        actions = env.expert_actions(obs, env.task_ids)
        assert env.action_space.contains(actions)
        before = obs
        obs, reward, _, _, info = env.step(actions)
        done |= info["success"]
        returns += reward
        rows = np.arange(env.num_envs)
        np.testing.assert_array_equal(info["success"], info["successes"][rows, env.task_ids])
        np.testing.assert_array_equal(reward, info["rewards"][rows, env.task_ids])
        np.testing.assert_array_equal(info["successes"][:, 1:], env.judged(obs))  # type: ignore[attr-defined]
        moved = np.linalg.norm(before[:, 4:7] - before[:, :3] + [0, 0, 0.045], axis=1)
        moved -= np.linalg.norm(obs[:, 4:7] - obs[:, :3] + [0, 0, 0.045], axis=1)
        np.testing.assert_allclose(info["rewards"][:, 1], moved, atol=1e-12)
    rates = done.reshape(-1, slots).mean(1)
    assert (rates >= 0.75).all(), dict(zip(env.tasks, rates, strict=True))
    env.close()


def test_the_world_is_the_plain_one() -> None:
    """Observations, rewards and successes of the main task are those of `metaworld-mt1`, goal for goal."""
    plain = MetaworldEnv(MetaworldConfig(benchmark="mt1", task="push", horizon=20), 2, 3)
    env = build(MetaworldAuxConfig(task="push-v2", horizon=20), 2, 3)
    np.testing.assert_array_equal(plain.reset()[0], env.reset()[0])
    rng = np.random.default_rng(0)
    for _ in range(45):
        actions = rng.uniform(-1, 1, (2, 4)).astype(np.float32)
        expected, got = plain.step(actions), env.step(actions)
        for k in range(4):
            np.testing.assert_array_equal(expected[k], got[k])
        np.testing.assert_array_equal(got[-1]["rewards"][:, 0], expected[1])
    assert env.tasks == ("main",)


def test_evaluation_gives_each_intention_the_same_goals() -> None:
    env = MetaworldAuxEnv(MetaworldAuxConfig(task="push"), 2, 3, evaluation=True, each=True)
    obs, _ = env.reset()
    obs = obs.reshape(3, 2, 39)
    np.testing.assert_array_equal(obs[0], obs[1])
    np.testing.assert_array_equal(obs[0], obs[2])
    assert not np.array_equal(obs[0, 0], obs[0, 1])


def test_hidden_goals_do_not_hinder_the_script() -> None:
    env = build(MetaworldConfig(benchmark="mt1", task="reach", partially_observable=True), 2, 1)
    obs, _ = env.reset()
    assert not obs[:, 36:].any()
    done = np.zeros(2, bool)
    for _ in range(120):
        obs, *_, info = env.step(env.expert_actions(obs, env.task_ids))
        done |= info["success"]
    assert done.all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "drawer-opn"}, "Did you mean 'drawer-open'"),
        ({"task": "hammer"}, "no auxiliary tasks for 'hammer'; it has for bin-picking"),
        ({"tasks": ["push", "reach"]}, "one main task"),
        ({"task": "drawer-close", "grasp": True}, "nothing to grasp"),
    ],
)
def test_bad_options(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        aux_intentions(MetaworldAuxConfig(**options))  # type: ignore[arg-type]
    assert aux_intentions(MetaworldAuxConfig(task="push", grasp=False)) == ["main", "reach"]
    assert aux_intentions(MetaworldAuxConfig(task="drawer-close")) == ["main", "reach"]
