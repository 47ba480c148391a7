"""Linear layers whose weights are vectors of length one: what they say is a direction, not a size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from medley.nn.stacked import StackedLinear, in_full, init_orthogonal


def unit(x: Tensor, dim: int = -1) -> Tensor:
    """x / |x|; zero stays zero, with a finite gradient."""
    x = in_full(x)
    return x / (x.square().sum(dim, keepdim=True) + 1e-16).sqrt()


class UnitLinear(StackedLinear):
    """No bias, and for every output a weight vector of length one."""

    def __init__(self, members: Sequence[int], in_features: int, out_features: int, generator: torch.Generator) -> None:
        super().__init__(members, in_features, out_features)
        del self.bias
        init_orthogonal(self, 1.0, generator)
        self.normalize()

    def forward(self, x: Tensor) -> Tensor:
        if self.reduced:
            return torch.matmul(x.bfloat16(), self.weight.bfloat16())
        return torch.matmul(in_full(x), self.weight)

    def normalize(self) -> None:
        with torch.no_grad():
            self.weight.copy_(unit(self.weight, -2))


class Bias(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(*shape))

    def forward(self, x: Tensor) -> Tensor:
        return in_full(x) + self.bias
