"""PaCo: every task's network is a linear mix of K shared sets of parameters (Sun et al. 2022).

    theta_i = sum_k w_ik theta_k,  in every layer

Actor and critics mix by the same w.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_hidden, init_uniform
from medley.nn.trunks import Shape, Trunk, joined, register_trunk


@dataclass
class PaCoConfig:
    sets: int | None = opt(None, "sets of parameters; null: 5, or 20 from 50 tasks on")
    loss_limit: float = opt(3000.0, "a task whose critic loss is above this sits out, and gets a new mix")


class PaCoTrunk(Trunk):
    task_inputs = ("none", "one_hot", "encoder", "embedding")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        count = shape.options.paco.sets or (20 if shape.tasks >= 50 else 5)
        sizes = [shape.in_features, *[shape.width] * shape.depth, shape.out_features]
        self.layers = nn.ModuleList()
        for i in range(len(sizes) - 1):
            layer = StackedLinear((shape.members, 1), sizes[i], sizes[i + 1])
            last = i + 2 == len(sizes)
            init_uniform(layer, shape.out_bound, generator) if last else init_hidden(layer, generator)
            sets = StackedLinear((shape.members, count), sizes[i], sizes[i + 1])
            with torch.no_grad():  # all sets start alike, so that every mix starts as an ordinary network
                sets.weight.copy_(layer.weight.expand_as(sets.weight))
                sets.bias.copy_(layer.bias.expand_as(sets.bias))
            self.layers.append(sets)
        w = torch.rand(1, shape.tasks, count, generator=generator)
        self.w = nn.Parameter(w / w.sum(-1, keepdim=True))

    def link(self, critic: Trunk) -> None:
        assert isinstance(critic, PaCoTrunk)
        self.w = critic.w

    def per_task(self) -> list[str]:
        return ["w"]

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        h = joined(obs, task, action).unsqueeze(0)
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, StackedLinear)
            h = torch.matmul(torch.relu(h) if i else h, self._mixed(layer.weight)) + self._mixed(layer.bias)
        return h

    def _mixed(self, sets: Tensor) -> Tensor:
        """[M, T, ...] of sets [M, K, ...]."""
        mixed = mix(self.w, sets.flatten(2), sets.is_cuda)
        return mixed.view(*mixed.shape[:2], *sets.shape[2:])


def mix(w: Tensor, sets: Tensor, fused: bool) -> Tensor:
    """[1, T, K] and [M, K, P] to [M, T, P]. As a product, the gradient of w is a few numbers of a long sum each. A GPU
    has no good kernel for that; a compiler that merges operations makes one."""
    return (w.unsqueeze(-1) * sets.unsqueeze(1)).sum(2) if fused else torch.matmul(w, sets)


register_trunk("paco", PaCoTrunk)
