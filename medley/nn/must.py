"""MUST's networks: one MLP for all tasks, of whose weights every task uses those that its own mask leaves.

    y = x (W * M_i) + b

The masks are buffers; who makes them is the agent's business (medley/agents/must.py).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from medley.nn.stacked import StackedLinear, init_uniform
from medley.nn.trunks import Shape, Trunk, joined, register_trunk, through


class MaskedLinear(StackedLinear):
    """Weights [members, in, out] and a mask of them for every task: x[members or 1, T, rows, in] gives all members'."""

    mask: Tensor
    bias_mask: Tensor

    def __init__(self, members: int, tasks: int, in_features: int, out_features: int, mask_bias: bool) -> None:
        super().__init__((members,), in_features, out_features)
        self.register_buffer("mask", torch.ones(members, tasks, in_features, out_features))
        if mask_bias:
            self.register_buffer("bias_mask", torch.ones(members, tasks, 1, out_features))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.unsqueeze(1) * self.mask
        bias = self.bias.unsqueeze(1)
        bias = bias * self.bias_mask if hasattr(self, "bias_mask") else bias.expand(-1, weight.shape[1], -1, -1)
        if self.reduced:
            return self._product(x.bfloat16(), weight.bfloat16(), bias.bfloat16())
        return self._product(x.float() if x.dtype == torch.bfloat16 else x, weight, bias)

    def masks(self) -> list[str]:
        return ["mask", "bias_mask"] if hasattr(self, "bias_mask") else ["mask"]


class MaskedTrunk(Trunk):
    """A shared MLP with a mask per task over every layer. All weights are used until other masks are put in."""

    task_inputs = ("none", "one_hot", "encoder", "embedding")  # masks tell tasks apart

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        options = getattr(shape.options, "must", None)
        mask_bias = options is not None and options.mask_bias
        # He-uniform by the fan-in that a mask leaves: signals keep their size from layer to layer.
        share = 1.0 if options is None else 1 - options.pruning_ratio
        self.hidden = torch.nn.ModuleList()
        for i in range(shape.depth):
            inputs = shape.in_features if i == 0 else shape.width
            layer = MaskedLinear(shape.members, shape.tasks, inputs, shape.width, mask_bias)
            init_uniform(layer, math.sqrt(6 / max(1.0, share * inputs)), generator)
            self.hidden.append(layer)
        self.out = MaskedLinear(shape.members, shape.tasks, shape.width, shape.out_features, mask_bias)
        init_uniform(self.out, shape.out_bound, generator)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        return through(self.hidden, self.out, joined(obs, task, action).unsqueeze(0))

    def per_task(self) -> list[str]:
        return [f"{place}.{name}" for place, layer in self._layers() for name in layer.masks()]

    def masks(self) -> list[Tensor]:
        """[members, T, in, out] of every layer, in place; those of biases [members, T, 1, out]."""
        return [self.get_buffer(name) for name in self.per_task()]

    def _layers(self) -> list[tuple[str, MaskedLinear]]:
        return [(name, layer) for name, layer in self.named_modules() if isinstance(layer, MaskedLinear)]


register_trunk("must", MaskedTrunk)
