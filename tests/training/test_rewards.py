"""Reward scaling: a factor per task, learnt from rewards and saved with the run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from medley.agents.api import Agent, Batch, Metrics
from medley.replay.ring import Replay, Step
from medley.training.learner import EagerUpdates, Learner
from medley.training.rewards import RewardScale
from medley.training.seed import Seed

CPU = torch.device("cpu")


def test_a_plain_scale_never_changes() -> None:
    rewards = RewardScale(3, 2.5, "none", CPU)
    for _ in range(10):
        rewards.observe(np.random.default_rng(0).normal(size=(3, 4)) * 100)
    assert rewards.factor.tolist() == [[2.5]] * 3


def test_ema_std_follows_the_recursion() -> None:
    """By hand: mean += rate (r - mean), var += rate ((r - new mean)^2 - var), one slot after another."""
    rng = np.random.default_rng(0)
    rewards = RewardScale(2, 3.0, "ema_std", CPU)
    mean, var = [0.0, 0.0], [1.0, 1.0]
    for _ in range(50):
        r = rng.normal(5.0, 2.0, size=(2, 3)).astype(np.float32)
        rewards.observe(r)
        for task in range(2):
            for slot in range(3):
                mean[task] += 0.001 * (float(r[task, slot]) - mean[task])
                var[task] += 0.001 * ((float(r[task, slot]) - mean[task]) ** 2 - var[task])
    for task in range(2):
        assert float(rewards.factor[task, 0]) == pytest.approx(3.0 / np.sqrt(var[task]), rel=1e-6)


def test_tasks_of_any_scale_end_with_the_same_one() -> None:
    rng = np.random.default_rng(0)
    rewards = RewardScale(3, 1.0, "ema_std", CPU)
    scale = np.array([[0.01], [1.0], [300.0]])
    for _ in range(12_000):
        rewards.observe(scale * rng.normal(size=(3, 1)))
    scaled = rewards.factor.numpy() * scale * rng.normal(size=(3, 5000))
    assert np.allclose(scaled.std(1), 1.0, rtol=0.1)


def test_a_constant_reward_does_not_divide_by_zero() -> None:
    rewards = RewardScale(1, 1.0, "ema_std", CPU)
    for _ in range(200):
        rewards.observe(np.zeros((1, 100)))
    assert torch.isfinite(rewards.factor).all()


@pytest.mark.parametrize("normalization", ["none", "ema_std"])
def test_a_restored_scale_goes_on_the_same_way(normalization: str) -> None:
    rng = np.random.default_rng(0)
    a, b = RewardScale(2, 0.5, normalization, CPU), RewardScale(2, 0.5, normalization, CPU)
    a.observe(rng.normal(size=(2, 50)) * 9)
    state = a.state()
    place = b.factor.data_ptr()
    b.set_state(state)
    assert torch.equal(a.factor, b.factor)
    assert b.factor.data_ptr() == place  # a captured graph reads it where it is
    more = rng.normal(size=(2, 50))
    a.observe(more)
    b.observe(more)
    assert torch.equal(a.factor, b.factor)
    assert np.array_equal(a.mean, b.mean)
    assert not np.shares_memory(state["mean"], a.mean)


class Listener(Agent):
    """Keeps the batches it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def act(self, obs: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        return obs

    def update(self, batch: Batch, phase: str) -> Metrics:
        self.batches.append(batch)
        return {"loss": torch.tensor(float(len(self.batches))), "loss_per_task": batch.reward.mean(-1)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        pass

    def load_weights(self, state: dict[str, torch.Tensor]) -> None:
        pass


def test_the_learner_scales_each_task_when_it_samples_and_replay_stays_raw() -> None:
    replay = Replay(2, 1, 10, obs_dim=1, action_dim=1, device=CPU, seed=0)
    one = np.ones((2, 1, 1), dtype=np.float32)
    flag = np.zeros((2, 1), dtype=bool)
    replay.add(Step(one, one, np.array([[2.0], [30.0]], dtype=np.float32), one, flag, flag))
    rewards = RewardScale(2, 1.0, "none", CPU)
    rewards.factor.copy_(torch.tensor([[0.5], [0.1]]))
    agent = Listener()
    seed = Seed(agent, replay, rewards, 4)
    learner = Learner(seed, EagerUpdates(seed), ("a", "b"))
    learner.learn(3)
    assert agent.batches[0].reward.tolist() == [[1.0] * 4, [pytest.approx(3.0)] * 4]
    rewards.factor.fill_(1.0)  # today's scale holds for old rows too
    learner.learn(1)
    assert agent.batches[-1].reward.tolist() == [[2.0] * 4, [30.0] * 4]
    assert replay.rows["reward"][:, 0].tolist() == [2.0, 30.0]
    row = learner.drain(0)
    assert row["loss"] == pytest.approx(2.5)  # the mean of 1, 2, 3, 4
    assert (row["loss_0"], row["loss_1"]) == (pytest.approx(1.25), pytest.approx(9.75))
    assert learner.drain(0) == {}
    assert learner.updates == 4
