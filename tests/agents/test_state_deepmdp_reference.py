"""DeepMDP from states against a second implementation: float64, one sample at a time, beside that of SAC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.state_deepmdp import StateDeepMDP, StateDeepMDPConfig
from tests.agents.test_sac_reference import ACT, MASK, OBS, ROWS, TASKS, Reference, batch

pytestmark = pytest.mark.usefixtures("float64")


def options(**changes: Any) -> StateDeepMDPConfig:
    o = StateDeepMDPConfig(name="state_deepmdp", builder="state_deepmdp", task_input="one_hot")
    o.discount, o.critic_tau, o.encoder_tau, o.init_temperature, o.model_dim = 0.9, 0.1, 0.3, 0.3, 6
    o.actor.hidden_dim, o.actor.num_layers, o.critic.hidden_dim, o.critic.num_layers = 5, 2, 4, 2
    o.encoder.feedforward.hidden_dim, o.encoder.feedforward.feature_dim = 5, 4
    task = o.multitask.task_encoder_cfg
    task.embedding_dim, task.hidden_dim, task.num_layers, task.output_dim = 3, 4, 2, 2
    rates = o.optimizers
    rates.actor.lr, rates.critic.lr, rates.alpha.lr, rates.task_encoder.lr = 0.02, 0.01, 0.03, 0.015
    rates.transition.lr, rates.reward.lr, rates.encoder.lr = 0.012, 0.017, 0.008
    rates.encoder.beta1, rates.reward.beta2 = 0.8, 0.99
    for name, value in changes.items():
        setattr(o, name, value)
    return o


def make_agent(o: StateDeepMDPConfig) -> StateDeepMDP:
    agent = StateDeepMDP(o, Spaces(tuple("abc"), OBS, ACT, MASK), torch.device("cpu"), 0)
    generator = torch.Generator().manual_seed(10)
    with torch.no_grad():  # output layers start near zero, where mistakes hide: make everything matter
        for network in agent.networks.values():
            for p in network.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
    for optimizer in agent.optimizers.values():
        optimizer.steps = [s.float() for s in optimizer.steps]  # counters are float32 whatever the networks are
    return agent


class ModelReference(Reference):
    """SAC's reference, whose networks see what the encoder makes of a state; then the model."""

    def __init__(self, o: StateDeepMDPConfig, state: dict[str, Tensor]) -> None:
        super().__init__(o, state)
        self.others: tuple[Any, Any] = {}, {}  # moments and counts of the model's optimisers

    def encode(self, whose: str, obs: Tensor) -> Tensor:
        h = obs
        for i in range(3):
            h = self.layer(f"{whose}.encoder.layers.{i}", 0, 0, torch.clamp(h, min=0.0) if i else h)
        return h

    def mlp(self, network: str, member: int, task: int, x: Tensor, depth: int) -> Tensor:
        h = self.encode("target" if network == "target" else "critic", x[:OBS])
        h = h.detach() if network == "actor" else h
        return super().mlp(f"{network}.inner", member, task, torch.cat([h, x[OBS:]]), depth)

    def model(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.p[f"{name}.first.weight"], self.p[f"{name}.first.bias"]
        h = torch.stack([(weight[j] * x).sum() + bias[j] for j in range(len(bias))])
        h = (h - h.mean()) / torch.sqrt(((h - h.mean()) ** 2).mean() + 1e-5)
        h = torch.clamp(h * self.p[f"{name}.norm.weight"] + self.p[f"{name}.norm.bias"], min=0.0)
        weight, bias = self.p[f"{name}.last.weight"], self.p[f"{name}.last.bias"]
        return torch.stack([(weight[j] * h).sum() + bias[j] for j in range(len(bias))])

    def model_loss(self, b: Batch) -> list[Tensor]:
        losses = []
        for i in range(TASKS):
            total, label = torch.zeros(()), [z.detach() for z in self.label(i)]
            for r in range(ROWS):
                wanted = self.encode("critic", b.next_obs[i, r]).detach()
                out = self.model("transition", torch.cat([self.encode("critic", b.obs[i, r]), *label, b.action[i, r]]))
                latent, of_latents = len(wanted), torch.zeros(())
                for j in range(latent):
                    sigma = torch.ones(())
                    if self.o.probabilistic:  # type: ignore[attr-defined]
                        sigma = 1e-4 + (10 - 1e-4) / (1 + torch.exp(-out[latent + j]))
                    of_latents = of_latents + 0.5 * ((out[j] - wanted[j]) / sigma) ** 2 + torch.log(sigma)
                reward = self.model("reward", torch.cat([out[:latent], *label]))[0]
                total = total + b.weight[i, r] * (of_latents / latent + (reward - b.reward[i, r]) ** 2)
            losses.append(total / ROWS)
        return losses

    def update(self, b: Batch, noises: list[Tensor], phase: str) -> dict[str, float]:
        slow = {k: self.p[k] for k in self.names("target.encoder")}
        out = super().update(b, noises, phase)
        if phase in ("all", "critic_target"):
            rate = self.o.encoder_tau  # type: ignore[attr-defined]
            for k, before in slow.items():
                self.p[k] = (1 - rate) * before + rate * self.p[k.replace("target", "critic", 1)]
        names = {"transition": "transition.", "reward": "reward.", "encoder": "critic.encoder."}
        trained = {name: self.names(prefix) for name, prefix in names.items()}
        self.training([k for group in trained.values() for k in group])
        loss = sum(self.model_loss(b)) / TASKS
        gradients = self.gradients(loss, [k for group in trained.values() for k in group])  # type: ignore[arg-type]
        # The critic's Adam knows the encoder by the same names.
        (self.moments, self.counts), self.others = self.others, (self.moments, self.counts)
        for name, group in trained.items():
            self.adam({k: gradients[k] for k in group}, getattr(self.o.optimizers, name), self.o.grad_clip)
        (self.moments, self.counts), self.others = self.others, (self.moments, self.counts)
        return out | {"model": float(loss)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trunk": "multi_head", "task_input": "encoder", "alpha_per_task": True},
        {"trunk": "disjoint", "grad_clip": None},
        {"probabilistic": True, "grad_clip": 0.1},
        {"actor_update_freq": 2, "critic_target_update_freq": 3},
    ],
    ids=str,
)
def test_updates_equal_the_reference(changes: dict[str, Any]) -> None:
    o = options(**changes)
    agent = make_agent(o)
    start = {k: v.clone() for k, v in agent.state_dict().items()}
    reference = ModelReference(o, agent.state_dict())
    rng = np.random.default_rng(0)
    for n in range(4):
        b = batch(rng)
        noises = [torch.from_numpy(rng.normal(size=(TASKS, ROWS, ACT))) for _ in range(2)]
        phase = agent.phase(n)
        got = agent.update(b, phase, noises if phase in ("all", "no_target") else noises[:1])
        wanted = reference.update(b, noises, phase)
        model = float(got["ae_transition_loss"] + got["reward_loss"])
        for name, value in wanted.items():
            assert (model if name == "model" else float(got[name])) == pytest.approx(value, rel=1e-9), name
        for name, value in agent.state_dict().items():
            if name in reference.p:
                assert value.dtype == torch.float64
                gap = float((value - reference.p[name].detach()).abs().max())
                assert gap < 1e-9, f"{name} differs by {gap} after update {n}"
    moved = {".".join(k.split(".")[:2]) for k, v in agent.state_dict().items() if not torch.equal(v, start[k])}
    assert {"critic.encoder", "critic.inner", "target.encoder", "target.inner", "actor.inner"} < moved
    assert {f"{name}.{layer}" for name in ("transition", "reward") for layer in ("first", "norm", "last")} < moved
