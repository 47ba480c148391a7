"""BroNet: residual blocks with layer norm (Nauman et al. 2024, arXiv 2405.16158), the network of BRC.

    h = relu(LN(W x)),   h <- h + LN(W2 relu(LN(W1 h)))  in every block,   out = W h

`num_layers` counts blocks, `hidden_dim` is the width of all of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from medley.nn.stacked import StackedLinear, in_full, init_orthogonal
from medley.nn.trunks import Shape, Trunk, joined, register_trunk


class StackedLayerNorm(nn.Module):
    """Layer norm with a scale and a shift of their own for every member: x[members, rows, width]."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(members, 1, width))
        self.shift = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        x = in_full(x)  # spelt out: PyTorch's own cannot be stacked over seeds
        x = x - x.mean(-1, keepdim=True)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale + self.shift


class NormedLinear(nn.Module):
    """LN(W x + b), orthogonal at the start."""

    def __init__(self, members: int, in_features: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = StackedLinear((members,), in_features, width)
        init_orthogonal(self.linear, math.sqrt(2), generator)
        self.norm = StackedLayerNorm(members, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.linear(x))
        return out


class Block(nn.Module):
    def __init__(self, members: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.one = NormedLinear(members, width, width, generator)
        self.two = NormedLinear(members, width, width, generator)

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = h + self.two(torch.relu(self.one(h)))
        return out


class BronetTrunk(Trunk):
    task_inputs = ("embedding", "one_hot", "encoder", "none")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        members, width = shape.members, shape.width
        self.first = NormedLinear(members, shape.in_features, width, generator)
        self.blocks = nn.ModuleList(Block(members, width, generator) for _ in range(shape.depth))
        self.out = StackedLinear((members,), width, shape.out_features)
        init_orthogonal(self.out, math.sqrt(2), generator)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        x = joined(obs, task, action)
        tasks, rows = x.shape[0], x.shape[1]
        h = torch.relu(self.first(x.reshape(1, tasks * rows, x.shape[2])))
        for block in self.blocks:
            h = block(h)
        out: Tensor = self.out(h)
        return out.view(out.shape[0], tasks, rows, out.shape[-1])


register_trunk("bronet", BronetTrunk)
