"""How the losses of many tasks become one gradient: the gradient seam.

A combiner gets a TaskLoss and its inputs and returns a gradient for every parameter the loss trains. Parameters of one
task alone (heads, mixing vectors, masks) always get the gradient of the mean. It never touches temperatures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from medley.errors import ConfigError, closest
from medley.gradients.task_loss import Extras, Gradients, TaskLoss


class Combined(NamedTuple):
    gradients: Gradients
    losses: Tensor  # [T]
    extras: Extras
    metrics: dict[str, Tensor]


class Combiner(ABC):
    """Base of all combiners. State lives in tensors that `state` names; they stay where they are."""

    needs_positive = False  # whether it only makes sense for losses that cannot be negative

    def __init__(self, tasks: int, options: Any, device: torch.device) -> None:
        self.tasks, self.device = tasks, device

    @abstractmethod
    def __call__(self, loss: TaskLoss, inputs: Sequence[Tensor], random: Tensor | None = None) -> Combined:
        """A gradient for every parameter that `loss` trains."""

    def after_step(self, loss: TaskLoss, inputs: Sequence[Tensor], before: Tensor) -> None:  # noqa: B027
        """Called once the optimiser has stepped; `before` are the losses of the call."""

    def random_shape(self) -> tuple[int, ...] | None:
        """Of the uniform random numbers it wants for every call."""
        return None

    def state(self) -> dict[str, Tensor]:
        return {}


class Mean(Combiner):
    """The gradient of the mean over tasks: one ordinary backward pass."""

    def __call__(self, loss: TaskLoss, inputs: Sequence[Tensor], random: Tensor | None = None) -> Combined:
        return Combined(*loss.plain(inputs), {})


Build = Callable[[int, Any, torch.device], Combiner]  # (tasks, the agent's options, device) -> combiner
_COMBINERS: dict[str, Build] = {"mean": Mean}


def register_combiner(name: str, build: Build) -> None:
    """Make `agent.gradients=<name>` available."""
    _COMBINERS[name] = build


def combiner_names() -> list[str]:
    return sorted(_COMBINERS)


def make_combiner(name: str, tasks: int, options: Any, device: torch.device) -> Combiner:
    if name not in _COMBINERS:
        raise ConfigError(f"there is no gradient combiner {name!r}.{closest(name, _COMBINERS)}")
    return _COMBINERS[name](tasks, options, device)
