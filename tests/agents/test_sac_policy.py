"""A policy's density, its limits, and actions that a task does not have."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from medley.nn.squashed_gaussian import bound_log_std, sample
from tests.agents.sac_agent import ACT, OBS, TASKS, make


def test_target_entropy_counts_real_action_dimensions() -> None:
    mask = [[True, True, True], [True, False, False], [True, True, False]]
    assert make(mask=mask).target_entropy.tolist() == [[-3.0], [-1.0], [-2.0]]
    assert make(mask=mask, target_entropy=-0.25).target_entropy.tolist() == [[-0.25]] * 3
    assert make(mask=mask, target_entropy=0.0).target_entropy.tolist() == [[0.0]] * 3


def test_padded_actions_are_zero_and_have_no_influence() -> None:
    mask = [[True, True], [True, False]]
    agent = make(mask=mask)
    generator = torch.Generator().manual_seed(1)
    obs, noise = (torch.randn(2, 5, width, generator=generator) for width in (OBS, 2))
    for actions in (agent.act(obs, noise), agent.act(obs, None)):
        assert actions.shape == (2, 5, 2)
        assert (actions[1, :, 1] == 0).all()
        assert (actions[0].abs() > 0).all()
    other = noise.clone()
    other[1, :, 1] = 100.0
    mean, log_std = agent._distribution(agent.actor(obs, agent._task()))
    log_probs = [sample(mean, log_std, n, agent.action_mask)[1] for n in (noise, other)]
    assert torch.equal(log_probs[0], log_probs[1])


def test_acting_without_noise_is_the_squashed_mean_and_leaves_no_graph() -> None:
    agent = make()
    obs = torch.randn(TASKS, 5, OBS)
    mean, log_std = agent._distribution(agent.actor(obs, agent._task()))
    assert torch.allclose(agent.act(obs, None), torch.tanh(mean))
    noise = torch.randn(TASKS, 5, ACT)
    assert torch.allclose(agent.act(obs, noise), torch.tanh(mean + log_std.exp() * noise))
    assert not agent.act(obs, noise).requires_grad


def test_log_prob_equals_torch_distributions() -> None:
    g = torch.Generator().manual_seed(0)
    mean, log_std, noise = (torch.randn(3, 50, 4, generator=g, dtype=torch.float64) for _ in range(3))
    action, log_prob = sample(mean, log_std, noise, torch.ones(3, 1, 4, dtype=torch.float64))
    normal = Normal(mean, log_std.exp())
    wanted = TransformedDistribution(Independent(normal, 1), [TanhTransform(cache_size=1)])
    u = mean + log_std.exp() * noise
    wanted_log_prob = normal.log_prob(u).sum(-1) - TanhTransform().log_abs_det_jacobian(u, torch.tanh(u)).sum(-1)
    assert torch.allclose(log_prob, wanted_log_prob, atol=1e-10)
    inside = (action.abs() < 0.999).all(-1)  # atanh loses its digits near the edge
    assert inside.sum() > 50
    assert torch.allclose(log_prob[inside], wanted.log_prob(action)[inside], atol=1e-6)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -1.0), (-1.5, 0.3)])
def test_density_integrates_to_one(mean: float, log_std: float) -> None:
    """The integral of exp(log pi(a)) da over the box, with the noise that leads to each a."""
    edges = torch.linspace(-1, 1, 400_001, dtype=torch.float64)
    a = (edges[1:] + edges[:-1]) / 2
    noise = ((torch.atanh(a) - mean) / math.exp(log_std)).reshape(1, -1, 1)
    full = torch.full_like(noise, mean)
    action, log_prob = sample(full, torch.full_like(noise, log_std), noise, torch.ones(1, 1, 1, dtype=torch.float64))
    assert torch.allclose(action.flatten(), a, atol=1e-9)
    assert float(log_prob.exp().sum() * (2 / len(a))) == pytest.approx(1.0, abs=1e-4)


def test_extreme_actions_have_a_finite_log_prob_and_gradient() -> None:
    mean = torch.tensor([[[60.0, -60.0]]], requires_grad=True)
    log_std = torch.tensor([[[2.0, -20.0]]], requires_grad=True)
    action, log_prob = sample(mean, log_std, torch.tensor([[[4.0, -4.0]]]), torch.ones(1, 1, 2))
    assert torch.isfinite(log_prob).all()
    assert (action.abs() <= 1).all()
    for gradient in torch.autograd.grad(log_prob.sum(), [mean, log_std]):
        assert torch.isfinite(gradient).all()


def test_log_std_bounds() -> None:
    raw = torch.tensor([-100.0, -3.0, 0.0, 1.0, 100.0])
    assert bound_log_std(raw, -20.0, 2.0, "clamp").tolist() == [-20.0, -3.0, 0.0, 1.0, 2.0]
    rescaled = bound_log_std(raw, -20.0, 2.0, "tanh")
    assert rescaled[[0, 2, 4]].tolist() == pytest.approx([-20.0, -9.0, 2.0])


# ---- graph safety, saving
