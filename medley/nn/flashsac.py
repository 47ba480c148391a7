"""FlashSAC's network: inverted residual blocks with batch norm and weights of length one.

    h = W BN(input),   h <- h + relu(BN(W2 relu(BN(W1 h))))  in every block, four times as wide inside
    out = W (RMS(h)) + b

Statistics are those of the whole batch, all tasks together, while learning; running ones while acting. The scale and
shift of a norm are put back to a joint length of sqrt(width) after every step, weights to length one.
`num_layers` counts blocks, `hidden_dim` is the width between them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from medley.nn.stacked import in_full
from medley.nn.trunks import Shape, Trunk, joined, register_trunk
from medley.nn.unit import Bias, UnitLinear

EXPANSION = 4
MOMENTUM = 0.01  # share of a batch in the running statistics


class BatchNorm(nn.Module):
    """x[members, rows, width] over its rows, every member by itself."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(members, 1, width))
        self.shift = nn.Parameter(torch.zeros(members, 1, width))
        self.register_buffer("running_mean", torch.zeros(members, 1, width))
        self.register_buffer("running_var", torch.ones(members, 1, width))

    def forward(self, x: Tensor, learning: bool) -> Tensor:
        x = in_full(x)
        mean, var = self.running_mean, self.running_var
        if learning:
            mean = x.mean(1, keepdim=True)
            var = (x - mean).square().mean(1, keepdim=True)
            rows = x.shape[1]
            with torch.no_grad():
                whole = self.running_mean.shape  # the input is the same for all members
                self.running_mean.lerp_(mean.expand(whole), MOMENTUM)
                self.running_var.lerp_((var * (rows / max(rows - 1, 1))).expand(whole), MOMENTUM)
        return (x - mean) * (var + 1e-5).rsqrt() * self.scale + self.shift

    def normalize(self) -> None:
        with torch.no_grad():
            squares = (self.scale.square() + self.shift.square()).sum(-1, keepdim=True)
            factor = math.sqrt(self.scale.shape[-1]) * (squares + 1e-8).rsqrt()
            self.scale.mul_(factor)
            self.shift.mul_(factor)


class RMSNorm(nn.Module):
    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale

    def normalize(self) -> None:
        with torch.no_grad():
            squares = self.scale.square().sum(-1, keepdim=True)
            self.scale.mul_(math.sqrt(self.scale.shape[-1]) * (squares + 1e-8).rsqrt())


class Block(nn.Module):
    def __init__(self, members: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.one = UnitLinear((members,), width, EXPANSION * width, generator)
        self.norm_one = BatchNorm(members, EXPANSION * width)
        self.two = UnitLinear((members,), EXPANSION * width, width, generator)
        self.norm_two = BatchNorm(members, width)

    def forward(self, h: Tensor, learning: bool) -> Tensor:
        inside = torch.relu(self.norm_one(self.one(h), learning))
        return h + torch.relu(self.norm_two(self.two(inside), learning))


class FlashSACTrunk(Trunk):
    mixes_rows = True

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        members, width = shape.members, shape.width
        self.norm = BatchNorm(members, shape.in_features)
        self.first = UnitLinear((members,), shape.in_features, width, generator)
        self.blocks = nn.ModuleList(Block(members, width, generator) for _ in range(shape.depth))
        self.last_norm = RMSNorm(members, width)
        self.out = UnitLinear((members,), width, shape.out_features, generator)
        self.bias = Bias(members, 1, shape.out_features)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        return self._run(obs, task, action, learning=True)

    def act(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        return self._run(obs, task, action, learning=False)

    def _run(self, obs: Tensor, task: Tensor | None, action: Tensor | None, learning: bool) -> Tensor:
        x = joined(obs, task, action)
        tasks, rows = x.shape[0], x.shape[1]
        h = in_full(self.first(self.norm(x.reshape(1, tasks * rows, x.shape[2]), learning)))
        for block in self.blocks:
            h = block(h, learning)
        out: Tensor = self.bias(self.out(self.last_norm(h)))
        return out.view(out.shape[0], tasks, rows, out.shape[-1])

    def after_step(self) -> None:
        for module in self.modules():
            if isinstance(module, UnitLinear | BatchNorm | RMSNorm):
                module.normalize()


register_trunk("flashsac", FlashSACTrunk)
