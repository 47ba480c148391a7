"""`medley/MT10` in place of `Meta-World/MT10`: the package's keywords and calls, Gymnasium's checks and wrappers."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import env_checker
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.utils.performance import benchmark_vector_step
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers
from metaworld.wrappers import NormalizeRewardsExponential

import medley  # noqa: F401  (registers medley/...)
from medley.errors import ConfigError

TWO = {"envs_list": ["reach-v3", "drawer-close-v3"]}


def make(num_envs: int = 2, **options: Any) -> Any:
    return gym.make_vec("medley/MT10", num_envs=num_envs, **(TWO | options))


def moves(env: Any, steps: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-1, 1, (steps, env.num_envs, 4)).astype(np.float32)


def test_the_package_s_keywords() -> None:
    env = gym.make_vec(
        "medley/MT10",
        seed=3,
        vector_strategy="async",
        use_one_hot=True,
        max_episode_steps=4,
        terminate_on_success=True,
        reward_function_version="v1",
        task_select="pseudorandom",
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    theirs = gym.make_vec("Meta-World/MT10", seed=3, use_one_hot=True, max_episode_steps=4)
    assert env.num_envs == theirs.num_envs == 10
    obs, _ = env.reset()
    assert obs.shape == theirs.observation_space.shape
    np.testing.assert_array_equal(obs[:, 39:], np.eye(10))
    assert env.get_attr("task_name") == theirs.get_attr("task_name")
    for move in moves(env, 4):
        obs, _, terminated, truncated, info = env.step(move)
    assert (terminated | truncated).all()
    assert info["final_obs"].shape == obs.shape
    assert {"r", "l"} <= set(info["final_info"]["episode"])
    assert set(info["final_info"]) >= {"success", "near_object", "unscaled_reward"}
    assert env.unwrapped.reward_versions == ("v1",) * 10


def test_one_task_by_its_name() -> None:
    env = gym.make_vec("medley/MT1", num_envs=3, env_name="push-v3", seed=1)
    assert env.num_envs == 3
    assert env.unwrapped.tasks == ("push",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_envs": 3}, "multiple of the 2 tasks"),
        ({"task_select": "pseudo"}, "pseudorandom"),
        ({"reward_normalization_method": "exp"}, "exponential"),
        ({"render_mode": "human"}, "rgb_array"),
        ({"max_episode_step": 5}, "max_episode_steps"),
    ],
)
def test_bad_keywords(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(**options)


def test_next_step_resets() -> None:
    """Gymnasium's other mode: the last observation is returned, and the next call starts the next episode."""
    same, later = (make(seed=1, max_episode_steps=3, autoreset_mode=mode) for mode in ("SameStep", "NextStep"))
    np.testing.assert_array_equal(same.reset()[0], later.reset()[0])
    actions = moves(same, 3)
    for move in actions:
        left, right = same.step(move), later.step(move)
    np.testing.assert_array_equal(left[4]["final_obs"], right[0])
    assert right[3].all()
    saved = later.state()
    obs, reward, terminated, truncated, _ = later.step(actions[0])
    np.testing.assert_array_equal(obs, left[0])
    assert not np.any([reward, terminated, truncated])
    np.testing.assert_array_equal(later.step(actions[1])[0], same.step(actions[1])[0])
    other = make(seed=9, max_episode_steps=3, autoreset_mode="NextStep")
    other.set_state(saved)  # a restart between the two calls
    np.testing.assert_array_equal(other.step(actions[0])[0], obs)
    with pytest.raises(ValueError, match="SAME_STEP or NEXT_STEP"):
        make(autoreset_mode="Disabled")


def test_every_reset_starts_another_episode() -> None:
    env, twin = make(seed=1), make(seed=1)
    first, second = env.reset()[0], env.reset()[0]
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(twin.reset()[0], first)
    np.testing.assert_array_equal(twin.reset()[0], second)
    np.testing.assert_array_equal(env.reset(seed=1)[0], first)


def test_wrappers_pass_on_what_is_ours() -> None:
    env = make(seed=1, use_one_hot=True)
    env.reset()
    saved = env.state()
    obs = env.step(moves(env, 1)[0])[0]
    env.set_state(saved)
    np.testing.assert_array_equal(env.step(moves(env, 1)[0])[0], obs)


