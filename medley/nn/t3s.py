"""T3S: a soft mask of every task's own over shared features (Yu et al. 2023).

    g1 = relu(G1 s), g2 = relu(G2 g1)
    m  = sigmoid(N_i(g1)),  out = Y_i relu(X_i (m * g2))

N_i, X_i and Y_i are made by a hypernetwork from the one-hot of task i. One linear map of a one-hot vector is a table:
weights of every task's own, plus what all tasks have in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_uniform
from medley.nn.trunks import Shape, Trunk, flat_rows, hidden_layers, joined, register_trunk

_TABLE = 0.05  # bound of a hypernetwork's weights at the start


@dataclass
class T3SConfig:
    width: int = opt(256, "shared features")
    mask_dim: int = opt(128, "units of the three hidden layers of the mask network")
    head_dim: int = opt(64, "units of a task's last hidden layer")


class HyperLinear(nn.Module):
    """x[M, T, b, in] by weights own_i + common."""

    def __init__(self, members: int, tasks: int, inputs: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        own, common = StackedLinear((members, tasks), inputs, outputs), StackedLinear((members, 1), inputs, outputs)
        init_uniform(own, _TABLE, generator)
        init_uniform(common, 0.0, generator)
        with torch.no_grad():  # biases come out of the same table
            own.bias.copy_((2 * torch.rand(own.bias.shape, generator=generator) - 1) * _TABLE)
        self.own_weight, self.own_bias = own.weight, own.bias
        self.common_weight, self.common_bias = common.weight, common.bias

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.own_weight + self.common_weight, self.own_bias + self.common_bias
        return torch.matmul(x, weight) + bias


class T3STrunk(Trunk):
    task_inputs = ("none", "one_hot", "encoder", "embedding")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        cfg: T3SConfig = shape.options.t3s
        self.shared = hidden_layers((shape.members,), shape.in_features, cfg.width, 2, generator)

        def hyper(*sizes: int) -> nn.ModuleList:
            pairs = pairwise(sizes)
            return nn.ModuleList(HyperLinear(shape.members, shape.tasks, a, b, generator) for a, b in pairs)

        self.mask = hyper(cfg.width, *[cfg.mask_dim] * 3, cfg.width)
        self.head = hyper(cfg.width, cfg.head_dim, shape.out_features)

    def per_task(self) -> list[str]:
        return [name for name, _ in self.named_parameters() if ".own_" in name]

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        tasks, rows = obs.shape[:2]
        g1 = torch.relu(self.shared[0](flat_rows(joined(obs, task, action))))
        g2 = torch.relu(self.shared[1](g1))
        g1, g2 = (g.view(g.shape[0], tasks, rows, -1) for g in (g1, g2))
        m = g1
        for i, layer in enumerate(self.mask):
            m = layer(torch.relu(m) if i else m)
        out: Tensor = self.head[1](torch.relu(self.head[0](torch.sigmoid(m) * g2)))
        return out


register_trunk("t3s", T3STrunk)
