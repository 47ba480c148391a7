"""How the losses of many tasks become one gradient: the gradient seam.

A combiner gets the per-task losses and the parameters they train, split into what tasks share and what belongs to
one task alone, and returns one gradient per parameter. It never touches temperatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from medley.errors import ConfigError, closest


class Combiner(Protocol):
    def __call__(
        self, task_losses: Tensor, shared: Sequence[nn.Parameter], per_task: Sequence[nn.Parameter]
    ) -> list[Tensor]:
        """Gradients of `shared` then `per_task`, in that order."""
        ...


class Mean:
    """The gradient of the mean over tasks: one ordinary backward pass."""

    def __call__(
        self, task_losses: Tensor, shared: Sequence[nn.Parameter], per_task: Sequence[nn.Parameter]
    ) -> list[Tensor]:
        return list(torch.autograd.grad(task_losses.mean(), [*shared, *per_task]))


_COMBINERS: dict[str, Callable[[int], Combiner]] = {"mean": lambda tasks: Mean()}


def register_combiner(name: str, build: Callable[[int], Combiner]) -> None:
    """Make `agent.gradients=<name>` available; `build` gets the number of tasks."""
    _COMBINERS[name] = build


def combiner_names() -> list[str]:
    return sorted(_COMBINERS)


def make_combiner(name: str, tasks: int) -> Combiner:
    if name not in _COMBINERS:
        raise ConfigError(f"there is no gradient combiner {name!r}.{closest(name, _COMBINERS)}")
    return _COMBINERS[name](tasks)
