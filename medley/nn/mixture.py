"""CARE and its relatives: several encoders of the state, weighed by the task (Sodhani et al. 2021).

    e_j = Enc_j(s)                            the same encoders for all tasks, and for both critics
    w   = softmax(gate(z) / temperature)      z: the task's encoding, without a gradient
    out = body([sum_j w_j e_j, z, a])

The critic trains the encoders; the actor reads them without a gradient, and trains a gate of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_uniform, linear_layers
from medley.nn.task_words import clusters_of
from medley.nn.trunks import Shape, Trunk, flat_rows, hidden_layers, joined, register_trunk, through

MODES = ("attention", "gate", "cluster", "identity", "ensemble")


@dataclass
class CareConfig:
    mode: str = opt(
        "attention",
        "how encoders are weighed: attention | gate (the best few) | cluster (by words in a task's description) | "
        "identity (one each) | ensemble (all alike)",
    )
    experts: int | None = opt(
        None, "encoders; null: 6, or 10 from 50 tasks on (mode=cluster and identity: one per cluster or task)"
    )
    top: int = opt(2, "mode=gate: encoders that count")
    temperature: float = opt(1.0, "of the softmax over encoders")
    hidden_dim: int = opt(50, "units of an encoder's hidden layer")
    output_dim: int = opt(50, "numbers an encoder gives")


class Weights(nn.Module):
    """w[T, k]: how much each encoder counts for each task."""

    table: Tensor

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        cfg: CareConfig = shape.options.care
        self.mode, self.top, self.temperature = cfg.mode, cfg.top, cfg.temperature
        if cfg.mode in ("cluster", "identity"):
            fixed = clusters_of(shape.names) if cfg.mode == "cluster" else torch.eye(shape.tasks)
            self.count = fixed.shape[1]
            self.register_buffer("table", fixed.unsqueeze(0))
            return
        self.count = cfg.experts or (10 if shape.tasks >= 50 else 6)
        if cfg.mode != "ensemble":
            self.gate = linear_layers((1,), [shape.task, 50, 50, self.count], generator)

    def per_task(self) -> list[str]:
        return ["table"] if self.mode in ("cluster", "identity") else []

    def forward(self, z: Tensor) -> Tensor:
        if self.mode in ("cluster", "identity"):
            return self.table[0]
        if self.mode == "ensemble":
            return torch.full_like(z[:, :1], 1 / self.count).expand(-1, self.count)
        h = z.detach().unsqueeze(0)
        for i, layer in enumerate(self.gate):
            h = layer(torch.relu(h) if i else h)
        w = torch.softmax(h[0] / self.temperature, -1)
        if self.mode == "gate":
            least = w.topk(min(self.top, self.count), dim=-1).values[:, -1:]
            w = torch.where(w >= least, w, 0.0)
            w = w / w.sum(-1, keepdim=True)
        return w


class Encoders(nn.Module):
    """e[k, T, b, d] of obs[T, b, D]."""

    def __init__(self, count: int, obs: int, hidden: int, out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = linear_layers((count,), [obs, hidden, out], generator)

    def forward(self, obs: Tensor) -> Tensor:
        e: Tensor = self.layers[1](torch.relu(self.layers[0](flat_rows(obs))))
        return e.view(e.shape[0], *obs.shape[:2], e.shape[-1])


class MixtureTrunk(Trunk):
    task_inputs = ("encoder",)

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        cfg: CareConfig = shape.options.care
        self.weights = Weights(shape, generator)
        self.encoders: Encoders | None = Encoders(
            self.weights.count, shape.obs, cfg.hidden_dim, cfg.output_dim, generator
        )
        inputs = cfg.output_dim + shape.task + shape.action
        self.hidden = hidden_layers((shape.members,), inputs, shape.width, shape.depth, generator)
        self.out = StackedLinear((shape.members,), shape.width, shape.out_features)
        init_uniform(self.out, shape.out_bound, generator)
        self._critics: tuple[Encoders, ...] = ()  # in a tuple, so that they stay parameters of the critic alone

    def link(self, critic: Trunk) -> None:
        assert isinstance(critic, MixtureTrunk)
        assert critic.encoders is not None
        self.encoders, self._critics = None, (critic.encoders,)

    def acting_tensors(self) -> list[Tensor]:
        return super().acting_tensors() + [p for encoders in self._critics for p in encoders.parameters()]

    def per_task(self) -> list[str]:
        return [f"weights.{name}" for name in self.weights.per_task()]

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        assert task is not None
        e = self.encoders(obs) if self.encoders is not None else self._critics[0](obs).detach()
        w = self.weights(task).T[..., None, None]  # [k, T, 1, 1]
        out = through(self.hidden, self.out, flat_rows(joined((w * e).sum(0), task, action)))
        return out.view(out.shape[0], *obs.shape[:2], out.shape[-1])


register_trunk("care", MixtureTrunk)
