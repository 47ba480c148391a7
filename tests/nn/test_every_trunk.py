"""What must hold for every trunk, as the actor and the critic of an agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces, agent_kind
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.agents.sac_options import check as check_options
from medley.errors import ConfigError
from medley.gradients.task_loss import TaskLoss
from medley.nn.squashed_gaussian import sample
from medley.nn.trunks import mixes_rows, trunk_names

OBS, ACT, ROWS = 5, 2, 4
NAMES = ("reach-v3", "drawer-close-v3", "push-v3", "window-open-v3", "elsewhere")
MODES = ["attention", "gate", "cluster", "identity", "ensemble"]
VARIANTS: list[dict[str, Any]] = [
    *({"trunk": name} for name in trunk_names() if name not in ("care", "must")),
    {"trunk": "must", "builder": "must"},
    *({"trunk": "care", "care.mode": mode} for mode in MODES),
    {"trunk": "film", "film.per_channel": True},
    {"trunk": "soft_modules", "soft_modules.layers": 4, "soft_modules.modules": 4, "soft_modules.floor": 0.1},
]

SMALL = {
    "soft_modules.width": 6,
    "soft_modules.gating_dim": 7,
    "t3s.width": 8,
    "t3s.mask_dim": 6,
    "t3s.head_dim": 5,
    "care.experts": 3,
}


def make(tasks: int = 3, seed: int = 0, builder: str = "sac", **changes: Any) -> SAC:
    options = agent_kind(builder).options(name="sac", builder=builder)
    assert isinstance(options, SACConfig)
    options.actor.hidden_dim = options.critic.hidden_dim = 12
    options.actor.num_layers = options.critic.num_layers = 2
    small = {
        "soft_modules.width": 6,
        "soft_modules.gating_dim": 7,
        "t3s.width": 8,
        "t3s.mask_dim": 6,
        "t3s.head_dim": 5,
    }
    for key, value in {**small, "care.experts": 3, "alpha_per_task": True, **changes}.items():
        *path, last = key.split(".")
        place: Any = options
        for name in path:
            place = getattr(place, name)
        assert hasattr(place, last), key
        setattr(place, last, value)
    check_options(options, tasks)
    names = (NAMES * 10)[:tasks]
    spaces = Spaces(names, OBS, ACT, np.ones((tasks, ACT), dtype=bool))
    agent = agent_kind(builder).build(options, spaces, torch.device("cpu"), seed)
    assert isinstance(agent, SAC)
    return agent


def make_double(**changes: Any) -> SAC:
    """In 64 bits, with weights that are not at their special starts."""
    agent = make(**changes)
    g = torch.Generator().manual_seed(7)
    for network in (agent.actor, agent.critic, agent.task_input):
        network.double()
        with torch.no_grad():
            for p in network.parameters():
                p.add_(0.05 * torch.randn(p.shape, generator=g, dtype=p.dtype))
    return agent


def random_inputs(tasks: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Of the critic's loss and of the actor's."""
    g = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g, dtype=torch.float64)

    obs, weight = normal(tasks, ROWS, OBS), normal(tasks, ROWS).square()
    critic = (obs, torch.tanh(normal(tasks, ROWS, ACT)), normal(tasks, ROWS), weight)
    mask = torch.ones(tasks, 1, ACT, dtype=torch.float64)
    return critic, (obs, normal(tasks, ROWS, ACT), weight, normal(tasks, 1).square(), mask)


def both(agent: SAC) -> list[tuple[TaskLoss, tuple[Tensor, ...]]]:
    critic, actor = random_inputs(agent.action_mask.shape[0])
    return [(agent.critic_loss, critic), (agent.actor_loss, actor)]


