"""DeepMDP from states: what each loss trains, what actor and critics see, and with what it can be combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch
from medley.agents.state_deepmdp import StateDeepMDP, StateDeepMDPConfig
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.gradients.combiners import Mean, combiner_names
from medley.nn.stacked import StackedLinear
from medley.nn.trunks import trunk_names
from tests.nn.test_every_trunk import ACT, OBS, ROWS, make

TASKS = 3


def make_agent(**changes: Any) -> StateDeepMDP:
    agent = make(builder="state_deepmdp", **{"model_dim": 16, "task_input": "encoder", **changes})
    assert isinstance(agent, StateDeepMDP)
    return agent


def make_batch(seed: int = 0) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g)

    obs, action = normal(TASKS, ROWS, OBS), torch.tanh(normal(TASKS, ROWS, ACT))
    discount, weight = torch.full((TASKS, ROWS), 0.9), normal(TASKS, ROWS).square()
    return Batch(obs, action, normal(TASKS, ROWS), discount, normal(TASKS, ROWS, OBS), weight)


def changed(agent: StateDeepMDP, act: Callable[[], object]) -> set[str]:
    """Networks, and parts of those that have an encoder, with a tensor that is not what it was."""
    before = {name: value.clone() for name, value in agent._weights().items()}
    act()
    names = {name for name, value in agent._weights().items() if not torch.equal(value, before[name])}
    parts = {name: name.split(".") for name in names}
    return {".".join(p[: 2 if p[0] in ("actor", "critic", "target") else 1]) for p in parts.values()}


def test_each_loss_trains_its_own() -> None:
    agent, batch = make_agent(), make_batch()
    noise = torch.randn(TASKS, ROWS, ACT)
    assert changed(agent, lambda: agent.update_critic(batch, noise)) == {"critic.encoder", "critic.inner", "task"}
    assert changed(agent, lambda: agent.update_actor(batch, noise)) == {"actor.inner", "log_alpha"}
    assert changed(agent, lambda: agent.update_model(batch)) == {"critic.encoder", "transition", "reward"}
    assert changed(agent, agent.update_target) == {"target.encoder", "target.inner", "target_task"}


def test_actor_and_critics_see_by_the_one_encoder() -> None:
    agent, batch = make_agent(), make_batch()
    for p in agent.actor.parameters():
        p.data.add_(0.1)  # its last layer starts near zero
    action, value = agent.act(batch.obs, None), agent.critic(batch.obs, agent.task_input(), batch.action)
    agent.update_model(batch)
    assert not torch.equal(agent.act(batch.obs, None), action)
    assert not torch.equal(agent.critic(batch.obs, agent.task_input(), batch.action), value)
    assert not [name for name, _ in agent.actor.named_parameters() if "encoder" in name]


def test_the_targets_encoder_follows_at_its_own_rate() -> None:
    agent = make_agent(encoder_tau=1.0, critic_tau=1e-9)
    agent.update_critic(make_batch(), torch.randn(TASKS, ROWS, ACT))
    agent.update_target()
    assert agent.critic.encoder is not None
    assert agent.target.encoder is not None
    pairs = zip(agent.critic.encoder.parameters(), agent.target.encoder.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)
    heads = zip(agent.critic.inner.parameters(), agent.target.inner.parameters(), strict=True)
    assert not any(torch.equal(p, q) for p, q in heads)


def test_it_comes_to_foretell_rewards_and_what_follows() -> None:
    agent, batch = make_agent(model_dim=64), make_batch()
    batch.next_obs = batch.obs + torch.cat([batch.action, torch.zeros(TASKS, ROWS, OBS - ACT)], dim=-1)

    def unexplained() -> tuple[float, float]:
        """Shares of the variance; latents that became all alike would not be foretold by that."""
        with torch.no_grad():
            h, wanted = agent.critic.encode(batch.obs), agent.critic.encode(batch.next_obs)
            z = agent.task_input()
            of_latents, of_rewards = agent.model.errors(h, z, batch.action, wanted, batch.reward)
            spread = wanted.flatten(0, 1).var(0).mean()
            return float(2 * of_latents.mean() / spread), float(of_rewards.mean() / batch.reward.var())

    batch.weight = torch.ones(TASKS, ROWS)
    assert min(unexplained()) > 0.8
    for _ in range(600):
        agent.update_model(batch)
    assert max(unexplained()) < 0.1


@pytest.mark.parametrize("trunk", [name for name in trunk_names() if name != "must"])
def test_every_trunk_sees_latents(trunk: str) -> None:
    task_input = "one_hot" if trunk in ("t3s", "paco", "moore") else "encoder"
    agent, batch = make_agent(trunk=trunk, task_input=task_input), make_batch()
    metrics = agent.update(batch, "all")
    assert all(torch.isfinite(value).all() for value in metrics.values())
    rows = agent.act(batch.obs[:, :1], None)
    assert torch.allclose(agent.act(batch.obs, None)[:, :1], rows, atol=1e-6)
    named = {name for name, _ in agent.critic.named_parameters()} | {name for name, _ in agent.critic.named_buffers()}
    assert set(agent.critic.per_task()) <= named


@pytest.mark.parametrize("probabilistic", [False, True])
@pytest.mark.parametrize("trunk", ["multi_head", "care"])
def test_every_tasks_gradient_is_that_of_its_own_loss(trunk: str, probabilistic: bool) -> None:
    agent, batch = make_agent(trunk=trunk, probabilistic=probabilistic), make_batch()
    h_next = agent.critic.encode(batch.next_obs).detach()
    inputs = (batch.obs, batch.action, h_next, batch.reward, batch.weight)
    loss = agent.model_loss
    found = loss.per_task(inputs)
    losses, _ = loss(*inputs)
    assert not loss.own  # nothing of the model belongs to one task
    for i in range(TASKS):
        wanted = torch.autograd.grad(losses[i], list(loss.shared.values()), retain_graph=True)
        for got, one in zip(found.shared, wanted, strict=True):
            assert torch.allclose(got[i], one, atol=1e-5)


@pytest.mark.parametrize("gradients", combiner_names())
def test_gradients_of_the_model_are_combined_too(gradients: str) -> None:
    one, other = make_agent(gradients=gradients), make_agent(gradients=gradients, seed=1)
    for seed in range(3):
        metrics = one.update(make_batch(seed), "all")
    assert all(torch.isfinite(value).all() for value in metrics.values())
    assert type(one.combine_model) is type(one.combine_critic)
    own = {name.removesuffix("_critic") for name in metrics if name.endswith("_critic") and name != "grad_norm_critic"}
    assert {name.removesuffix("_model") for name in metrics if name.endswith("_model")} == own
    # A saved agent goes on alike, with what its combiners know.
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    for agent in (one, other):
        agent.update(make_batch(5), "all")
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items())


def test_one_task_needs_no_label() -> None:
    agent, batch = make_agent(tasks=1, task_input="auto"), make_batch()
    one = Batch(**{name: value[:1] for name, value in vars(batch).items()})
    metrics = agent.update(one, "all")
    assert all(torch.isfinite(value).all() for value in metrics.values())
    assert agent.model.reward.first.in_features == agent.options.encoder.feedforward.feature_dim


def test_a_fresh_start_is_like_a_new_agent() -> None:
    agent, new = make_agent(gradients="gradnorm"), make_agent(gradients="gradnorm", seed=4)
    agent.update(make_batch(), "all")
    agent.reset(4)
    assert all(torch.equal(value, new._tensors()[name]) for name, value in agent._tensors().items())


def test_16_bits_change_little() -> None:
    exact, reduced = make_agent(), make_agent()
    reduced.reduce_precision()
    assert any(layer.reduced for layer in reduced.critic.modules() if isinstance(layer, StackedLinear))
    noise = exact.draw_noise(ROWS, "all")
    one, other = (agent.update(make_batch(), "all", noise) for agent in (exact, reduced))
    assert all(float(one[k].mean()) == pytest.approx(float(v.mean()), abs=0.05) for k, v in other.items())


def test_a_loss_that_may_be_negative_gets_the_mean() -> None:
    assert type(make_agent(gradients="gradnorm", probabilistic=True).combine_model) is Mean


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("agent.n_step=2", "a model of one step"),
        ("agent.model_dim=0", "agent.model_dim=0"),
        ("agent.encoder_tau=0", "agent.encoder_tau=0"),
        ("agent.encoder.feedforward.feature_dim=0", "agent.encoder.feedforward.feature_dim=0"),
        ("agent.encoder.type_to_select=identity", "Take feedforward, or agent=state_sac"),
        ("agent.trunk=must", "agent=must"),
    ],
)
def test_what_cannot_be_is_refused(word: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        load_config(["env=point", "agent=state_deepmdp", word])


def test_mtrls_words_for_encoders() -> None:
    words = "agent.encoder.type_to_select=feedforward agent.encoder.feedforward.hidden_dim=30"
    options = load_config(["env=metaworld-mt10", "agent=pcgrad_state_deepmdp", *words.split()]).agent
    assert isinstance(options, StateDeepMDPConfig)
    assert (options.encoder.feedforward.hidden_dim, options.trunk, options.gradients) == (30, "shared", "pcgrad")
    options = load_config(["env=point", "agent=state_deepmdp", "agent.encoder.type_to_select=moe"]).agent
    assert isinstance(options, StateDeepMDPConfig)
    assert options.trunk == "care"
