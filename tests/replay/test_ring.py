"""The ring: what is in it, how it is sampled, and n-step returns against a loop over a plain list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medley.agents.api import Batch
from medley.replay.ring import FIELDS, Replay, Step

GAMMA = 0.9


def make(tasks: int = 2, slots: int = 2, capacity: int = 12, **changes: Any) -> Replay:
    options: dict[str, Any] = {"n_step": 1, "discount": GAMMA, "seed": 0, **changes}
    return Replay(tasks, slots, capacity, obs_dim=2, action_dim=1, device=torch.device("cpu"), **options)


def numbered(tasks: int, slots: int, t: int, terminated: Any = False, truncated: Any = False) -> Step:
    """A step whose every number says where it came from: obs = [1000 task + 100 slot + ..., time]."""
    who = 1000.0 * np.arange(tasks)[:, None] + 100.0 * np.arange(slots)[None, :]
    time = np.full((tasks, slots), float(t))
    end = np.broadcast_to(np.asarray(terminated), (tasks, slots))
    cut = np.broadcast_to(np.asarray(truncated), (tasks, slots))
    return Step(
        obs=np.stack([who, time], -1).astype(np.float32),
        action=(who + time)[..., None].astype(np.float32),
        reward=(np.sin(who + 3 * time)).astype(np.float32),
        next_obs=np.stack([who, time + 0.5], -1).astype(np.float32),
        terminated=end.copy(),
        ended=end | cut,
    )


def with_indices(replay: Replay, index: np.ndarray[Any, Any]) -> Batch:
    """The batch that `sample` makes of these rows."""
    u = torch.from_numpy((index + 0.5) / replay.size)
    before = torch.rand
    try:
        torch.rand = lambda *a, **k: u  # type: ignore[assignment]
        return replay.sample(index.shape[1])
    finally:
        torch.rand = before


def test_rows_and_wraparound() -> None:
    replay = make(slots=2, capacity=13)
    assert replay.capacity == 12  # whole steps, so that a slot's rows keep their distance
    assert replay.size == 0
    for t in range(20):
        replay.add(numbered(2, 2, t))
        assert replay.written == 2 * (t + 1)
        assert replay.size == min(replay.written, 12)
    times = replay.rows["obs"][0, :, 1].reshape(6, 2)
    assert (times[:, 0] == times[:, 1]).all()
    assert sorted(times[:, 0].tolist()) == [14.0, 15.0, 16.0, 17.0, 18.0, 19.0]
    newest = (replay.written - 2) % 12
    assert replay.rows["obs"][1, newest].tolist() == [1000.0, 19.0]
    assert replay.rows["obs"][1, newest + 1].tolist() == [1100.0, 19.0]
    assert make(slots=3, capacity=2).capacity == 3  # never less than one step


def test_a_batch_holds_whole_rows_of_the_right_task() -> None:
    replay = make(tasks=3, slots=2, capacity=40)
    for t in range(50):
        replay.add(numbered(3, 2, t, terminated=t % 7 == 0))
    b = replay.sample(64)
    assert b.obs.shape == (3, 64, 2)
    assert (b.obs[..., 0] // 1000 == torch.arange(3).unsqueeze(1)).all()
    who, time = b.obs[..., 0], b.obs[..., 1]
    assert torch.equal(b.action[..., 0], who + time)
    assert torch.equal(b.next_obs, torch.stack([who, time + 0.5], -1))
    assert torch.allclose(b.reward, torch.sin((who + 3 * time).double()).float(), atol=1e-5)
    assert torch.allclose(b.discount, torch.where(time % 7 == 0, 0.0, GAMMA))
    assert (b.weight == 1).all()
    assert (time >= 30).all()


def test_only_written_rows_are_sampled() -> None:
    replay = make(capacity=1000)
    for t in range(1, 4):
        replay.add(numbered(2, 2, t))
        times = replay.sample(500).obs[..., 1]
        assert set(times.unique().tolist()) == {float(i) for i in range(1, t + 1)}  # never a zero row


def test_every_row_is_as_likely_as_any_other() -> None:
    replay = make(tasks=2, slots=1, capacity=8)
    for t in range(11):
        replay.add(numbered(2, 1, t))
    counts = torch.bincount(replay.sample(8000).obs[0, :, 1].long(), minlength=11)
    assert counts[:3].tolist() == [0, 0, 0]
    chi2 = float(((counts[3:] - 1000.0) ** 2 / 1000).sum())
    assert chi2 < 26  # 7 degrees of freedom: one in two thousand


def test_each_task_draws_indices_of_its_own() -> None:
    replay = make(tasks=3, slots=1, capacity=1000)
    for t in range(1000):
        replay.add(numbered(3, 1, t))
    times = replay.sample(2000).obs[..., 1].numpy()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(times[i], times[j])[0, 1]) < 0.1
        assert (times[i] == times[j]).mean() < 0.01


def test_the_seed_and_its_state_decide_what_is_sampled() -> None:
    a, b, c = make(seed=1), make(seed=1), make(seed=2)
    for t in range(6):
        for replay in (a, b, c):
            replay.add(numbered(2, 2, t))
    assert torch.equal(a.sample(20).obs, b.sample(20).obs)
    assert not torch.equal(a.sample(20).obs, c.sample(20).obs)
    b.generator.set_state(a.generator.get_state())
    assert torch.equal(a.sample(20).obs, b.sample(20).obs)


def test_uniform_shares() -> None:
    """Shares are a multinomial count over its mean: mean 1 exactly, variance (1 - 1/T) / b."""
    tasks, b = 5, 16
    replay = make(tasks=tasks, slots=1, uniform=True)
    replay.add(numbered(tasks, 1, 0))
    draws = []
    for _ in range(2000):
        weight = replay.sample(b).weight
        assert weight.shape == (tasks, b)
        assert (weight == weight[:, :1]).all()  # all rows of a task weigh the same
        draws.append(weight[:, 0].numpy())
    shares = np.array(draws)
    assert np.allclose(shares.sum(1), tasks, atol=1e-4)
    assert np.allclose(shares * b, np.round(shares * b), atol=1e-3)  # counts
    assert np.allclose(shares.mean(0), 1.0, atol=0.03)
    assert np.allclose(shares.var(0), (1 - 1 / tasks) / b, rtol=0.15)


def test_truncation_is_not_termination() -> None:
    for n_step in (1, 3):
        replay = make(tasks=1, slots=1, capacity=10, n_step=n_step)
        replay.add(numbered(1, 1, 0, truncated=True))
        replay.add(numbered(1, 1, 1, terminated=True))
        replay.add(numbered(1, 1, 2))
        b = with_indices(replay, np.array([[0, 1]]))
        assert b.discount[0].tolist() == pytest.approx([GAMMA, 0.0])
        assert b.next_obs[0, :, 1].tolist() == [0.5, 1.5]  # neither looks into the next episode


# ---- n-step returns


@dataclass
class Row:
    reward: float
    terminated: bool
    ended: bool
    next_obs: list[float]


def n_step_by_hand(rows: list[Row], start: int, n: int) -> tuple[float, float, list[float]]:
    """From a slot's whole history: sum rewards until n of them, an end, or the last row there is."""
    total, factor = 0.0, 1.0
    for row in rows[start : start + n]:
        total += factor * row.reward
        factor *= GAMMA
        last = row
        if row.ended:
            break
    return total, 0.0 if last.terminated else factor, last.next_obs


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 5),
    tasks=st.integers(1, 2),
    slots=st.integers(1, 3),
    steps_kept=st.integers(5, 12),
    steps=st.integers(1, 40),
    seed=st.integers(0, 2**31),
)
def test_n_step_returns_equal_a_loop(n: int, tasks: int, slots: int, steps_kept: int, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    replay = make(tasks=tasks, slots=slots, capacity=steps_kept * slots, n_step=n)
    history: list[list[list[Row]]] = [[[] for _ in range(slots)] for _ in range(tasks)]
    for t in range(steps):
        step = numbered(tasks, slots, t, rng.random((tasks, slots)) < 0.15, rng.random((tasks, slots)) < 0.15)
        replay.add(step)
        for i in range(tasks):
            for s in range(slots):
                flags = bool(step.terminated[i, s]), bool(step.ended[i, s])
                history[i][s].append(Row(float(step.reward[i, s]), *flags, step.next_obs[i, s].tolist()))
    # Every row there is: young, old, next to the write head, across the wrap.
    index = np.tile(np.arange(replay.size), (tasks, 1))
    b = with_indices(replay, index)
    for i in range(tasks):
        for row in range(replay.size):
            slot, t = int(b.obs[i, row, 0] % 1000 // 100), int(b.obs[i, row, 1])
            reward, discount, next_obs = n_step_by_hand(history[i][slot], t, n)
            assert float(b.reward[i, row]) == pytest.approx(reward, abs=1e-5)
            assert float(b.discount[i, row]) == pytest.approx(discount, abs=1e-6)
            assert b.next_obs[i, row].tolist() == next_obs


def test_rows_keep_their_types() -> None:
    replay = make()
    step = numbered(2, 2, 0)
    step.reward = step.reward.astype(np.float64)  # wider than the ring: narrowed, not refused
    replay.add(step)
    assert set(replay.rows) == set(FIELDS)
    assert {replay.rows[f].dtype for f in ("obs", "action", "reward", "next_obs")} == {torch.float32}
    assert {replay.rows[f].dtype for f in ("terminated", "ended")} == {torch.bool}


def test_sampling_never_reads_a_value_back(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = make(n_step=3, uniform=True)
    replay.add(numbered(2, 2, 0))

    def refuse(self: torch.Tensor, *args: Any) -> Any:
        raise AssertionError("sample read a value back from the device")

    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__float__", "__int__", "__index__"):
            patch.setattr(torch.Tensor, name, refuse)
        replay.sample(5)
