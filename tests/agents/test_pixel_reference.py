"""Agents that learn from pictures against the same updates spelt out in 64 bits, with PyTorch's own Adam."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

from medley.agents.api import Batch
from tests.agents.pixel_agents import Plain, gap, make_agent, make_batch

pytestmark = pytest.mark.usefixtures("float64")
UPDATES = 4


def follow(target: list[Tensor], source: list[Tensor], rate: float) -> None:
    with torch.no_grad():
        for t, s in zip(target, source, strict=True):
            t.copy_((1 - rate) * t + rate * s)


def step(optimizers: list[Adam], loss: Tensor) -> None:
    for o in optimizers:
        o.zero_grad()
    parameters = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        p.grad = g
    for o in optimizers:
        o.step()


def shift(pictures: Tensor, places: Tensor) -> Tensor:
    """By padding and cropping, one picture at a time."""
    padded = torch.nn.functional.pad(pictures.double(), (4, 4, 4, 4), mode="replicate")
    size = pictures.shape[-1]
    at = (places * 9).floor().long()
    return torch.stack([p[:, y : y + size, x : x + size] for p, (y, x) in zip(padded, at.tolist(), strict=True)])


class PlainSAC(Plain):
    """One update of SAC from pictures (and SAC+AE) of a single task, in the order of its authors."""

    def __init__(self, agent: Any, views: int = 1, tau: float = 0.05, alpha: tuple[float, float] = (1e-4, 0.5)) -> None:
        super().__init__(agent)
        self.views, self.tau = views, tau
        self.critic = Adam(self.some("critic.", "convs."), 1e-3)
        self.actor = Adam(self.some("actor."), 1e-3)
        self.alpha = Adam([self.p["log_alpha"]], alpha[0], betas=(alpha[1], 0.999))
        self.encoder = Adam(self.some("convs.", "critic.linear", "critic.norm"), 1e-3)
        self.decoder = Adam(self.some("decoder."), 1e-3, weight_decay=1e-7) if self.some("decoder.") else None

    def update(self, batch: Batch, count: int, noise: list[Tensor]) -> None:
        numbers = [n if n.ndim == 4 else n[0] for n in noise]
        actor_too = count % 2 == 0
        next_noise = numbers.pop(0)
        actor_noise = numbers.pop(0) if actor_too else None
        obs, next_obs = [batch.obs[0]] * self.views, [batch.next_obs[0]] * self.views
        if self.views > 1:
            places = noise[2 if actor_too else 1].view(2, self.views, -1, 2)
            obs = [shift(x, places[0, k]) for k, x in enumerate(obs)]
            next_obs = [shift(x, places[1, k]) for k, x in enumerate(next_obs)]
        alpha = self.p["log_alpha"].exp()

        with torch.no_grad():
            ys = []
            for picture, own in zip(next_obs, next_noise.chunk(self.views), strict=True):
                action, log_prob = self.policy(self.convs(picture), own)
                q = torch.minimum(*self.q(self.convs(picture, "target_convs"), action, "target"))
                ys.append(batch.reward[0] + batch.discount[0] * (q - alpha * log_prob))
            y = sum(ys) / len(ys)
        losses = [sum(((q - y) ** 2).mean() for q in self.q(self.convs(picture), batch.action[0])) for picture in obs]
        step([self.critic], sum(losses) / len(losses))

        if actor_noise is not None:
            features = self.convs(obs[0]).detach()
            action, log_prob = self.policy(features, actor_noise)
            step([self.actor], (alpha.detach() * log_prob - torch.minimum(*self.q(features, action))).mean())
            step([self.alpha], (self.p["log_alpha"].exp() * (-log_prob.detach() + 2.0)).mean())
            follow(self.some("target.inner"), self.some("critic.inner"), 0.01)
            follow(self.some("target.linear", "target.norm"), self.some("critic.linear", "critic.norm"), self.tau)
            follow(self.some("target_convs."), self.some("convs."), self.tau)
        self.learn_more(batch, noise)

    def learn_more(self, batch: Batch, noise: list[Tensor]) -> None:
        if self.decoder is not None:
            h = self.project(self.convs(batch.obs[0]), "critic")
            wanted = torch.floor(batch.obs[0].double() / 8) / 32 + noise[-1][0] / 32 - 0.5
            loss = ((self.decode(h) - wanted) ** 2).mean() + 1e-6 * (0.5 * h**2).sum(1).mean()
            step([self.encoder, self.decoder], loss)


def compare(agent: Any, plain: Any, tasks: int = 1) -> None:
    for count in range(UPDATES):
        batch, phase = make_batch(tasks, seed=count), agent.phase(count)
        noise = agent.draw_noise(batch.obs.shape[1], phase)
        agent.update(batch, phase, noise)
        plain.update(batch, count, noise)
    gaps = gap(agent, plain)
    assert max(gaps.values()) < 1e-9, {k: v for k, v in gaps.items() if v > 1e-9}


def test_sac() -> None:
    agent = make_agent("sac")
    compare(agent, PlainSAC(agent))


def test_sac_ae() -> None:
    agent = make_agent("sac_ae")
    compare(agent, PlainSAC(agent))


def test_drq() -> None:
    agent = make_agent("drq")
    compare(agent, PlainSAC(agent, views=2, tau=0.01, alpha=(1e-3, 0.9)))


class PlainDrQV2(Plain):
    def __init__(self, agent: Any) -> None:
        super().__init__(agent)
        self.encoder = Adam(self.some("convs."), 1e-4)
        self.critic, self.actor = Adam(self.some("critic."), 1e-4), Adam(self.some("actor."), 1e-4)
        self.std = 0.37

    def action(self, features: Tensor, noise: Tensor) -> Tensor:
        mean = torch.tanh(self.head(self.project(features, "actor"), "actor"))
        tried = mean + (self.std * noise).clamp(-0.3, 0.3)
        return tried - tried.detach() + tried.detach().clamp(-1 + 1e-6, 1 - 1e-6)

    def update(self, batch: Batch, count: int, noise: list[Tensor]) -> None:
        places = noise[2]
        obs, next_obs = shift(batch.obs[0], places[0, 0]), shift(batch.next_obs[0], places[1, 0])
        with torch.no_grad():
            features = self.convs(next_obs, offset=0.5)
            q = torch.minimum(*self.q(features, self.action(features, noise[0][0]), "target"))
            y = batch.reward[0] + batch.discount[0] * q
        features = self.convs(obs, offset=0.5)
        step([self.encoder, self.critic], sum(((q - y) ** 2).mean() for q in self.q(features, batch.action[0])))
        features = features.detach()  # of the encoder before its step
        step([self.actor], -torch.minimum(*self.q(features, self.action(features, noise[1][0]))).mean())
        follow(self.some("target."), self.some("critic."), 0.01)


def test_drqv2() -> None:
    agent = make_agent("drqv2")
    agent.std.fill_(0.37)
    compare(agent, PlainDrQV2(agent))


class PlainHiP(PlainSAC):
    """DeepMDP (without a task label) or HiP-BMDP (with theta), task by task."""

    def __init__(self, agent: Any, metric: float, probabilistic: bool = False) -> None:
        super().__init__(agent)
        self.metric, self.probabilistic = metric, probabilistic
        self.transition = Adam(self.some("transition."), 1e-3, weight_decay=1e-7)
        self.reward = Adam(self.some("reward."), 1e-3, weight_decay=1e-7)
        self.theta_adam = Adam(self.some("task."), 1e-3) if self.some("task.") else None

    def model(self, name: str, x: Tensor) -> Tensor:
        p = self.p
        h = x @ p[f"{name}.first.weight"].T + p[f"{name}.first.bias"]
        h = torch.nn.functional.layer_norm(h, h.shape[-1:], p[f"{name}.norm.weight"], p[f"{name}.norm.bias"])
        return torch.relu(h) @ p[f"{name}.last.weight"].T + p[f"{name}.last.bias"]

    def theta(self, task: int, rows: int) -> Tensor:
        if self.theta_adam is None:
            return torch.zeros(rows, 0)
        h = self.p["task.embedding"][0, task]
        for layer in ("0", "1"):
            h = torch.relu(h) @ self.p[f"task.layers.{layer}.weight"][0] + self.p[f"task.layers.{layer}.bias"][0, 0]
        return h.expand(rows, -1)

    def learn_more(self, batch: Batch, noise: list[Tensor]) -> None:
        tasks, rows = batch.reward.shape
        extra = [] if self.theta_adam is None else [self.theta_adam]

        def outputs(task: int, theta: Tensor) -> Tensor:
            h = self.project(self.convs(batch.obs[task]), "critic")
            return self.model("transition", torch.cat([h, theta, batch.action[task]], -1))

        def predict(task: int, theta: Tensor) -> Tensor:
            out = outputs(task, theta)
            return out[:, : out.shape[1] // 2] if self.probabilistic else out

        def sigma(task: int, theta: Tensor) -> Tensor:
            out = outputs(task, theta)
            if not self.probabilistic:
                return torch.ones_like(out)
            return 1e-4 + (10 - 1e-4) / (1 + torch.exp(-out[:, out.shape[1] // 2 :]))

        total = torch.zeros(())
        for i in range(tasks):
            theta = self.theta(i, rows)
            guess = predict(i, theta)
            with torch.no_grad():
                wanted = self.project(self.convs(batch.next_obs[i]), "critic")
            reward = self.model("reward", torch.cat([guess, theta], -1))[:, 0]
            unsure = sigma(i, theta)
            total = total + (0.5 * ((guess - wanted) / unsure) ** 2 + torch.log(unsure)).mean() / tasks
            total = total + ((reward - batch.reward[i]) ** 2).mean() / tasks
            for j in range(tasks):
                if i != j:
                    other = self.theta(j, rows)
                    apart = (predict(i, theta) - predict(i, other)).detach().norm(dim=-1)
                    distance = (theta - other).norm(dim=-1)
                    total = total + self.metric * ((distance - apart) ** 2).mean() / (tasks * (tasks - 1))
        step([self.transition, self.reward, self.encoder, *extra], total)

        total = torch.zeros(())
        for i in range(tasks):
            theta = self.theta(i, rows)
            drawn = self.decode(torch.cat([predict(i, theta), theta], -1))
            wanted = torch.floor(batch.next_obs[i].double() / 8) / 32 + noise[-1][i] / 32 - 0.5
            total = total + ((drawn - wanted) ** 2).mean() / tasks
        assert self.decoder is not None
        step([self.transition, self.decoder, self.encoder, *extra], total)


@pytest.mark.parametrize("probabilistic", [False, True])
def test_deepmdp(probabilistic: bool) -> None:
    agent = make_agent("deepmdp", f"agent.probabilistic={str(probabilistic).lower()}")
    compare(agent, PlainHiP(agent, 0.0, probabilistic))


class ModelOnly(PlainHiP):
    """SAC's part is the same as above; here it is left out, for several tasks."""

    def update(self, batch: Batch, count: int, noise: list[Tensor]) -> None:
        self.learn_more(batch, noise)


def test_hipbmdp() -> None:
    agent = make_agent("hipbmdp", tasks=3)
    plain = ModelOnly(agent, 0.01)
    for count in range(UPDATES):
        batch = make_batch(3, seed=count)
        noise = agent.draw_noise(3, "critic+model")
        agent.update_model(batch, agent.convs(batch.obs), [noise[-1]])
        plain.update(batch, count, noise)
    gaps = gap(agent, plain)
    assert max(gaps.values()) < 1e-8, {k: v for k, v in gaps.items() if v > 1e-8}
    assert not torch.equal(agent.task_input.embedding, make_agent("hipbmdp", tasks=3).task_input.embedding)
