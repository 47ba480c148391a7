"""MOORE: experts made orthogonal to one another for every sample, mixed by task (Hendawy et al. 2024).

v_j = Expert_j(s),  u = GramSchmidt(v), of length one
f = tanh(sum_j w_ij u_j),  out = Head_i f
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_uniform
from medley.nn.trunks import Shape, Trunk, hidden_layers, joined, names_below, register_trunk


@dataclass
class MooreConfig:
    experts: int | None = opt(None, "experts; null: 4, or 6 from 50 tasks on")


class MooreTrunk(Trunk):
    task_inputs = ("none", "one_hot", "encoder", "embedding")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.count = shape.options.moore.experts or (6 if shape.tasks >= 50 else 4)
        members = (shape.members, self.count)
        self.experts = hidden_layers(members, shape.in_features, shape.width, shape.depth, generator)
        with torch.no_grad():  # without biases, u would not tell an input from twice that input
            for layer in self.experts:
                assert isinstance(layer, StackedLinear)
                bound = 1 / math.sqrt(layer.in_features)
                layer.bias.copy_((2 * torch.rand(layer.bias.shape, generator=generator) - 1) * bound)
        self.w = nn.Parameter(torch.randn(shape.members, shape.tasks, self.count, generator=generator))
        self.heads = StackedLinear((shape.members, shape.tasks), shape.width, shape.out_features)
        init_uniform(self.heads, shape.out_bound, generator)

    def per_task(self) -> list[str]:
        return ["w", *names_below("heads", self.heads)]

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        tasks, rows = obs.shape[:2]
        x = joined(obs, task, action)
        h = x.reshape(1, 1, tasks * rows, x.shape[-1])
        for i, layer in enumerate(self.experts):
            h = layer(torch.relu(h) if i else h)
        units = orthonormal(h.unbind(1))
        f = sum(self.w[:, :, j, None, None] * u.view(u.shape[0], tasks, rows, -1) for j, u in enumerate(units))
        out: Tensor = self.heads(torch.tanh(f))  # type: ignore[arg-type]
        return out


def orthonormal(vectors: tuple[Tensor, ...]) -> list[Tensor]:
    """Gram-Schmidt along the last dimension, in 32 bits at least; a vector that is nothing new becomes zero."""
    units: list[Tensor] = []
    for v in vectors:
        v = v if v.dtype == torch.float64 else v.float()
        for u in units:  # one after another, from what is left: loses fewer digits than all at once
            v = v - (v * u).sum(-1, keepdim=True) * u
        units.append(v / (v.square().sum(-1, keepdim=True) + 1e-8).sqrt())
    return units


register_trunk("moore", MooreTrunk)
