"""Small agents that learn from pictures, batches for them, and the same networks spelt out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from medley.agents.api import Batch, Spaces, agent_kind
from medley.config.load import load_config

SIZE, ACT, ROWS = 16, 2, 3
SMALL = [
    "agent.pixels.num_layers=2",
    "agent.pixels.num_filters=8",
    "agent.pixels.feature_dim=6",
    "agent.actor.hidden_dim=8",
    "agent.critic.hidden_dim=8",
]


def make_agent(name: str, *words: str, tasks: int = 1, seed: int = 0, size: int = SIZE) -> Any:
    options = load_config(["env=point", f"env.num_tasks={tasks}", f"agent={name}", *SMALL, *words]).agent
    names = tuple(f"t{i}" for i in range(tasks))
    spaces = Spaces(names, 0, ACT, np.ones((tasks, ACT), dtype=bool), 50, 1, (9, size, size))
    return agent_kind(options.builder).build(options, spaces, torch.device("cpu"), seed)


def make_batch(tasks: int = 1, rows: int = ROWS, seed: int = 1, size: int = SIZE) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def pictures() -> Tensor:
        return torch.randint(0, 256, (tasks, rows, 9, size, size), generator=g, dtype=torch.uint8)

    return Batch(
        obs=pictures(),
        action=torch.rand(tasks, rows, ACT, generator=g) * 2 - 1,
        reward=torch.rand(tasks, rows, generator=g),
        discount=torch.tensor([0.99, 0.0, 0.99]).repeat(tasks, -(-rows // 3))[:, :rows].clone(),
        next_obs=pictures(),
        weight=torch.ones(tasks, rows),
    )


class Plain:
    """The tensors of an agent as leaves by name, its layers as functions, and PyTorch's own Adam."""

    def __init__(self, agent: Any) -> None:
        self.p = {k: v.clone().requires_grad_() for k, v in agent._weights().items() if v.is_floating_point()}

    def some(self, *prefixes: str) -> list[Tensor]:
        return [v for k, v in self.p.items() if k.startswith(prefixes)]

    def convs(self, pictures: Tensor, name: str = "convs", offset: float = 0.0) -> Tensor:
        x = pictures.double() / 255 - offset
        x = torch.relu(F.conv2d(x, self.p[f"{name}.layers.0.weight"], self.p[f"{name}.layers.0.bias"], stride=2))
        x = torch.relu(F.conv2d(x, self.p[f"{name}.layers.1.weight"], self.p[f"{name}.layers.1.bias"]))
        return x.movedim(1, -1).flatten(1)

    def project(self, features: Tensor, name: str) -> Tensor:
        h = features @ self.p[f"{name}.linear.weight"][0] + self.p[f"{name}.linear.bias"][0, 0]
        return torch.tanh(F.layer_norm(h, h.shape[-1:], self.p[f"{name}.norm.weight"], self.p[f"{name}.norm.bias"]))

    def head(self, x: Tensor, name: str, member: int = 0) -> Tensor:
        for layer in ("hidden.0", "hidden.1", "out"):
            weight, bias = self.p[f"{name}.inner.{layer}.weight"], self.p[f"{name}.inner.{layer}.bias"]
            x = x @ weight[member] + bias[member, 0]
            x = x if layer == "out" else torch.relu(x)
        return x

    def q(self, features: Tensor, action: Tensor, name: str = "critic", z: Tensor | None = None) -> list[Tensor]:
        h = self.project(features, name)
        x = torch.cat([h, action] if z is None else [h, z, action], dim=-1)
        return [self.head(x, name, k)[:, 0] for k in (0, 1)]

    def decode(self, latent: Tensor) -> Tensor:
        x = torch.relu(latent @ self.p["decoder.first.weight"][0] + self.p["decoder.first.bias"][0, 0])
        side = round((x.shape[1] / 8) ** 0.5)
        x = x.view(-1, side, side, 8).movedim(-1, 1)
        x = torch.relu(F.conv_transpose2d(x, self.p["decoder.layers.0.weight"], self.p["decoder.layers.0.bias"]))
        weight, bias = self.p["decoder.layers.1.weight"], self.p["decoder.layers.1.bias"]
        return F.conv_transpose2d(x, weight, bias, stride=2, output_padding=1)

    def policy(self, features: Tensor, noise: Tensor, z: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h = self.project(features, "actor")
        mean, raw = self.head(h if z is None else torch.cat([h, z], -1), "actor").chunk(2, -1)
        log_std = -10 + 6 * (torch.tanh(raw) + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        u = mean + log_std.exp() * noise
        return torch.tanh(u), (normal.log_prob(u) - torch.log(1 - torch.tanh(u) ** 2)).sum(-1)


def gap(agent: Any, plain: Plain) -> dict[str, float]:
    """How far the agent's tensors are from the plain ones, by name."""
    now = agent._weights()
    return {name: float((now[name] - value).abs().max().detach()) for name, value in plain.p.items()}
