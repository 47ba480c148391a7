"""Reward factors from returns and from replay, against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from medley.agents.api import AgentConfig
from medley.replay.ring import Replay
from medley.training.return_scales import make_rewards
from medley.training.rewards import RewardScale
from tests.training.updates import make_agent, make_replay

CPU = torch.device("cpu")
TASKS, SLOTS, STEPS, GAMMA = 3, 2, 60, 0.9
Step = tuple[Any, Any, Any]


def make(kind: str, scale: float = 1.0) -> RewardScale:
    options = AgentConfig(discount=GAMMA, v_max=5.0, reward_normalization=kind, reward_scale=scale)
    return make_rewards(options, TASKS, SLOTS, CPU)


def steps(seed: int = 0, n: int = STEPS, never: int | None = None) -> list[Step]:
    """Rewards, true ends and ends of random episodes; those of task 0 are all true, task `never` has none."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        reward = (rng.normal(size=(TASKS, SLOTS)) + [[1.0], [-3.0], [0.0]]) * [[1.0], [20.0], [0.01]]
        ended = rng.random((TASKS, SLOTS)) < 0.15
        if never is not None:
            ended[never] = False
        terminated = ended & (rng.random((TASKS, SLOTS)) < [[1.0], [0.5], [0.5]])
        out.append((reward.astype(np.float32), terminated, ended))
    return out


def settle(rewards: RewardScale, alpha: float = 0.2, replay: Replay | None = None, afresh: bool = False) -> list[float]:
    agent = make_agent(alpha_per_task=False, init_temperature=alpha, target_entropy=-1.5)
    rewards.settle(agent, replay or make_replay(), afresh)
    return rewards.factor[:, 0].tolist()


@pytest.mark.parametrize("alpha", [1e-6, 0.2])
def test_return_range(alpha: float) -> None:
    rewards = make("return_range", scale=2.0)
    episodes: list[list[list[float]]] = [[[] for _ in range(SLOTS)] for _ in range(TASKS)]
    extremes: list[list[float]] = [[] for _ in range(TASKS)]
    for reward, terminated, ended in steps(never=2):
        rewards.observe(reward, terminated, ended)
        for i in range(TASKS):
            for s in range(SLOTS):
                episodes[i][s].append(float(reward[i, s]))
                if ended[i, s]:
                    own = episodes[i][s]
                    tail = 0.0 if terminated[i, s] else sum(own) / len(own) / (1 - GAMMA)
                    for start in range(len(own)):
                        value = sum(GAMMA ** (t - start) * own[t] for t in range(start, len(own)))
                        extremes[i].append(value + GAMMA ** (len(own) - start) * tail)
                    episodes[i][s] = []
    found = settle(rewards, alpha)
    for i in range(2):
        size = max(max(extremes[i]), abs(min(extremes[i])))
        divisor = (size - alpha * -1.5 / (2 * (1 - GAMMA))) / 5.0
        assert found[i] == pytest.approx(2.0 / divisor, rel=1e-5)
    assert found[2] == 2.0  # no episode of it has ended yet


def test_returns_come_within_v_max() -> None:
    """Whatever the scale of a task, its largest return is v_max, less some room for entropy."""
    rewards = make("return_range")
    for reward, terminated, ended in steps():
        rewards.observe(reward, terminated, ended)
    settle(rewards, alpha=1e-9)
    stats = rewards.stats  # type: ignore[attr-defined]
    size = np.maximum(stats["highest"], -stats["lowest"]) * rewards.factor[:, 0].numpy()
    assert size == pytest.approx([5.0] * TASKS, rel=1e-5)
    small = rewards.factor.clone()
    settle(rewards, alpha=0.5)
    assert bool((rewards.factor < small).all())


def test_a_task_without_any_reward_does_not_divide_by_zero() -> None:
    rewards = make("return_range")
    ones = np.ones((TASKS, SLOTS), dtype=bool)
    rewards.observe(np.zeros((TASKS, SLOTS), dtype=np.float32), ones, ones)
    assert all(np.isfinite(settle(rewards, alpha=1e-12)))


def test_return_std() -> None:
    rewards = make("return_std", scale=3.0)
    sums = [[0.0] * SLOTS for _ in range(TASKS)]
    seen: list[list[float]] = [[] for _ in range(TASKS)]
    for reward, terminated, ended in steps():
        rewards.observe(reward, terminated, ended)
        for i in range(TASKS):
            for s in range(SLOTS):
                sums[i][s] = GAMMA * sums[i][s] + float(reward[i, s])
                seen[i].append(sums[i][s])
                if ended[i, s]:
                    sums[i][s] = 0.0
    found = settle(rewards)
    for i in range(TASKS):
        divisor = max(float(np.std(seen[i])), max(abs(v) for v in seen[i]) / 5.0)
        assert found[i] == pytest.approx(3.0 / divisor, rel=1e-4)


def test_ars_measures_replay_when_learning_begins_afresh() -> None:
    rewards, replay = make("ars"), make_replay()
    assert settle(rewards, replay=replay) == [1.0] * TASKS
    replay.rows["reward"][1] *= 40
    replay.set_written(30)  # the rest is not there yet
    replay.rows["reward"][:, 30:] = 1e9
    found = settle(rewards, replay=replay, afresh=True)
    for i in range(TASKS):
        mean = sum(abs(float(r)) for r in replay.rows["reward"][i, :30]) / 30
        assert found[i] == pytest.approx(1 / (mean + 1e-3), rel=1e-5)
    replay.rows["reward"].zero_()
    assert settle(rewards, replay=replay) == found  # until the next time


@pytest.mark.parametrize("kind", ["return_range", "return_std", "ars"])
def test_a_restored_factor_goes_on_the_same_way(kind: str) -> None:
    a, b = make(kind), make(kind)
    for step in steps(n=13):
        a.observe(*step)
    settle(a, alpha=0.7, afresh=True)
    state, place = a.state(), b.factor.data_ptr()
    b.set_state({k: v.copy() for k, v in state.items()})
    assert torch.equal(a.factor, b.factor)  # though alpha may be another by now
    for step in steps(1, n=25):
        a.observe(*step)
        b.observe(*step)
    assert settle(a) == settle(b)
    assert b.factor.data_ptr() == place
    for name, value in a.state().items():
        assert np.array_equal(value, b.state()[name]), name
    assert not any(np.shares_memory(state[k], v) for k, v in a.stats.items())  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["return_range", "return_std", "ars"])
def test_tasks_in_another_order(kind: str) -> None:
    order = [2, 0, 1]
    a, b = make(kind), make(kind)
    one, two = make_replay(), make_replay()
    two.rows["reward"].copy_(one.rows["reward"][order])
    for reward, terminated, ended in steps():
        a.observe(reward, terminated, ended)
        b.observe(reward[order], terminated[order], ended[order])
    first, second = settle(a, replay=one, afresh=True), settle(b, replay=two, afresh=True)
    assert [first[i] for i in order] == second
