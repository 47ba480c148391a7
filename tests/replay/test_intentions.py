"""One ring for several intentions, and the rows of experts beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from medley.replay.base import Step
from medley.replay.experts import Experts
from medley.replay.intentions import IntentionReplay

CPU = torch.device("cpu")


def make(n_step: int = 1, experts: Experts | None = None, slots: int = 2, capacity: int = 40) -> IntentionReplay:
    return IntentionReplay(
        3, experts, 0.5, n_step, slots=slots, capacity=capacity, obs_dim=2, action_dim=1, device=CPU, seed=0
    )


def step(t: int, slots: int = 2, ended: bool = False, switched: bool = False, terminated: bool = False) -> Step:
    numbers = 100.0 * t + np.arange(slots)

    def rows(*values: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.stack(values, -1)[None].astype(np.float32)

    flag = np.ones((1, slots), dtype=bool)
    return Step(
        obs=rows(numbers, numbers),
        action=rows(numbers),
        reward=rows(numbers, numbers + 0.25, numbers + 0.5),
        next_obs=rows(numbers + 1, numbers + 1),
        terminated=flag & terminated,
        ended=flag & (ended or terminated),
        intention=np.full((1, slots), t % 3),
        switched=flag & (switched or ended or terminated),
    )


def test_every_intention_gets_the_same_rows_and_its_own_rewards() -> None:
    replay = make()
    for t in range(15):
        replay.add(step(t, terminated=t == 7))
    batch = replay.sample(64)
    number = batch.action[0, :, 0]
    assert batch.obs.shape == (1, 64, 2)
    assert batch.reward.shape == (3, 64)
    for k in range(3):
        torch.testing.assert_close(batch.reward[k], number + 0.25 * k)
    torch.testing.assert_close(batch.discount[0], torch.where((number // 100) == 7, 0.0, 0.99))
    assert len(number.unique()) > 20


@pytest.mark.parametrize("n", [2, 5])
def test_later_rows_stop_at_ends_and_where_something_else_is_wanted(n: int) -> None:
    replay, length = make(n), 30
    ends, switches, dies = {6, 19}, {3, 12}, {24}
    for t in range(length):
        replay.add(step(t, ended=t in ends, switched=t in switches, terminated=t in dies))
    batch = replay.sample(200)
    assert batch.far_obs is not None
    assert batch.far_discount is not None
    kept = range(length - 20, length)
    for row in range(200):
        t, slot = divmod(int(batch.action[0, row, 0]), 100)
        assert t in kept
        last, left = t, 1.0
        while last - t < n - 1 and last not in ends | switches | dies and last + 1 < length:
            last, left = last + 1, left * 0.99
        assert float(batch.far_obs[0, row, 0]) == 100 * last + slot + 1
        assert float(batch.far_discount[0, row]) == pytest.approx(0.0 if last in dies else left)


def test_experts_are_drawn_by_intention_with_noise_of_their_own() -> None:
    random = np.random.default_rng(0)
    obs = [random.normal(10.0 * k, [1.0, 5.0], size=(50 + k, 2)).astype(np.float32) for k in range(3)]
    replay = make(experts=Experts(obs, CPU, noise=0.1))
    for t in range(15):
        replay.add(step(t))
    batch = replay.sample(600)  # half of it experts, in three shares
    assert batch.obs.shape[1] == 300
    assert batch.expert is not None
    assert batch.expert.obs.shape == (3, 100, 2)
    assert batch.expert.action is None
    for k in range(3):
        apart = torch.cdist(batch.expert.obs[k].double(), torch.from_numpy(obs[k]).double()).amin(1)
        assert 0 < apart.max() < 2  # near one of its own; those of others are 10 away
    apart = batch.expert.obs - batch.expert.next_obs  # the same example twice, each with its own noise
    np.testing.assert_allclose(apart.std((0, 1)).numpy(), [0.141, 0.707], rtol=0.15)


def test_without_noise_rows_are_those_of_the_file() -> None:
    obs = [np.arange(8, dtype=np.float32).reshape(4, 2) + 100 * k for k in range(3)]
    experts = Experts(obs, CPU, noise=0.0, next_obs=[o + 1 for o in obs], action=[o[:, :1] for o in obs])
    taken = experts.take(experts.draw(30, torch.Generator().manual_seed(0)))
    assert taken.action is not None
    for k in range(3):
        assert {tuple(row) for row in taken.obs[k].tolist()} == {tuple(row) for row in obs[k].tolist()}
    torch.testing.assert_close(taken.next_obs, taken.obs + 1)
    torch.testing.assert_close(taken.action[..., 0], taken.obs[..., 0])


@pytest.mark.parametrize("n", [1, 4])
def test_half_of_the_rows_can_come_from_demonstrations(n: int) -> None:
    replay, prior, alone = make(n), make(n, slots=1, capacity=12), make(n)
    for t in range(12):
        prior.add(step(1000 + t, slots=1, ended=t % 4 == 3))
    for t in range(15):
        replay.add(step(t))
        alone.add(step(t))
    replay.prior, replay.prior_share = prior, 0.5
    drawn = replay.draw(20)
    assert [tuple(d.shape) for d in drawn] == [(1, 10), (1, 10)]
    assert replay.draws == len(drawn)
    batch, online = replay.take(drawn), alone.take(drawn[:1])
    number = batch.action[0, :, 0]
    assert (number[:10] < 2000).all()
    assert (number[10:] >= 100_000).all()
    torch.testing.assert_close(batch.reward, number + torch.tensor([[0.0], [0.25], [0.5]]))
    assert torch.equal(batch.next_obs[0, :10], online.next_obs[0])
    assert batch.obs.shape == (1, 20, 2)
    if n > 1:
        assert batch.far_obs is not None
        later = batch.far_obs[0, 10:, 0] - 1 - number[10:]  # in hundreds, up to the end of the demonstration
        left = 3 - (number[10:] / 100 - 1000) % 4
        torch.testing.assert_close(later, 100 * torch.minimum(left, torch.tensor(n - 1.0)))
