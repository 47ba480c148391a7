"""What a task is, as numbers, to a logit per weight and task: the generators of MUST's masks.

h_i = relu(A [one-hot_i, e_i])                                       e_i: the task's encoded trajectories
lowrank:  logits_l = V_l(h) U_l(h)^T / sqrt(R) + v_l(h) 1^T + 1 u_l(h)^T + S_l      U, V, u, v linear in h
dense:    logits_l = W_l h + b_l
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

Shapes = Sequence[tuple[int, int]]  # (in, out) of everything that is masked


class MaskGenerator(nn.Module):
    """Logits [T, in, out] of every layer, for encodings [T, latent] (None where tasks are known by number alone)."""

    one_hot: Tensor

    def __init__(self, tasks: int, latent: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("one_hot", torch.eye(tasks), persistent=False)
        # A task's number decides as much as its trajectories do: else all tasks would begin with nearly the same masks.
        number = torch.randn(tasks, hidden, generator=generator)
        encoding = torch.randn(latent, hidden, generator=generator) / math.sqrt(max(latent, 1))
        self.weight = nn.Parameter(torch.cat([number, encoding]))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def hidden(self, encoding: Tensor | None) -> Tensor:
        context = self.one_hot if encoding is None else torch.cat([self.one_hot, encoding], 1)
        return torch.relu(torch.addmm(self.bias, context, self.weight))


class LowRankGenerator(MaskGenerator):
    def __init__(
        self, tasks: int, latent: int, shapes: Shapes, hidden: int, rank: int, generator: torch.Generator
    ) -> None:
        super().__init__(tasks, latent, hidden, generator)
        self.rank, self.shapes = rank, list(shapes)
        self.heads = nn.ParameterList()
        self.offsets = nn.ParameterList()
        self.common = nn.ParameterList()
        for rows, columns in shapes:
            # Factors with entries of size one, so that their product and what tasks have in common weigh the same;
            # whole rows and columns (u, v) are favoured only once that is learnt.
            factors = torch.randn(hidden, rank * (rows + columns), generator=generator) * math.sqrt(2 / hidden)
            self.heads.append(nn.Parameter(torch.cat([factors, torch.zeros(hidden, rows + columns)], 1)))
            self.offsets.append(nn.Parameter(torch.zeros((rank + 1) * (rows + columns))))
            self.common.append(nn.Parameter(torch.randn(rows, columns, generator=generator)))

    def forward(self, encoding: Tensor | None) -> list[Tensor]:
        h = self.hidden(encoding)
        layers = zip(self.shapes, self.heads, self.offsets, self.common, strict=True)
        return [self._layer(torch.addmm(offset, h, head), *shape, common) for shape, head, offset, common in layers]

    def _layer(self, z: Tensor, rows: int, columns: int, common: Tensor) -> Tensor:
        tasks, r = z.shape[0], self.rank
        left, right, v, u = torch.split(z, [r * rows, r * columns, rows, columns], 1)
        # Both sums are two more columns of the factors: one product gives everything.
        left = functional.pad(
            torch.cat([left.view(tasks, rows, r) / math.sqrt(r), v.unsqueeze(2)], 2), (0, 1), value=1.0
        )
        ones = torch.ones_like(u).unsqueeze(2)
        right = torch.cat([right.view(tasks, columns, r), ones, u.unsqueeze(2)], 2)
        return torch.baddbmm(common.expand(tasks, rows, columns), left, right.transpose(1, 2))


class DenseGenerator(MaskGenerator):
    def __init__(self, tasks: int, latent: int, shapes: Shapes, hidden: int, generator: torch.Generator) -> None:
        super().__init__(tasks, latent, hidden, generator)
        self.shapes = list(shapes)
        self.heads = nn.ParameterList()
        self.offsets = nn.ParameterList()
        for rows, columns in shapes:
            head = torch.randn(hidden, rows * columns, generator=generator) * math.sqrt(2 / hidden)
            self.heads.append(nn.Parameter(head))
            self.offsets.append(nn.Parameter(torch.zeros(rows * columns)))

    def forward(self, encoding: Tensor | None) -> list[Tensor]:
        h = self.hidden(encoding)
        layers = zip(self.shapes, self.heads, self.offsets, strict=True)
        return [torch.addmm(offset, h, head).view(-1, *shape) for shape, head, offset in layers]
