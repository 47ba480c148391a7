"""SAC against a second implementation: float64, one sample at a time, written from the formulas and not from the code.

The reference knows only the names and shapes of the saved tensors. Its losses are Python loops over tasks, rows and
members; its Adam, clipping and target average are written out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig

TASKS, ROWS, OBS, ACT = 3, 3, 3, 2
MASK = np.array([[True, True], [True, False], [True, True]])  # the second task has one action dimension less


pytestmark = pytest.mark.usefixtures("float64")


def options(**changes: Any) -> SACConfig:
    o = SACConfig(name="sac", builder="sac", task_input="one_hot", discount=0.9, critic_tau=0.1, init_temperature=0.3)
    o.actor.hidden_dim, o.actor.num_layers = 5, 2
    o.critic.hidden_dim, o.critic.num_layers = 4, 3
    cfg = o.multitask.task_encoder_cfg
    cfg.embedding_dim, cfg.hidden_dim, cfg.num_layers, cfg.output_dim = 3, 4, 2, 2
    rates = o.optimizers
    rates.actor.lr, rates.critic.lr, rates.alpha.lr, rates.task_encoder.lr = 0.02, 0.01, 0.03, 0.015
    rates.critic.beta1, rates.actor.beta2, rates.alpha.eps = 0.8, 0.99, 1e-3
    for name, value in changes.items():
        setattr(o, name, value)
    return o


def agent(o: SACConfig, seed: int = 0) -> SAC:
    made = SAC(o, Spaces(tuple(f"t{i}" for i in range(TASKS)), OBS, ACT, MASK), torch.device("cpu"), seed)
    generator = torch.Generator().manual_seed(seed + 10)
    with torch.no_grad():  # output layers start near zero, where mistakes hide: make everything matter
        for network in (made.actor, made.critic, made.target, made.task_input, made.target_task):
            for p in network.parameters():
                p.add_(0.4 * torch.randn(p.shape, generator=generator))
    for optimizer in made.optimizers.values():
        optimizer.steps = [s.float() for s in optimizer.steps]  # counters are float32 whatever the networks are
    return made


def batch(rng: np.random.Generator, weighted: bool = True) -> Batch:
    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    n_step = 0.9 ** rng.integers(1, 4, size=(TASKS, ROWS))  # as from 3-step returns, some of them cut short
    alive = rng.random((TASKS, ROWS)) > 0.3
    weight = rng.uniform(0.2, 3.0, size=(TASKS, ROWS)) if weighted else np.ones((TASKS, ROWS))
    return Batch(
        obs=normal(TASKS, ROWS, OBS),
        action=torch.tanh(normal(TASKS, ROWS, ACT)) * torch.from_numpy(MASK).unsqueeze(1),
        reward=normal(TASKS, ROWS),
        discount=torch.from_numpy(n_step * alive),
        next_obs=normal(TASKS, ROWS, OBS),
        weight=torch.from_numpy(weight),
    )


class Reference:
    """Everything by name in `p`; networks are read from it one weight matrix at a time."""

    def __init__(self, o: SACConfig, state: dict[str, Tensor]) -> None:
        self.o = o
        self.p = {k: v.clone() for k, v in state.items() if not k.startswith(("optimizer", "generator", "task.table"))}
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        self.counts: dict[str, int] = {}

    # ---- networks, one sample at a time

    def layer(self, name: str, member: int, task: int, x: Tensor) -> Tensor:
        weight, bias = self.p[f"{name}.weight"], self.p[f"{name}.bias"]
        if weight.ndim == 4:
            weight, bias = weight[member][task], bias[member][task]
        else:
            weight, bias = weight[member], bias[member]
        return torch.stack([bias[0, j] + (x * weight[:, j]).sum() for j in range(weight.shape[1])])

    def mlp(self, network: str, member: int, task: int, x: Tensor, depth: int) -> Tensor:
        for i in range(depth):
            x = torch.clamp(self.layer(f"{network}.hidden.{i}", member, task, x), min=0.0)
        out = "heads" if f"{network}.heads.weight" in self.p else "out"
        return self.layer(f"{network}.{out}", member, task, x)

    def label(self, task: int, whose: str = "task") -> list[Tensor]:
        """What the networks are told about the task; targets learn it as slowly as all else (`target_task`)."""
        if self.o.task_input == "one_hot" and self.o.trunk != "disjoint":
            zeros = -(OBS + TASKS + ACT) % 4  # they fill the critics' input up to a multiple of four
            return [torch.tensor([1.0 if i == task else 0.0 for i in range(TASKS + zeros)])]
        if self.o.task_input == "encoder":
            h = self.p[f"{whose}.embedding"][0, task]
            for i in range(self.o.multitask.task_encoder_cfg.num_layers + 1):
                h = self.layer(f"{whose}.layers.{i}", 0, task, torch.clamp(h, min=0.0))
            return [h]
        return []

    def policy(self, task: int, obs: Tensor, label: list[Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        out = self.mlp("actor", 0, task, torch.cat([obs, *label]), self.o.actor.num_layers)
        low, high = self.o.actor.log_std_bounds
        action, log_prob = [], torch.zeros(())
        for d in range(ACT):
            mean, raw = out[d], out[ACT + d]
            if self.o.actor.log_std_bounding == "tanh":
                log_std = low + (high - low) / 2 * (1 + torch.tanh(raw))
            else:
                log_std = torch.clamp(raw, low, high)
            std = torch.exp(log_std)
            u = mean + std * noise[d]
            a = torch.tanh(u)
            if not MASK[task, d]:
                action.append(torch.zeros(()))
                continue
            action.append(a)
            density = -((u - mean) ** 2) / (2 * std**2) - torch.log(std * math.sqrt(2 * math.pi))
            log_prob = (
                log_prob + density + 2 * torch.log(torch.cosh(u))
            )  # 1 - tanh^2 = 1 / cosh^2, without cancellation
        return torch.stack(action), log_prob

    def q(self, network: str, member: int, task: int, obs: Tensor, label: list[Tensor], action: Tensor) -> Tensor:
        return self.mlp(network, member, task, torch.cat([obs, *label, action]), self.o.critic.num_layers)[0]

    def alpha(self, task: int) -> Tensor:
        log_alpha = self.p["log_alpha"]
        return torch.exp(log_alpha[task if len(log_alpha) > 1 else 0])

    # ---- losses

    def critic_loss(self, b: Batch, noise: Tensor) -> list[Tensor]:
        losses = []
        for i in range(TASKS):
            total = torch.zeros(())
            for r in range(ROWS):
                with torch.no_grad():
                    label = self.label(i)
                    a, log_prob = self.policy(i, b.next_obs[i, r], label, noise[i, r])
                    slow = self.label(i, "target_task")
                    values = [float(self.q("target", k, i, b.next_obs[i, r], slow, a)) for k in range(2)]
                    y = b.reward[i, r] + b.discount[i, r] * (min(values) - self.alpha(i) * log_prob)
                    if self.o.max_value is not None:
                        y = torch.tensor(max(-self.o.max_value, min(self.o.max_value, float(y))))
                squares = torch.zeros(())
                for k in range(2):
                    squares = squares + (self.q("critic", k, i, b.obs[i, r], self.label(i), b.action[i, r]) - y) ** 2
                total = total + b.weight[i, r] * squares / 2
            losses.append(total / ROWS)
        return losses

    def actor_loss(self, b: Batch, noise: Tensor) -> tuple[list[Tensor], list[list[float]]]:
        losses, log_probs = [], []
        for i in range(TASKS):
            total, row = torch.zeros(()), []
            label = [z.detach() for z in self.label(i)]
            for r in range(ROWS):
                a, log_prob = self.policy(i, b.obs[i, r], label, noise[i, r])
                values = [self.q("critic", k, i, b.obs[i, r], label, a) for k in range(2)]
                smaller = values[0] if float(values[0]) < float(values[1]) else values[1]
                total = total + b.weight[i, r] * (self.alpha(i).detach() * log_prob - smaller)
                row.append(float(log_prob))
            losses.append(total / ROWS)
            log_probs.append(row)
        return losses, log_probs

    def alpha_loss(self, log_probs: list[list[float]]) -> Tensor:
        total = torch.zeros(())
        for i in range(TASKS):
            dims = sum(1 for d in range(ACT) if MASK[i, d])
            wanted = -float(dims) if self.o.target_entropy is None else self.o.target_entropy
            log_alpha = self.p["log_alpha"][i if len(self.p["log_alpha"]) > 1 else 0]
            for r in range(ROWS):
                total = total - log_alpha * (log_probs[i][r] + wanted)
        return total / (TASKS * ROWS)

    # ---- optimisation

    def names(self, prefix: str) -> list[str]:
        return [k for k in self.p if k.startswith(prefix)]

    def gradients(self, loss: Tensor, names: list[str]) -> dict[str, Tensor]:
        found = torch.autograd.grad(loss, [self.p[k] for k in names])
        return dict(zip(names, found, strict=True))

    def adam(self, gradients: dict[str, Tensor], cfg: Any, clip: float | None) -> float:
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
        factor = 1.0 if clip is None else min(1.0, clip / (norm + 1e-6))
        for k, g in gradients.items():
            g = g * factor
            zero = torch.zeros_like(g)
            m, v = self.moments.get(k, (zero, zero))
            m, v = cfg.beta1 * m + (1 - cfg.beta1) * g, cfg.beta2 * v + (1 - cfg.beta2) * g * g
            t = self.counts[k] = self.counts.get(k, 0) + 1
            step = cfg.lr * (m / (1 - cfg.beta1**t)) / (torch.sqrt(v / (1 - cfg.beta2**t)) + cfg.eps)
            self.moments[k], self.p[k] = (m, v), self.p[k].detach() - step
        return norm

    def training(self, names: list[str]) -> None:
        for k in self.p:
            self.p[k] = self.p[k].detach().requires_grad_(k in names)

    def update(self, b: Batch, noises: list[Tensor], phase: str) -> dict[str, float]:
        o, out = self.o, {}
        critic, encoder = self.names("critic."), self.names("task.")
        self.training(critic + encoder)
        losses = self.critic_loss(b, noises[0])
        gradients = self.gradients(sum(losses) / TASKS, critic + encoder)  # type: ignore[arg-type]
        out["critic_loss"] = float(sum(losses)) / TASKS
        out["grad_norm_critic"] = self.adam({k: gradients[k] for k in critic}, o.optimizers.critic, o.grad_clip)
        if encoder:
            self.adam({k: gradients[k] for k in encoder}, o.optimizers.task_encoder, o.grad_clip)
        if phase in ("all", "no_target"):
            actor = self.names("actor.")
            self.training(actor)
            losses, log_probs = self.actor_loss(b, noises[1])
            gradients = self.gradients(sum(losses) / TASKS, actor)  # type: ignore[arg-type]
            out["actor_loss"] = float(sum(losses)) / TASKS
            out["actor_entropy"] = -float(np.mean(log_probs))
            out["grad_norm_actor"] = self.adam(gradients, o.optimizers.actor, o.grad_clip)
            if o.learn_temperature:
                self.training(["log_alpha"])
                loss = self.alpha_loss(log_probs)
                out["alpha_loss"] = float(loss)
                self.adam(self.gradients(loss, ["log_alpha"]), o.optimizers.alpha, None)
        if phase in ("all", "critic_target"):
            self.training([])
            for k in [*critic, *encoder]:
                name = f"target_{k}" if k in encoder else k.replace("critic.", "target.", 1)
                self.p[name] = (1 - o.critic_tau) * self.p[name] + o.critic_tau * self.p[k]
        return out


def compare(o: SACConfig, updates: int = 3, seed: int = 0) -> None:
    medley = agent(o, seed)
    start = {k: v.clone() for k, v in medley.state_dict().items()}
    reference = Reference(o, medley.state_dict())
    rng = np.random.default_rng(seed)
    for n in range(updates):
        b = batch(rng)
        noises = [torch.from_numpy(rng.normal(size=(TASKS, ROWS, ACT))) for _ in range(2)]
        queue = list(noises)
        medley._noise = lambda like, queue=queue: queue.pop(0)  # type: ignore[method-assign, misc]
        phase = medley.phase(n)
        got, wanted = medley.update(b, phase), reference.update(b, noises, phase)
        for name, value in wanted.items():
            assert float(got[name]) == pytest.approx(value, rel=1e-9, abs=1e-9), f"{name}, update {n}"
        for name, value in medley.state_dict().items():
            if name in reference.p:
                assert value.dtype == torch.float64
                gap = float((value - reference.p[name].detach()).abs().max())
                assert gap < 1e-9, f"{name} differs by {gap} after update {n}"
    for name in ("actor.", "critic.", "target.", *(["log_alpha"] if o.learn_temperature else [])):
        assert any(not torch.equal(v, start[k]) for k, v in medley.state_dict().items() if k.startswith(name)), name


@pytest.mark.parametrize("alpha_per_task", [False, True])
@pytest.mark.parametrize("task_input", ["one_hot", "encoder"])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_updates_equal_the_reference(trunk: str, task_input: str, alpha_per_task: bool) -> None:
    compare(options(trunk=trunk, task_input=task_input, alpha_per_task=alpha_per_task))


@pytest.mark.parametrize(
    "changes",
    [
        {"task_input": "none"},
        {"grad_clip": None},
        {"grad_clip": 0.05},
        {"max_value": 0.4},
        {"learn_temperature": False, "init_temperature": 0.7},
        {"target_entropy": -0.5, "alpha_per_task": True},
        {"target_entropy": 0.0},  # zero is a number, not "no target"
        {"actor_update_freq": 2, "critic_target_update_freq": 3},
    ],
    ids=str,
)
def test_options_equal_the_reference(changes: dict[str, Any]) -> None:
    compare(options(trunk="multi_head", **changes), updates=4, seed=1)


def test_log_std_rescaled_by_tanh_equals_the_reference() -> None:
    o = options()
    o.actor.log_std_bounding, o.actor.log_std_bounds = "tanh", [-3.0, 1.0]
    compare(o, updates=2)


def test_clamped_log_std_equals_the_reference() -> None:
    o = options()
    o.actor.log_std_bounds = [-0.3, 0.2]  # so narrow that some outputs are cut and have no gradient
    compare(o, updates=2)


def test_float32_follows_float64() -> None:
    """The arithmetic that users get is the arithmetic tested above, up to rounding."""
    o = options(trunk="multi_head", task_input="encoder")
    exact = agent(o)
    torch.set_default_dtype(torch.float32)
    rounded = SAC(o, Spaces(("a", "b", "c"), OBS, ACT, MASK), torch.device("cpu"), 0)
    rounded.load_weights(exact.state_dict())
    rng = np.random.default_rng(3)
    for _ in range(3):
        b = batch(rng)
        noises = [torch.from_numpy(rng.normal(size=(TASKS, ROWS, ACT))) for _ in range(2)]
        first, second = list(noises), [n.float() for n in noises]
        exact._noise = lambda like, q=first: q.pop(0)  # type: ignore[method-assign, misc]
        rounded._noise = lambda like, q=second: q.pop(0)  # type: ignore[method-assign, misc]
        exact.update(b, "all")
        rounded.update(Batch(*(getattr(b, f).float() for f in Batch.__dataclass_fields__)), "all")
    for name, value in rounded.state_dict().items():
        if name.startswith(("actor", "critic", "target", "task", "log_alpha")):
            assert value.dtype == torch.float32
            assert torch.allclose(value.double(), exact.state_dict()[name], atol=2e-4), name
