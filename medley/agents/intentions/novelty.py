"""How new a state is: a network learns to say what a random one says, and cannot where it has not been (RND, Burda et
al. 2019).

    bonus = weight * |f(s) - g(s)|^2 / 2        f stays as it began, g learns to follow it
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.config.options import opt
from medley.nn.stacked import StackedLinear, init_orthogonal


@dataclass
class NoveltyConfig:
    weight: float = opt(0.0, "bonus for states that are new, added to the reward of replay's rows (RND); 0: none")
    hidden_dim: int = opt(64, "units per layer of its two networks")


class Features(nn.Module):
    """Three layers, the first two with a LayerNorm: [1, rows, in] -> [1, rows, hidden]."""

    def __init__(self, inputs: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(StackedLinear((1,), size, width) for size in (inputs, width, width))
        for layer in self.layers:
            assert isinstance(layer, StackedLinear)
            init_orthogonal(layer, 2**0.5, generator)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer, norm in zip(hidden, self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        out: Tensor = last(x)
        return out


def surprise(known: nn.Module, guess: nn.Module, obs: Tensor) -> Tensor:
    """[1, rows] of observations [1, rows, in]."""
    with torch.no_grad():
        wanted = known(obs)
    far: Tensor = guess(obs) - wanted
    return 0.5 * far.square().sum(-1)
