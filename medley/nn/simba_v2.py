"""SimbaV2: features and weights stay on the unit sphere (Lee et al. 2025, arXiv 2502.15280).

    x = l2([input, 3]),  h = l2(s * W x)
    h <- l2(h + a * (l2(W2 relu(s * W1 h)) - h))  in every block, four times as wide inside
    out = W4 (s * W3 h) + b,  a head of its own for the policy's mean and its deviation

All W have columns of length one and are put back there after every step; s and a are learned vectors.
`num_layers` counts blocks, `hidden_dim` is the width between them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from medley.nn.stacked import in_full
from medley.nn.trunks import Shape, Trunk, joined, register_trunk
from medley.nn.unit import Bias, UnitLinear, unit

CONSTANT = 3.0  # an input that never changes: without it the length of an observation would be lost
EXPANSION = 4


class Scaler(nn.Module):
    """A learned vector that starts at `start`; `size` is what its parameter starts at, so how fast it learns."""

    def __init__(self, members: int, width: int, start: float, size: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((members, 1, width), size))
        self.factor = start / size

    def forward(self, x: Tensor) -> Tensor:
        return in_full(x) * (self.scale * self.factor)


class Block(nn.Module):
    def __init__(self, members: int, width: int, blocks: int, generator: torch.Generator) -> None:
        super().__init__()
        wide = EXPANSION * width
        self.one = UnitLinear((members,), width, wide, generator)
        self.scaler = Scaler(members, wide, math.sqrt(2 / wide), math.sqrt(2 / wide))
        self.two = UnitLinear((members,), wide, width, generator)
        self.step = Scaler(members, width, 1 / (blocks + 1), 1 / math.sqrt(width))

    def forward(self, h: Tensor) -> Tensor:
        proposal = unit(self.two(torch.relu(self.scaler(self.one(h)))))
        return unit(h + self.step(proposal - h))


class SimbaV2Trunk(Trunk):
    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        members, width = shape.members, shape.width
        self.heads = 1 if shape.action else 2  # an actor's output: means, then deviations
        scale = math.sqrt(2 / width)
        self.first = UnitLinear((members,), shape.in_features + 1, width, generator)
        self.scaler = Scaler(members, width, scale, scale)
        self.blocks = nn.ModuleList(Block(members, width, shape.depth, generator) for _ in range(shape.depth))
        self.before_out = UnitLinear((members,), width, self.heads * width, generator)
        self.out_scaler = Scaler(members, self.heads * width, scale, scale)
        self.out = UnitLinear((members, self.heads), width, shape.out_features // self.heads, generator)
        self.bias = Bias(members, 1, shape.out_features)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        x = joined(obs, task, action)
        x = unit(torch.cat([x, torch.full_like(x[..., :1], CONSTANT)], dim=-1))
        tasks, rows = x.shape[0], x.shape[1]
        h = unit(self.scaler(self.first(x.reshape(1, tasks * rows, x.shape[2]))))
        for block in self.blocks:
            h = block(h)
        h = self.out_scaler(self.before_out(h))
        h = h.reshape(h.shape[0], tasks * rows, self.heads, -1).transpose(1, 2)
        out = self.out(h).transpose(1, 2).reshape(h.shape[0], tasks * rows, -1)
        return self.bias(out).view(h.shape[0], tasks, rows, -1)  # type: ignore[no-any-return]

    def after_step(self) -> None:
        for module in self.modules():
            if isinstance(module, UnitLinear):
                module.normalize()


register_trunk("simba_v2", SimbaV2Trunk)