def test_goals_on_demand() -> None:
    env = make(seed=1, task_select="pseudorandom")
    env.call("toggle_sample_tasks_on_reset", False)
    first = [row for row, _ in env.call("sample_tasks")]
    np.testing.assert_array_equal(env.reset()[0], first)  # the same goal again
    second = [row for row, _ in env.call("sample_tasks")]
    assert not np.array_equal(first, second)
    assert env.get_attr("sample_tasks_on_reset") == (False, False)
    with pytest.raises(AttributeError, match="task_name"):
        env.get_attr("no_such_thing")


class Replayed(gym.Env[Any, Any]):
    """A single env that gives rewards and ends it was told, for the package's wrappers."""

    observation_space = action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, rewards: Any, ends: Any) -> None:
        self.rewards, self.ends = iter(rewards), iter(ends)

    def reset(self, **kwargs: Any) -> Any:
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1), float(next(self.rewards)), bool(next(self.ends)), False, {}


@pytest.mark.parametrize("method", ["gymnasium", "exponential"])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_normalised_rewards(method: str, mode: str) -> None:
    options = {"seed": 1, "max_episode_steps": 20, "terminate_on_success": True, "autoreset_mode": mode}
    raw, ours = make(**options), make(reward_normalization_method=method, use_one_hot=True, **options)
    raw.reset()
    ours.reset()
    rows = []
    returns: list[list[float]] = [[], []]
    for move in moves(raw, 45):
        waiting = raw.waiting.copy()
        (_, reward, ended, _, _), (_, scaled, _, _, info) = raw.step(move), ours.step(move)
        rows.append((reward, ended, scaled, ~waiting))
        for slot in np.flatnonzero(info.get("_final_info", [])):
            returns[slot].append(info["final_info"]["episode"]["r"][slot])
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    for slot in range(2):
        reward, ended, scaled = (column[columns[3][:, slot], slot] for column in columns[:3])
        assert returns[slot][0] == pytest.approx(scaled[:20].sum())
        single: Any = Replayed(reward, ended)
        wrapped = (
            gym.wrappers.NormalizeReward(single)
            if method == "gymnasium"
            else NormalizeRewardsExponential(0.001, single)
        )
        wrapped.reset()
        theirs = [wrapped.step(np.zeros(1))[1] for _ in range(len(reward))]
        np.testing.assert_allclose(scaled, theirs, rtol=1e-9)


def test_gymnasium_s_checks() -> None:
    env = make(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env_checker.check_reset_seed_determinism(env)
        env_checker.check_reset_options(env)
        env_checker.check_reset_return_type(env)
        env_checker.check_reset_return_info_deprecation(env)
        env_checker.check_seed_deprecation(env)
    # The rest of Gymnasium's checks asks for `terminated is False`; the same for many slots:
    env.reset(seed=5)
    first = env.step(moves(env, 1)[0])
    kept = copy.deepcopy(first)
    env.step(moves(env, 2)[1])
    assert data_equivalence(first, kept)  # nothing that was returned is written to later
    env.reset(seed=5)
    assert data_equivalence(first, env.step(moves(env, 1)[0]))
    assert benchmark_vector_step(env, target_duration=1, seed=1) > 0


def test_gymnasium_s_wrappers() -> None:
    env: Any = make(seed=1, max_episode_steps=5, autoreset_mode="NextStep")
    for wrap in (wrappers.RecordEpisodeStatistics, wrappers.NormalizeObservation, wrappers.ClipReward):
        env = wrap(env, -1, 1) if wrap is wrappers.ClipReward else wrap(env)
    env.reset(seed=2)
    lengths = []
    for move in moves(env, 11):
        *_, info = env.step(move)
        if "episode" in info:
            lengths += info["episode"]["l"].tolist()
    assert lengths == [5] * 4


def test_the_package_s_evaluation_with_a_one_hot() -> None:
    from metaworld.evaluation import evaluation
    from metaworld.policies import ENV_POLICY_MAP

    env = make(num_envs=4, seed=1, use_one_hot=True)
    policies = [ENV_POLICY_MAP[name]() for name in ("reach-v3", "reach-v3", "drawer-close-v3", "drawer-close-v3")]

    class Scripted:
        def eval_action(self, obs: Any) -> Any:
            return np.stack([policy.get_action(row[:39]) for policy, row in zip(policies, obs, strict=True)])

        def reset(self, mask: Any) -> None: ...

    success, _, _, episodes = evaluation(Scripted(), env, num_episodes=4)
    assert success == 1.0
    assert all(len(values) == 4 for values in episodes.values())
