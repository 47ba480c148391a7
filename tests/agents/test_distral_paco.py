"""Distral's losses against sums over rows, what each of them trains, and PaCo's way with exploding tasks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from medley.agents.api import Batch
from medley.agents.distral import Distral, check_distral
from medley.agents.paco import PaCo
from medley.errors import ConfigError
from medley.nn.paco import mix
from tests.nn.test_every_trunk import ACT, OBS, ROWS, make

TASKS, C = 3, 0.7


def distral(**changes: Any) -> Distral:
    agent = make(builder="distral", **{"trunk": "disjoint", "distral.alpha": C, **changes})
    assert isinstance(agent, Distral)
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for network in (agent.actor, agent.critic, agent.target, agent.common_policy):
            for p in network.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=g))
        agent.log_alpha.copy_(torch.tensor([0.1, -0.5, -2.0]))
    return agent


def batch_of(seed: int = 0) -> tuple[Batch, Tensor]:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g)

    obs, weight = normal(TASKS, ROWS, OBS), normal(TASKS, ROWS).square()
    discount = 0.9 * (normal(TASKS, ROWS) > 0).float()
    action = torch.tanh(normal(TASKS, ROWS, ACT))
    batch = Batch(obs, action, normal(TASKS, ROWS), discount, normal(TASKS, ROWS, OBS), weight)
    return batch, normal(TASKS, ROWS, ACT)


def density(mean: Tensor, log_std: Tensor, u: Tensor) -> Tensor:
    """log pi(tanh(u)) of one row, by the change of variables."""
    p = Normal(mean.double(), log_std.double().exp())
    return (p.log_prob(u.double()) - torch.log(1 - torch.tanh(u.double()).square())).sum()


def policy(agent: Distral, network: Any, obs: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_std = network(obs)[0].chunk(2, -1)
    return mean, log_std.clamp(*agent.options.actor.log_std_bounds)


def test_targets_and_losses_row_by_row() -> None:
    agent = distral()
    batch, noise = batch_of()
    y = agent._targets(batch, None, noise)
    mean, log_std = policy(agent, agent.actor, batch.next_obs)
    common = policy(agent, agent.common_policy, batch.next_obs)
    alpha = agent.log_alpha.exp()
    for t in range(TASKS):
        for r in range(ROWS):
            u = mean[t, r] + log_std[t, r].exp() * noise[t, r]
            own, near = density(mean[t, r], log_std[t, r], u), density(common[0][t, r], common[1][t, r], u)
            q = agent.target(batch.next_obs, None, torch.tanh(mean + log_std.exp() * noise))[:, t, r, 0].min()
            wanted = batch.reward[t, r] + batch.discount[t, r] * (q + C * near - (C + alpha[t]) * own)
            assert float(y[t, r]) == pytest.approx(float(wanted), abs=1e-4)

    inputs = (batch.obs, noise, batch.weight, agent._alpha(), agent.action_mask)
    losses, extras = agent._actor_losses(*inputs)
    mean, log_std = policy(agent, agent.actor, batch.obs)
    common = policy(agent, agent.common_policy, batch.obs)
    u = mean + log_std.exp() * noise
    q = agent.critic(batch.obs, None, torch.tanh(u)).amin(0)[..., 0]
    for t in range(TASKS):
        total = torch.zeros((), dtype=torch.float64)
        for r in range(ROWS):
            own = density(mean[t, r], log_std[t, r], u[t, r])
            near = density(common[0][t, r], common[1][t, r], u[t, r])
            total += batch.weight[t, r] * ((C + alpha[t]) * own - C * near - q[t, r]) / ROWS
            assert float(extras["near"][t, r]) == pytest.approx(float(near), abs=1e-4)
        assert float(losses[t]) == pytest.approx(float(total), rel=1e-4)


def test_each_loss_trains_its_own() -> None:
    agent = distral()
    batch, noise = batch_of()

    def changed(act: Any) -> set[str]:
        before = {name: value.clone() for name, value in agent.state_dict().items()}
        act()
        after = agent.state_dict()
        return {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])} - {"optimizer"}

    assert changed(lambda: agent.update_critic(batch, noise)) == {"critic"}
    assert changed(lambda: agent.update_actor(batch, noise)) == {"actor", "log_alpha", "common_policy"}


def test_the_common_policy_comes_nearer_to_what_tasks_do() -> None:
    agent = distral()
    batch, noise = batch_of()
    mean, log_std = policy(agent, agent.actor, batch.obs)
    u = (mean + log_std.exp() * noise).detach()
    extras = {"u": u, "log_prob": torch.zeros(TASKS, ROWS), "near": torch.zeros(TASKS, ROWS)}

    def near() -> float:
        return float((agent._common_density(batch.obs, u, agent.action_mask) * batch.weight).mean())

    before = near()
    for _ in range(50):
        agent._after_actor(batch, extras)
    assert near() > before + 0.01


def test_which_policy_acts_can_be_chosen() -> None:
    agent = distral()
    obs = batch_of()[0].obs
    one = agent.act(obs, None)
    agent.options.distral.act = "common"
    assert torch.allclose(agent.act(obs, None), torch.tanh(policy(agent, agent.common_policy, obs)[0]))
    assert not torch.allclose(agent.act(obs, None), one)
    same = obs[:1].expand(TASKS, -1, -1)
    assert torch.equal(agent.act(same, None)[0], agent.act(same, None)[1])  # it is not told the task
    agent.options.distral.act = "both"
    with pytest.raises(ConfigError, match="task or common"):
        check_distral(agent.options, TASKS)


def test_the_common_policy_acts_on_what_it_has_learnt_from() -> None:
    """Observations by their statistics, where the agent is told to."""
    agent = distral(**{"normalize_obs": True, "distral.act": "common"})
    obs = batch_of()[0].obs
    assert agent.obs_norm is not None
    agent.obs_norm.observe(3 * obs.numpy() + 1)
    seen = agent.obs_norm(obs)
    assert not torch.allclose(seen, obs)
    assert torch.allclose(agent.act(obs, None), torch.tanh(policy(agent, agent.common_policy, seen)[0]))


def paco(limit: float) -> PaCo:
    agent = make(builder="paco", **{"trunk": "paco", "paco.loss_limit": limit})
    assert isinstance(agent, PaCo)
    return agent


def test_a_task_that_explodes_sits_out_and_gets_a_new_mix() -> None:
    agent, calm = paco(limit=50.0), paco(limit=1e9)
    batch, noise = batch_of()
    batch.weight = torch.ones_like(batch.weight)
    batch.reward[1] += 100.0
    for _ in range(2):  # the second time with moments
        before = agent.critic.w.detach().clone()  # type: ignore[union-attr, operator]
        metrics = agent.update_critic(batch, noise)
        w = agent.critic.w.detach()  # type: ignore[union-attr, operator]
        assert float(metrics["tasks_sitting_out"]) == 1
        assert torch.allclose(w[0, 1], (w[0, 0] + w[0, 2]) / 2)
        assert not torch.equal(w[0, 0], before[0, 0])
        optimizer = agent.optimizers["common"]
        assert not optimizer.means[0][0, 1].any()
        assert optimizer.means[0][0, 0].any()
    assert float(calm.update_critic(batch, noise)["tasks_sitting_out"]) == 0


def test_if_all_explode_nobody_gets_a_new_mix() -> None:
    agent = paco(limit=1e-9)
    before = agent.critic.w.detach().clone()  # type: ignore[union-attr, operator]
    agent.update_critic(*batch_of())
    assert torch.equal(agent.critic.w, before)  # type: ignore[arg-type]


def test_log_alpha_stays_within_its_bounds() -> None:
    agent = make(log_alpha_bounds=[-0.001, 0.0005])
    agent.update_alpha(torch.tensor([[9.0], [-9.0], [9.0]]).expand(TASKS, ROWS))
    assert agent.log_alpha.tolist() == pytest.approx([0.0005 - 0.0005 * 0.4, -0.0003, 0.0003], abs=3e-4)
    for _ in range(20):
        agent.update_alpha(torch.tensor([[9.0], [-9.0], [9.0]]).expand(TASKS, ROWS))
    assert agent.log_alpha.tolist() == pytest.approx([0.0005, -0.001, 0.0005])


def test_mixes_are_the_same_either_way() -> None:
    """A GPU sums products where a CPU multiplies matrices; both, and their gradients, are equal."""
    generator = torch.Generator().manual_seed(0)
    w, sets = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((1, 3, 5), (2, 5, 7)))
    made = []
    for fused in (False, True):
        inputs = [w.clone().requires_grad_(), sets.clone().requires_grad_()]
        out = mix(*inputs, fused=fused)
        made.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    torch.testing.assert_close(made[0], made[1])