def looped(loss: TaskLoss, inputs: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    losses, _ = loss(*inputs)
    parameters = loss.parameters_trained
    every = range(losses.shape[0])
    return [torch.autograd.grad(losses[i], parameters, retain_graph=True, materialize_grads=True) for i in every]


@pytest.mark.parametrize("tasks", [1, 2, 50])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_updates_and_acts_on_any_number_of_tasks(changes: dict[str, Any], tasks: int) -> None:
    agent = make(tasks, **changes)
    g = torch.Generator().manual_seed(0)
    obs = torch.randn(tasks, ROWS, OBS, generator=g)
    assert agent.act(obs, None).shape == (tasks, ROWS, ACT)
    assert agent.critic(obs, agent._task(), torch.zeros(tasks, ROWS, ACT)).shape == (2, tasks, ROWS, 1)
    action, reward = torch.tanh(torch.randn(tasks, ROWS, ACT, generator=g)), torch.randn(tasks, ROWS, generator=g)
    ones = torch.ones(tasks, ROWS)
    batch = Batch(obs, action, reward, 0.9 * ones, obs + 0.1, ones)
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    metrics = agent.update(batch, "all")
    assert all(bool(torch.isfinite(value).all()) for value in metrics.values())
    for name, value in agent.state_dict().items():
        if name.startswith(("actor", "critic", "target", "task")) and name.endswith("weight"):
            assert not torch.equal(value, before[name]), f"{name} is not trained"


@pytest.mark.parametrize("changes", [v for v in VARIANTS if not mixes_rows(v["trunk"])], ids=str)
def test_one_task_alone_has_the_gradient_it_has_among_others(changes: dict[str, Any]) -> None:
    """In particular: `per_task` names exactly what is per task, and shared parameters hear from every task."""
    agent = make_double(**changes)
    for loss, inputs in both(agent):
        each, got = looped(loss, inputs), loss.per_task(inputs)
        for k, (name, p) in enumerate({**loss.shared, **loss.own}.items()):
            for i in range(3):
                if name in loss.shared:
                    assert torch.allclose(got.shared[k][i], each[i][k], atol=1e-9), name
                else:
                    own = got.own[k - len(loss.shared)][:, i] * 3
                    assert torch.allclose(own, each[i][k][:, i], atol=1e-9), name
                    assert not each[i][k][:, [j for j in range(3) if j != i]].any(), name
            assert p.requires_grad


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_permuting_the_tasks_permutes_the_losses(changes: dict[str, Any]) -> None:
    order = torch.tensor([2, 0, 1])
    agent, moved = make_double(**changes), make_double(**changes)
    for loss, other in ((agent.critic_loss, moved.critic_loss), (agent.actor_loss, moved.actor_loss)):
        with torch.no_grad():
            for (name, a), b in zip(
                {**loss.own, **loss.fixed}.items(), {**other.own, **other.fixed}.values(), strict=True
            ):
                b.copy_(a[:, order] if name in loss.own or name in loss.fixed else a)
    for (loss, inputs), (other, _) in zip(both(agent), both(moved), strict=True):
        losses, _ = loss(*inputs)
        permuted, _ = other(*(x[order] for x in inputs))
        assert torch.allclose(losses[order], permuted, atol=1e-12)
        assert not torch.allclose(losses, permuted, atol=1e-3)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_each_loss_trains_its_own(changes: dict[str, Any]) -> None:
    """The critic's loss trains critic and task encoder, the actor's the actor; every parameter hears from its loss."""
    agent = make_double(**changes)
    common = {id(p) for p in agent.actor.parameters()} & {id(p) for p in agent.critic.parameters()}
    critic, actor = ({id(p) for p in loss.parameters_trained} for loss, _ in both(agent))
    assert critic == {id(p) for n in (agent.critic, agent.task_input) for p in n.parameters()}
    assert actor == {id(p) for p in agent.actor.parameters()}
    assert critic & actor == common
    assert len(common) == (1 if changes["trunk"] == "paco" else 0)
    for loss, inputs in both(agent):
        gradients, _, _ = loss.plain(inputs)
        for name, p in {**loss.shared, **loss.own}.items():
            assert gradients[p].abs().sum() > 0, name


def test_a_mixing_vector_in_common_is_not_trained_through_the_critic_by_the_actors_loss() -> None:
    agent = make_double(trunk="paco")
    _, inputs = both(agent)[1]
    obs, noise, weight, alpha, mask = inputs
    gradients, _, _ = agent.actor_loss.plain(inputs)
    action, log_prob = sample(*agent._distribution(agent.actor(obs)), noise, mask)
    held = action.detach().requires_grad_()
    q = agent._q(agent.critic, obs, held, None).amin(0)
    (slope,) = torch.autograd.grad((q * weight).mean(), held)
    surrogate = ((alpha * log_prob) * weight).mean() - (slope * action).sum()
    (wanted,) = torch.autograd.grad(surrogate, [agent.actor.w])  # type: ignore[list-item]
    assert torch.allclose(gradients[agent.actor.w], wanted, atol=1e-10)  # type: ignore[index]
    with_critic = torch.autograd.grad(agent._q(agent.critic, obs, held, None).sum(), [agent.critic.w])  # type: ignore[list-item]
    assert with_critic[0].abs().sum() > 0


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_saved_agent_acts_the_same_when_loaded(changes: dict[str, Any]) -> None:
    one, two = make(seed=0, **changes), make(seed=1, **changes)
    obs = torch.randn(3, ROWS, OBS)
    noise = torch.randn(3, ROWS, ACT)
    assert not torch.equal(one.act(obs, noise), two.act(obs, noise))
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.act(obs, noise), two.act(obs, noise))
    three = make(seed=2, **changes)
    for to, source in zip(three.policy_tensors(), one.policy_tensors(), strict=True):
        to.copy_(source)
    assert torch.equal(one.act(obs, noise), three.act(obs, noise))


def test_labels_that_a_trunk_cannot_use_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task_input=none does not go with agent.trunk=soft_modules.*one_hot"):
        make(trunk="soft_modules", task_input="none")
    with pytest.raises(ConfigError, match=r"task_input=one_hot does not go with agent.trunk=care"):
        make(trunk="care", task_input="one_hot")
    with pytest.raises(ConfigError, match=r"care.mode='attn'.*attention"):
        make(trunk="care", **{"care.mode": "attn"})
