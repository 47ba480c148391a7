"""Observations by their running mean and deviation: the statistics, where they live, and who sees them."""

from __future__ import annotations

import numpy as np
import torch

from medley.nn.obs_norm import LARGEST, ObsNorm
from medley.nn.optimizer import OptimizerConfig
from tests.training.updates import ACT, OBS, ROWS, TASKS, make_agent, make_seed, steps

CPU = torch.device("cpu")


def chunks(n: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(2, TASKS, 3, OBS)) * 4 + 100).astype(np.float32) for _ in range(n)]


def test_statistics_are_those_of_everything_seen() -> None:
    norm = ObsNorm(OBS, CPU)
    assert torch.equal(norm(torch.ones(2, OBS)), torch.ones(2, OBS))  # nothing seen yet
    for chunk in chunks():
        norm.observe(chunk)
    rows = np.concatenate([c.reshape(-1, OBS) for c in chunks()]).astype(np.float64)
    assert float(norm.count) == len(rows)
    assert np.allclose(norm.mean.numpy(), rows.mean(0), rtol=1e-12)
    assert np.allclose((norm.squares / norm.count).numpy(), rows.var(0), rtol=1e-9)
    seen = norm(torch.from_numpy(rows.astype(np.float32))).numpy()
    assert np.allclose(seen.mean(0), 0.0, atol=1e-3)
    assert np.allclose(seen.std(0), 1.0, atol=1e-3)


def test_a_step_that_nobody_took_changes_nothing() -> None:
    norm = ObsNorm(OBS, CPU)
    for chunk in (np.zeros((0, OBS), dtype=np.float32), chunks()[0], np.zeros((0, OBS), dtype=np.float32)):
        norm.observe(chunk)
        assert all(bool(torch.isfinite(t).all()) for t in norm.state().values())
    assert float(norm.count) == chunks()[0].reshape(-1, OBS).shape[0]


def test_a_feature_that_never_moved_stays_within_bounds() -> None:
    norm = ObsNorm(2, CPU)
    norm.observe(np.array([[[[1.0, 5.0]], [[2.0, 5.0]]]], dtype=np.float32))
    out = norm(torch.tensor([[1.5, 5.0], [1.5, 6.0], [1.5, -3.0]]))
    assert out[:, 1].tolist() == [0.0, LARGEST, -LARGEST]


def test_acting_and_learning_see_the_same_and_policies_carry_it() -> None:
    agent, plain = (make_agent(normalize_obs=on) for on in (True, False))
    for chunk in chunks():
        agent.observe(steps(chunk), 0)
        plain.observe(steps(chunk), 0)
    assert agent.obs_norm is not None
    obs = torch.from_numpy(chunks()[0][0])
    assert torch.equal(agent.act(obs, None), plain.act(agent.obs_norm(obs), None))
    assert not torch.equal(agent.act(obs, None), plain.act(obs, None))
    copy = make_agent(seed=4, normalize_obs=True)
    places = [t.data_ptr() for t in copy.policy_tensors()]
    for to, source in zip(copy.policy_tensors(), agent.policy_tensors(), strict=True):
        to.copy_(source)
    assert torch.equal(copy.act(obs, None), agent.act(obs, None))
    copy.load_state_dict(agent.state_dict())
    copy.observe(steps(chunks()[0]), 0)
    assert [t.data_ptr() for t in copy.policy_tensors()] == places
    weights = make_agent(seed=5, normalize_obs=True)
    weights.load_weights(agent.state_dict())
    assert torch.equal(weights.act(obs, None), agent.act(obs, None))

    seed, raw = make_seed(normalize_obs=True), make_seed()
    seed.agent.observe(steps(chunks()[0]), 0)
    batch = raw.replay.sample(ROWS)
    noises = [torch.randn(TASKS, ROWS, ACT) for _ in range(2)]
    got = seed.agent.update(batch, "all", noises)
    norm = seed.agent.obs_norm  # type: ignore[attr-defined]
    batch.obs, batch.next_obs = norm(batch.obs), norm(batch.next_obs)
    wanted = raw.agent.update(batch, "all", noises)
    assert all(torch.equal(got[name], wanted[name]) for name in wanted)


def test_a_loaded_agent_goes_on_counting_the_same() -> None:
    a, b = (make_agent(normalize_obs=True) for _ in range(2))
    a.observe(steps(chunks()[0]), 0)
    b.load_state_dict({k: v.clone() for k, v in a.state_dict().items()})
    for agent in (a, b):
        agent.observe(steps(chunks()[1]), 0)
    for name, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[name]), name


def test_compiled_updates_know_neither_this_nor_weight_decay() -> None:
    assert make_agent(normalize_obs=True).native(1) == "agent.normalize_obs is not compiled"
    decaying = make_agent()
    decaying.optimizers["critic"].config = OptimizerConfig(weight_decay=0.1)
    assert decaying.native(1) == "weight decay is not compiled"
