"""The one building block: many linear layers of equal shape, applied as one batched product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """`members` independent linear layers: x[*members or broadcastable, rows, in] -> [*members, rows, out].

    `members` is a shape: (2,) for twin critics, (2, T) for twin critics with a head per task. A size of 1 in x
    (or a missing leading dimension) is shared by all members along that dimension.
    """

    def __init__(self, members: Sequence[int], in_features: int, out_features: int) -> None:
        super().__init__()
        self.members = tuple(members)
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(*self.members, in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(*self.members, 1, out_features))
        self.reduced = False  # products in bf16

    def forward(self, x: Tensor) -> Tensor:
        if self.reduced:
            return self._product(x.bfloat16(), self.weight.bfloat16(), self.bias.bfloat16())
        return self._product(x.float() if x.dtype == torch.bfloat16 else x, self.weight, self.bias)

    def _product(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if self.out_features == 1:
            # A matrix product with one column runs at a tenth of its speed on a CPU; a weighted sum does not.
            return (x * weight.transpose(-1, -2)).sum(-1, keepdim=True) + bias
        members = weight.shape[:-2]  # fewer than `self.members` where a loss of one task alone gets its slice
        if members == (1,) and x.ndim == 3:
            # One member: the plain product is quicker than a batched one of size one.
            return torch.addmm(bias[0], x[0], weight[0]).unsqueeze(0)
        if len(members) > 1 and members[-1] > 1 and x.ndim == weight.ndim and x.shape[-3] == 1:
            return self._shared_product(x, weight, bias)
        rows = x.shape[-2]
        x = x.expand(*members, rows, self.in_features).reshape(-1, rows, self.in_features)
        weight = weight.reshape(-1, self.in_features, self.out_features)
        bias = bias.reshape(-1, 1, self.out_features)
        # On a GPU the bias of a batched product costs a copy, unless a compiler merges it with what follows.
        out = torch.bmm(x, weight) + bias if x.is_cuda else torch.baddbmm(bias, x, weight)
        return out.view(*members, rows, self.out_features)

    def _shared_product(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The last dimension of the members shares x: their outputs are columns of one product."""
        count, wide = weight.shape[-3], weight.shape[-3] * self.out_features
        together = weight.transpose(-3, -2).reshape(-1, self.in_features, wide)
        x = x.squeeze(-3).expand(*weight.shape[:-3], -1, -1).reshape(-1, x.shape[-2], self.in_features)
        out = torch.bmm(x, together).view(*weight.shape[:-3], -1, count, self.out_features)
        return out.transpose(-3, -2) + bias

    def extra_repr(self) -> str:
        return f"members={self.members}, in={self.in_features}, out={self.out_features}"


def linear_layers(members: Sequence[int], sizes: Sequence[int], generator: torch.Generator) -> nn.ModuleList:
    """Layers from each size to the next."""
    layers = nn.ModuleList()
    for inputs, outputs in pairwise(sizes):
        layer = StackedLinear(members, inputs, outputs)
        init_hidden(layer, generator)
        layers.append(layer)
    return layers


def init_hidden(layer: StackedLinear, generator: torch.Generator) -> None:
    """He-uniform by the true fan-in, zero bias."""
    bound = math.sqrt(6.0 / layer.in_features)
    init_uniform(layer, bound, generator)


def init_uniform(layer: StackedLinear, bound: float, generator: torch.Generator) -> None:
    """U(-bound, bound) weights, zero bias; drawn on the CPU so that a seed means the same on every device."""
    with torch.no_grad():
        noise = torch.rand(layer.weight.shape, generator=generator)
        layer.weight.copy_(noise.mul_(2 * bound).sub_(bound))
        layer.bias.zero_()


def init_orthogonal(layer: StackedLinear, gain: float, generator: torch.Generator) -> None:
    """Every member's weights a random orthogonal matrix times `gain` (rows or columns, whichever are fewer)."""
    rows, columns = layer.in_features, layer.out_features
    tall = torch.randn(*layer.members, max(rows, columns), min(rows, columns), generator=generator)
    q, r = torch.linalg.qr(tall)
    q = q * torch.diagonal(r, dim1=-2, dim2=-1).sign().unsqueeze(-2)  # else some matrices are likelier than others
    with torch.no_grad():
        layer.weight.copy_(gain * (q if rows >= columns else q.transpose(-1, -2)))


def in_full(x: Tensor) -> Tensor:
    """Back from the 16 bits of a reduced product: sums over many numbers need their digits."""
    return x.float() if x.dtype == torch.bfloat16 else x
