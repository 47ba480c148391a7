"""How a network is told which task a row belongs to: nothing, a one-hot vector, or a learned encoding."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from medley.nn.stacked import StackedLinear, init_hidden


class NoTaskInput(nn.Module):
    """The network sees the observation alone (a single task, or a trunk that separates tasks by itself)."""

    width = 0

    def forward(self) -> Tensor | None:
        return None


class OneHot(nn.Module):
    """Row i of the identity for task i, followed by zeros up to `width`."""

    table: Tensor

    def __init__(self, tasks: int, width: int | None = None) -> None:
        super().__init__()
        self.width = width or tasks
        # Saved, though it never changes: its shape tells a network for other observations from this one.
        self.register_buffer("table", torch.eye(tasks, self.width))

    def forward(self) -> Tensor | None:
        return self.table


class TaskEncoder(nn.Module):
    """z_i = MLP(relu(embedding_i)): trained by the critic's loss alone; the actor reads it without a gradient."""

    def __init__(
        self,
        tasks: int,
        generator: torch.Generator,
        embedding: int = 50,
        hidden: int = 50,
        layers: int = 2,
        width: int = 50,
    ) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Parameter(torch.randn(1, tasks, embedding, generator=generator))
        sizes = [embedding, *[hidden] * layers, width]
        self.layers = nn.ModuleList(StackedLinear((1,), a, b) for a, b in pairwise(sizes))
        for layer in self.layers:
            assert isinstance(layer, StackedLinear)
            init_hidden(layer, generator)

    def forward(self) -> Tensor | None:
        h: Tensor = self.embedding
        for layer in self.layers:
            h = layer(torch.relu(h))
        return h[0]


TaskInput = NoTaskInput | OneHot | TaskEncoder


def with_task(x: Tensor, z: Tensor | None) -> Tensor:
    """Append z[T, d] to every row of x[T, b, in]."""
    if z is None:
        return x
    return torch.cat([x, z.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=-1)
