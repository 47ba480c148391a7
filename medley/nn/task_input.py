"""How a network is told which task a row belongs to: nothing, a one-hot or learned vector, or an encoding."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from medley.errors import ConfigError
from medley.nn.stacked import linear_layers


class NoTaskInput(nn.Module):
    """The network sees the observation alone (a single task, or a trunk that separates tasks by itself)."""

    width = 0

    def per_task(self) -> list[str]:
        return []

    def forward(self) -> Tensor | None:
        return None


class OneHot(nn.Module):
    """Row i of the identity for task i, followed by zeros up to `width`."""

    table: Tensor

    def __init__(self, tasks: int, width: int | None = None) -> None:
        super().__init__()
        self.width = width or tasks
        # Saved, though it never changes: its shape tells a network for other observations from this one.
        self.register_buffer("table", torch.eye(tasks, self.width).unsqueeze(0))

    def per_task(self) -> list[str]:
        return ["table"]

    def forward(self) -> Tensor | None:
        return self.table[0]


class Embedding(nn.Module):
    """A learned vector of length one per task (Nauman et al. 2025): trained by the critic's loss alone."""

    def __init__(self, tasks: int, generator: torch.Generator, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.table = nn.Parameter(torch.randn(1, tasks, width, generator=generator))

    def per_task(self) -> list[str]:
        return ["table"]

    def forward(self) -> Tensor | None:
        return (self.table / (self.table.square().sum(-1, keepdim=True) + 1e-12).sqrt())[0]


class TaskEncoder(nn.Module):
    """z_i = MLP(relu(embedding_i)): trained by the critic's loss alone; the actor reads it without a gradient.

    With `vectors` [T, d] (of sentences that describe the tasks, say), these are what is encoded: they stay as they are,
    and two layers of their own narrow them down.
    """

    vectors: Tensor

    def __init__(
        self,
        tasks: int,
        generator: torch.Generator,
        embedding: int = 50,
        hidden: int = 50,
        layers: int = 2,
        width: int = 50,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        sizes = [embedding, *[hidden] * layers, width]
        if vectors is None:
            self.embedding = nn.Parameter(torch.randn(1, tasks, embedding, generator=generator))
        else:
            self.register_buffer("vectors", vectors.unsqueeze(0))
            sizes = [vectors.shape[-1], 2 * embedding, *sizes]
        self.layers = linear_layers((1,), sizes, generator)

    def per_task(self) -> list[str]:
        return ["embedding"] if hasattr(self, "embedding") else ["vectors"]

    def forward(self) -> Tensor | None:
        h: Tensor = self.embedding if hasattr(self, "embedding") else self.vectors
        for layer in self.layers:
            h = layer(torch.relu(h))
        return h[0]


TaskInput = NoTaskInput | OneHot | Embedding | TaskEncoder


def read_vectors(path: str, tasks: Sequence[str]) -> Tensor:
    """Rows of a JSON object {task name: [numbers]} in the order of `tasks`; `-v2` and the like do not count."""
    try:
        entries = json.loads(Path(path).read_text())
    except (OSError, ValueError) as e:
        raise ConfigError(f"agent.task_vectors={path} cannot be read: {e}") from None
    if not isinstance(entries, dict):
        raise ConfigError(f"agent.task_vectors={path} must hold one JSON object: task name -> list of numbers.")
    by_name = {without_version(name): row for name, row in entries.items()}
    missing = [task for task in tasks if without_version(task) not in by_name]
    if missing:
        raise ConfigError(f"agent.task_vectors={path} has no vector for {', '.join(missing)}.")
    rows = [by_name[without_version(task)] for task in tasks]
    try:
        vectors = torch.tensor(rows, dtype=torch.float32)
    except (TypeError, ValueError):
        vectors = torch.full((), torch.nan)
    if vectors.ndim != 2 or not vectors.numel() or not bool(torch.isfinite(vectors).all()):
        raise ConfigError(f"agent.task_vectors={path}: every task needs a list of equally many finite numbers.")
    return vectors


def without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)


def with_task(x: Tensor, z: Tensor | None) -> Tensor:
    """Append z[T, d] to every row of x[T, b, in]."""
    if z is None:
        return x
    return torch.cat([x, z.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=-1)
