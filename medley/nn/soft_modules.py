"""Soft modularization: layers of modules, mixed by weights that state and task decide (Yang et al. 2020).

f = MLP(s), g = relu(f * linear(z)), e = two layers of g
p_l = softmax(FC_l(relu(e * U_l([p_1 .. p_(l-1)]))))   n x n: how much module m feeds module j of the next layer
x_(l+1, j) = relu(sum_m p_l[j, m] W_(l, m) x_(l, m)),  x_1 = relu(f)
out = linear(relu(sum_m q_m W_(L, m) x_(L, m))),        q: the last p, a row only
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_hidden, init_uniform
from medley.nn.trunks import Shape, Trunk, flat_rows, joined, register_trunk


@dataclass
class SoftModulesConfig:
    layers: int = opt(2, "layers of modules (the paper's shallow and deep networks: 2 x 2 and 4 x 4)")
    modules: int = opt(2, "modules per layer")
    width: int | None = opt(None, "units of a module; null: 256, or 128 from four layers on")
    gating_dim: int = opt(256, "units of the routing network")
    floor: float = opt(0.0, "least share of uniform mixing in every routing weight, so that no module is forgotten")


class SoftModulesTrunk(Trunk):
    task_inputs = ("one_hot", "encoder", "embedding")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        cfg: SoftModulesConfig = shape.options.soft_modules
        self.n, self.floor = cfg.modules, cfg.floor
        members, gating = (shape.members,), cfg.gating_dim
        width = cfg.width or (128 if cfg.layers >= 4 else 256)

        def linear(inputs: int, outputs: int, bound: float | None = None) -> StackedLinear:
            layer = StackedLinear(members, inputs, outputs)
            init_hidden(layer, generator) if bound is None else init_uniform(layer, bound, generator)
            return layer

        self.state = nn.ModuleList([linear(shape.obs + shape.action, shape.width), linear(shape.width, shape.width)])
        self.label = linear(shape.task, shape.width)
        self.gating = nn.ModuleList([linear(shape.width, gating), linear(gating, gating)])
        sizes = [self.n * self.n] * (cfg.layers - 1) + [self.n]
        self.routing = nn.ModuleList(linear(gating, size, shape.out_bound) for size in sizes)
        self.earlier = nn.ModuleList(linear(i * self.n * self.n, gating) for i in range(1, cfg.layers))
        self.modules_of = nn.ModuleList()
        for i in range(cfg.layers):
            layer = StackedLinear((shape.members, self.n), width if i else shape.width, width)
            init_hidden(layer, generator)
            self.modules_of.append(layer)
        self.out = linear(width, shape.out_features, shape.out_bound)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        assert task is not None
        tasks, rows = obs.shape[:2]
        f = self.state[1](torch.relu(self.state[0](flat_rows(joined(obs, None, action)))))
        label = self.label(task.unsqueeze(0)).unsqueeze(2).expand(-1, -1, rows, -1).flatten(1, 2)
        e = self.gating[1](torch.relu(self.gating[0](torch.relu(f * label))))
        x = torch.relu(f).unsqueeze(1)  # [M, 1 or n, rows, width]
        routes: list[Tensor] = []
        for i, layer in enumerate(self.modules_of):
            gate = e if i == 0 else e * self.earlier[i - 1](torch.cat(routes, dim=-1))
            p = self._softmax(self.routing[i](torch.relu(gate)))  # [M, rows, targets, sources]
            routes.append(p.flatten(2))
            y = layer(x)
            # Target j gets sum_m p[j, m] y_m; spelt out, since these matrices are tiny.
            x = sum(p[..., m].transpose(1, 2).unsqueeze(-1) * y[:, m : m + 1] for m in range(self.n))
            x = torch.relu(x)
        out: Tensor = self.out(x[:, 0])
        return out.view(out.shape[0], tasks, rows, out.shape[-1])

    def _softmax(self, logits: Tensor) -> Tensor:
        p = torch.softmax(logits.view(*logits.shape[:-1], -1, self.n), -1)
        return (1 - self.floor) * p + self.floor / self.n if self.floor else p


register_trunk("soft_modules", SoftModulesTrunk)
