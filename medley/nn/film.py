"""FiLM: the task scales and shifts the layers of a state encoder (Perez et al. 2018; in multi-task RL: CARE's paper).

h_l = gamma_l * relu(W_l h + b_l) + beta_l, the last layer without relu;  (gamma, beta) linear in z
out = body([h, z, a])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_uniform
from medley.nn.trunks import Shape, Trunk, flat_rows, hidden_layers, joined, register_trunk, through


@dataclass
class FiLMConfig:
    hidden_dim: int = opt(50, "units per layer of the state encoder")
    num_layers: int = opt(2, "hidden layers of the state encoder; one linear layer follows")
    per_channel: bool = opt(False, "a scale and a shift for every unit, not one pair for a whole layer")


class FiLMTrunk(Trunk):
    task_inputs = ("encoder", "embedding", "one_hot")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        cfg: FiLMConfig = shape.options.film
        members, width, layers = (shape.members,), cfg.hidden_dim, cfg.num_layers + 1
        self.encoder = hidden_layers(members, shape.obs, width, layers, generator)
        self.channels = width if cfg.per_channel else 1
        # Zeros: gamma starts at 1 and beta at 0, so that features begin as they are, not shrunk or flipped.
        self.film = StackedLinear(members, shape.task, 2 * layers * self.channels)
        init_uniform(self.film, 0.0, generator)
        inputs = width + shape.task + shape.action
        self.hidden = hidden_layers(members, inputs, shape.width, shape.depth, generator)
        self.out = StackedLinear(members, shape.width, shape.out_features)
        init_uniform(self.out, shape.out_bound, generator)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        assert task is not None
        tasks, rows = obs.shape[:2]
        # One number moves a whole layer, and Adam moves each of its weights by a full step: it gets small inputs.
        pairs: Tensor = self.film(task.unsqueeze(0) / math.sqrt(task.shape[-1]))  # [M, T, 2 * layers * channels]
        pairs = pairs.view(*pairs.shape[:2], 1, len(self.encoder), 2, self.channels)
        h = flat_rows(obs)
        for i, layer in enumerate(self.encoder):
            h = layer(h)
            h = h.view(h.shape[0], tasks, rows, -1)
            h = h if i + 1 == len(self.encoder) else torch.relu(h)
            h = (1 + pairs[..., i, 0, :]) * h + pairs[..., i, 1, :]
            h = h.flatten(1, 2)
        rest = flat_rows(joined(obs[..., :0], task, action)).expand(h.shape[0], -1, -1)
        out = through(self.hidden, self.out, torch.cat([h, rest], dim=-1))
        return out.view(out.shape[0], tasks, rows, out.shape[-1])


register_trunk("film", FiLMTrunk)
