from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from medley.envs import build
from medley.envs.gym import GymEnv
from medley.envs.gym_ids import GymConfig, gym_tasks
from medley.errors import ConfigError, DamagedError

PAIR = ["Pendulum-v1", "MountainCarContinuous-v0"]


def test_names_of_repeated_ids() -> None:
    assert gym_tasks(GymConfig(ids=["Pendulum-v1", *PAIR])) == ["Pendulum-v1", "Pendulum-v1#2", PAIR[1]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Pendulum-v9", "Gymnasium does not know 'Pendulum-v9'"),
        ("Pendlum-v1", "Did you mean 'Pendulum-v1'"),
        ("CartPole-v1", "only a flat, continuous Box"),
        ("Blackjack-v1", "only flat Box observations"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(GymConfig(ids=[name]), 1, 0)


def test_narrow_tasks_are_padded() -> None:
    env = GymEnv(PAIR, seed=3)
    assert env.single_observation_space.shape == (3,)
    obs, _ = env.reset()
    assert obs[1, 2] == 0.0
    assert env.action_mask.tolist() == [[True], [True]]


def test_actions_are_rescaled_as_the_env_wants_them() -> None:
    """The same trajectory as the env alone, driven with torques of its own scale."""
    env = GymEnv(["Pendulum-v1"], seed=3)
    alone = gymnasium.make("Pendulum-v1")
    first, _ = env.reset()
    expected, _ = alone.reset(seed=int(env._reset_seeds[0]))
    np.testing.assert_array_equal(first[0], expected)
    for share in (-1.0, 0.25, 1.0, 3.0):
        obs, reward, *_ = env.step(np.array([[share]], dtype=np.float32))
        expected, reward_alone, *_ = alone.step(np.array([2.0 * min(share, 1.0)], dtype=np.float32))
        np.testing.assert_array_equal(obs[0], expected)
        assert reward[0] == reward_alone


def test_each_env_keeps_its_own_time_limit() -> None:
    env = GymEnv(PAIR)  # 200 and 999 steps
    env.reset()
    for step in range(1, 201):
        _, _, terminated, truncated, info = env.step(np.zeros((2, 1), dtype=np.float32))
        assert truncated.tolist() == [step == 200, False]
        assert not terminated.any()
    assert info["final_info"]["episode"]["l"][0] == 200


def test_a_replay_that_leads_elsewhere_is_refused() -> None:
    env = GymEnv(PAIR, seed=3)
    env.reset()
    for _ in range(5):
        env.step(np.full((2, 1), 0.3, dtype=np.float32))
    state = env.state()
    state["dynamics.actions"][0, 2] += 0.1
    with pytest.raises(DamagedError, match=r"5 actions of slot 0 \(Pendulum-v1\)"):
        GymEnv(PAIR, seed=3).set_state(state)


def test_true_ends_are_terminations() -> None:
    env = GymEnv(["MountainCarContinuous-v0"], seed=0)
    obs, _ = env.reset()
    for _ in range(500):  # push along with the motion
        obs, _, terminated, truncated, info = env.step(np.sign(obs[:, 1:2]).astype(np.float32))
        if terminated.any():
            break
    assert terminated.all()
    assert not truncated.any()
    assert info["final_obs"][0, 0] >= 0.45
