"""Agents with intentions against a second implementation: float64, intention by intention and row by row.

It is written from the formulas, knows only the names and shapes of the saved tensors, and steps by PyTorch's AdamW.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.agents.api import Spaces, agent_kind
from medley.agents.intentions.batch import ExpertBatch, IntentionBatch
from medley.config.load import load_config

pytestmark = pytest.mark.usefixtures("float64")
T, OBS, ACT, ROWS, EXPERTS = 2, 3, 2, 4, 2
GAMMA, SCALE = 0.9, 0.5
SMALL = [
    *("agent.actor.hidden_dim=5", "agent.critic.hidden_dim=4", f"agent.discount={GAMMA}", "agent.critic_tau=0.1"),
    *(f"agent.reward_scale={SCALE}", "agent.init_temperature=0.3", "agent.main_weight=3", "agent.expert.decay=0.8"),
    *("agent.optimizers.actor.lr=0.02", "agent.optimizers.critic.lr=0.01", "agent.optimizers.alpha.lr=0.03"),
]


def make_agent(name: str, *words: str) -> Any:
    options = load_config(["env=point-aux", "env.num_tasks=2", f"agent={name}", *SMALL, *words]).agent
    spaces = Spaces(("main", "other"), OBS, ACT, np.ones((T, ACT), dtype=bool))
    made: Any = agent_kind(options.builder).build(options, spaces, torch.device("cpu"), 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # output layers start near zero, where mistakes hide
        for network in made.networks.values():
            for p in network.parameters():
                p.add_(0.4 * torch.randn(p.shape, generator=generator))
    for optimizer in made.optimizers.values():
        optimizer.steps = [s.float() for s in optimizer.steps]
    return made


def make_batch(seed: int, expert: bool, far: bool) -> IntentionBatch:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g)

    alive = (torch.rand((1, ROWS), generator=g) > 0.3).double()
    return IntentionBatch(
        obs=normal(1, ROWS, OBS),
        action=torch.tanh(normal(1, ROWS, ACT)),
        reward=SCALE * normal(T, ROWS),  # as the learner hands them over
        discount=GAMMA * alive,
        next_obs=normal(1, ROWS, OBS),
        weight=torch.ones(1, ROWS),
        expert=ExpertBatch(normal(T, EXPERTS, OBS), normal(T, EXPERTS, OBS), None) if expert else None,
        far_obs=normal(1, ROWS, OBS) if far else None,
        far_discount=GAMMA ** torch.tensor([[3.0, 0.0, 2.0, 1.0]]) if far else None,
    )


class Plain:
    """The common part; a subclass says what rewards and values are."""

    shared = False

    def __init__(self, agent: Any) -> None:
        self.p = {k: v.clone() for k, v in agent._weights().items()}
        for name, p in self.p.items():
            p.requires_grad_(not name.startswith(("target", "known")))
        o = agent.options.optimizers
        self.adam = {}
        for name in ("critic", "actor", "alpha", "discriminator", "novelty"):
            own = [p for key, p in self.p.items() if key.startswith("log_alpha" if name == "alpha" else f"{name}.")]
            if own:
                c = getattr(o, name)
                self.adam[name] = torch.optim.AdamW(own, lr=c.lr, weight_decay=c.weight_decay)
        self.medians: dict[str, list[list[float]]] = {}
        self.decayed = 1.0
        self.options = agent.options

    # ---- networks

    def net(self, name: str, member: int, k: int, x: Tensor) -> Tensor:
        p = self.p
        for layer in ("hidden.0", "hidden.1"):
            x = torch.relu(x @ p[f"{name}.{layer}.weight"][member, k] + p[f"{name}.{layer}.bias"][member, k, 0])
        return x @ p[f"{name}.out.weight"][member, k] + p[f"{name}.out.bias"][member, k, 0]

    def q(self, name: str, j: int, k: int, s: Tensor, a: Tensor) -> Tensor:
        return self.net(name, j, k, torch.cat([s, a]))[0]

    def policy(self, k: int, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net("actor", 0, k, s).chunk(2)
        log_std = log_std.clamp(-20, 2)
        u = mean + log_std.exp() * noise
        squash = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
        return torch.tanh(u), (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi) - squash).sum()

    def alpha(self, k: int) -> Tensor:
        return self.p["log_alpha"][k].exp().detach()

    def step(self, name: str, loss: Tensor) -> None:
        optimizer = self.adam[name]
        own = optimizer.param_groups[0]["params"]
        for p, gradient in zip(own, torch.autograd.grad(loss, own), strict=True):
            p.grad = gradient
        torch.nn.utils.clip_grad_norm_(own, self.options.grad_clip)
        optimizer.step()

    def median(self, name: str, k: int) -> float:
        rows = self.medians.get(name, [])[-self.options.penalty.window :]
        return float(np.median([row[k] for row in rows])) if rows else math.inf

    # ---- what a method is

    def reward(self, batch: IntentionBatch, k: int, i: int, s: Tensor, a: Tensor, owner: int | None) -> Tensor:
        return batch.reward[k, i]

    def value(self, k: int, s: Tensor, noise: Tensor) -> Tensor:
        action, log_prob = self.policy(k, s, noise)
        q = torch.min(self.q("target", 0, k, s, action), self.q("target", 1, k, s, action))
        return q - self.alpha(k) * log_prob

    def bounds(self, k: int) -> tuple[float, float]:
        return -math.inf, math.inf

    def learn_first(self, batch: IntentionBatch, numbers: Any) -> None: ...

    def loss(self, q: Tensor, y: Tensor, owner: int | None) -> Tensor:
        return (q - y) ** 2

    def worth(self, q: Tensor) -> Tensor:
        return q

    # ---- one update

    def update(self, batch: IntentionBatch, noise: list[Tensor]) -> None:
        numbers = iter(noise)
        for_critic, for_actor = next(numbers), next(numbers)
        self.learn_first(batch, numbers)
        weight = [3 * T / (T - 1 + 3), T / (T - 1 + 3)]
        own_noise = next(numbers, None)
        rows: list[list[tuple[Tensor, Tensor, Tensor, float, int | None]]] = [[] for _ in range(T)]
        with torch.no_grad():
            for k in range(T):
                for i in range(ROWS):
                    rows[k].append(
                        (batch.obs[0, i], batch.action[0, i], batch.next_obs[0, i], float(batch.discount[0, i]), None)
                    )
                for owner in range(T) if self.shared else [k]:
                    if batch.expert is None:
                        continue
                    assert own_noise is not None
                    for i in range(EXPERTS):
                        s, after = batch.expert.obs[owner, i], batch.expert.next_obs[owner, i]
                        rows[k].append((s, self.policy(owner, s, own_noise[owner, i])[0], after, GAMMA, owner))
            targets = [
                [self.target(batch, k, i, row, for_critic[k, i]) for i, row in enumerate(rows[k])] for k in range(T)
            ]
        total = torch.zeros(())
        said = [[] for _ in range(T)]  # type: ignore[var-annotated]
        for k in range(T):
            low, high = self.bounds(k)
            for i, (s, a, _, _, owner) in enumerate(rows[k]):
                for j in range(2):
                    q = self.q("critic", j, k, s, a)
                    w = weight[k] * (1.0 if owner is None else self.decayed)
                    total = total + w * self.loss(q, targets[k][i], owner) / len(rows[k])
                    most = high if owner is not None else self.median("q", k)
                    if self.options.penalty.kind == "value":
                        over = torch.relu(q - most) ** 2 + torch.relu(low - q) ** 2
                        total = total + self.options.penalty.weight * over / len(rows[k])
                    if self.options.penalty.kind == "cql":
                        wanted = self.policy(k, s, for_critic[k, i])[0].detach()
                        over = self.q("critic", j, k, s, wanted) - q
                        total = total + self.options.penalty.weight * over / len(rows[k])
                    if j == 0 and owner is not None:
                        said[k].append(float(self.worth(q.detach())))
        self.step("critic", total)
        if batch.expert is not None:
            self.medians.setdefault("q", []).append([float(np.mean(one)) for one in said])

        total, temperature = torch.zeros(()), torch.zeros(())
        for k in range(T):
            acted = [row[0] for row in rows[k]] if self.shared else [row[0] for row in rows[k][:ROWS]]
            weights = [weight[k] * (1.0 if row[4] is None else self.decayed) for row in rows[k]]
            for i, s in enumerate(acted):
                action, log_prob = self.policy(k, s, for_actor[k, i])
                q = torch.min(*(self.worth(self.q("critic", j, k, s, action)) for j in range(2)))
                total = total + weights[i] * (self.alpha(k) * log_prob - q) / len(acted) / T
                entropy = (log_prob - ACT).detach()
                temperature = temperature - self.p["log_alpha"][k] * entropy / len(acted) / T
        self.step("actor", total)
        if self.options.learn_temperature:
            optimizer = self.adam["alpha"]
            self.p["log_alpha"].grad = torch.autograd.grad(temperature, self.p["log_alpha"])[0]
            optimizer.step()
        with torch.no_grad():
            for name, p in self.p.items():
                if name.startswith("target."):
                    p += 0.1 * (self.p[name.replace("target.", "critic.")] - p)
        self.decayed *= 0.8

    def target(self, batch: IntentionBatch, k: int, i: int, row: Any, noise: Tensor) -> Tensor:
        s, a, after, discount, owner = row
        value = self.value(k, after, noise)
        if batch.far_obs is not None:
            assert batch.far_discount is not None
            far, left = (batch.far_obs[0, i], batch.far_discount[0, i]) if owner is None else (after, 1.0)
            value = (value + left * self.value(k, far, noise)) / 2
        return self.reward(batch, k, i, s, a, owner) + discount * value


class PlainSQIL(Plain):
    def reward(self, batch: IntentionBatch, k: int, i: int, s: Tensor, a: Tensor, owner: int | None) -> Tensor:
        return torch.tensor(SCALE * (1.0 if owner == k else -1.0))

    def bounds(self, k: int) -> tuple[float, float]:
        return -SCALE / (1 - GAMMA), SCALE / (1 - GAMMA)


class PlainShared(PlainSQIL):
    shared = True


class PlainRND(PlainSQIL):
    """A bonus of half the squared distance between two networks, before the second has learnt from the batch."""

    def features(self, name: str, s: Tensor) -> Tensor:
        for layer in range(3):
            s = s @ self.p[f"{name}.layers.{layer}.weight"][0] + self.p[f"{name}.layers.{layer}.bias"][0, 0]
            if layer < 2:
                s = (s - s.mean()) / (s.var(unbiased=False) + 1e-5).sqrt()
                s = torch.relu(s * self.p[f"{name}.norms.{layer}.weight"] + self.p[f"{name}.norms.{layer}.bias"])
        return s

    def learn_first(self, batch: IntentionBatch, numbers: Any) -> None:
        found = [(self.features("known", s).detach() - self.features("novelty", s)) for s in batch.obs[0]]
        each = [0.5 * (d**2).sum() for d in found]
        self.bonus = [0.5 * float(x.detach()) for x in each]
        optimizer = self.adam["novelty"]
        own = optimizer.param_groups[0]["params"]
        for p, gradient in zip(own, torch.autograd.grad(sum(each) / len(each), own), strict=True):
            p.grad = gradient
        optimizer.step()

    def reward(self, batch: IntentionBatch, k: int, i: int, s: Tensor, a: Tensor, owner: int | None) -> Tensor:
        plain = super().reward(batch, k, i, s, a, owner)
        return plain if owner is not None else plain + SCALE * self.bonus[i]


class PlainRCE(Plain):
    def each(self, k: int, s: Tensor, noise: Tensor) -> Tensor:
        action, _ = self.policy(k, s, noise)
        return torch.stack([torch.sigmoid(self.q("target", j, k, s, action)) for j in range(2)])

    def target(self, batch: IntentionBatch, k: int, i: int, row: Any, noise: Tensor) -> Tensor:
        _, _, after, discount, owner = row
        if owner is not None:
            return torch.ones(())
        assert batch.far_obs is not None
        assert batch.far_discount is not None
        far = batch.far_discount[0, i] * self.each(k, batch.far_obs[0, i], noise)
        value = ((self.each(k, after, noise) + far) / 2).min().clamp(1e-7, 1 - 1e-7)
        w = discount * value / (1 - value)
        return w / (1 + w)

    def loss(self, q: Tensor, y: Tensor, owner: int | None) -> Tensor:
        chance = torch.sigmoid(q)
        error = -(y * torch.log(chance) + (1 - y) * torch.log(1 - chance))
        return error * ((1 - GAMMA) if owner is not None else 1 / (1 - y))

    def worth(self, q: Tensor) -> Tensor:
        return torch.sigmoid(q)


class PlainLfGP(Plain):
    shared = True

    def judge(self, k: int, s: Tensor) -> Tensor:
        x = s
        for layer in range(3):
            x = (
                x @ self.p[f"discriminator.layers.{layer}.weight"][k]
                + self.p[f"discriminator.layers.{layer}.bias"][k, 0]
            )
            x = torch.relu(x) if layer < 2 else x
        return x[0]

    def learn_first(self, batch: IntentionBatch, numbers: Any) -> None:
        assert batch.expert is not None
        between = next(numbers)
        total = torch.zeros(())
        for k in range(T):
            for i in range(ROWS):
                total = total - 0.5 * torch.log(1 - torch.sigmoid(self.judge(k, batch.obs[0, i]))) / ROWS
            for i in range(EXPERTS):
                total = total - 0.5 * torch.log(torch.sigmoid(self.judge(k, batch.expert.obs[k, i]))) / EXPERTS
        for n in range(T * EXPERTS):
            mixed = between[n] * batch.expert.obs[n // EXPERTS, n % EXPERTS] + (1 - between[n]) * batch.obs[0, n % ROWS]
            mixed = mixed.requires_grad_()
            (slope,) = torch.autograd.grad(sum(self.judge(k, mixed) for k in range(T)), mixed, create_graph=True)
            total = total + 10 * (slope.norm() - 1) ** 2 / (T * EXPERTS)
        self.step("discriminator", total)
        with torch.no_grad():
            states = [*batch.obs[0], *batch.expert.obs.flatten(0, 1)]
            judged = [[float(self.judge(k, s)) for s in states] for k in range(T)]
        self.medians.setdefault("least", []).append([min(-0.01, *one) for one in judged])
        self.medians.setdefault("most", []).append([max(0.01, *one) for one in judged])

    def reward(self, batch: IntentionBatch, k: int, i: int, s: Tensor, a: Tensor, owner: int | None) -> Tensor:
        return SCALE * self.judge(k, s)

    def bounds(self, k: int) -> tuple[float, float]:
        return SCALE * self.median("least", k) / (1 - GAMMA), SCALE * self.median("most", k) / (1 - GAMMA)


VALUE = ["agent.penalty.kind=value", "agent.penalty.window=2"]


@pytest.mark.parametrize(
    ("name", "words", "plain", "far"),
    [
        ("sacx", [], Plain, False),
        ("sqil", [], PlainSQIL, False),
        ("vpace", ["agent.penalty.window=2"], PlainSQIL, True),
        ("sqil", ["agent.expert.shared=true", *VALUE], PlainShared, False),
        ("sqil", ["agent.penalty.kind=cql", "agent.penalty.weight=0.7"], PlainSQIL, False),
        ("sqil", ["agent.rnd.weight=0.5", "agent.rnd.hidden_dim=7"], PlainRND, False),
        ("rce", ["agent.n_step=4"], PlainRCE, True),
        ("lfgp", ["agent.discriminator.hidden_dim=6", *VALUE], PlainLfGP, False),
    ],
)
def test_equals_the_plain_one(name: str, words: list[str], plain: type[Plain], far: bool) -> None:
    agent = make_agent(name, *words)
    other = plain(agent)
    rows = ROWS + T * EXPERTS if agent.uses_experts else ROWS
    agent.options.expert.share = T * EXPERTS / rows
    for update in range(4):
        batch = make_batch(update, agent.uses_experts, far)
        noise = agent.draw_noise(rows, "all")
        agent.update(batch, "all", noise)
        other.update(batch, noise)
    gaps = {k: float((v - other.p[k]).abs().max().detach()) for k, v in agent._weights().items()}
    assert max(gaps.values()) < 1e-9, {k: v for k, v in gaps.items() if v > 1e-9}


@pytest.mark.parametrize("by_size", [False, True])
def test_cloning_equals_the_plain_one(by_size: bool) -> None:
    agent = make_agent("bc", "agent.expert.path=x.npz", f"agent.by_size={str(by_size).lower()}")
    other, sizes = Plain(agent), torch.tensor([[1.5], [0.5]])
    for update in range(3):
        batch, g = make_batch(update, True, False), torch.Generator().manual_seed(update)
        assert batch.expert is not None
        actions = torch.tanh(torch.randn((T, EXPERTS, ACT), generator=g))
        batch.expert = ExpertBatch(batch.expert.obs, batch.expert.next_obs, actions, sizes)
        agent.update(batch, "all")
        total = torch.zeros(())
        for k, weight in enumerate([3 * T / (T - 1 + 3), T / (T - 1 + 3)]):
            for i in range(EXPERTS):
                mean = other.net("actor", 0, k, batch.expert.obs[k, i]).chunk(2)[0]
                error = ((torch.tanh(mean) - actions[k, i]) ** 2).sum()
                total = total + weight * (float(sizes[k]) if by_size else 1.0) * error / EXPERTS
        other.step("actor", total)
    gaps = {k: float((v - other.p[k]).abs().max().detach()) for k, v in agent._weights().items()}
    assert max(gaps.values()) < 1e-9, {k: v for k, v in gaps.items() if v > 1e-9}
