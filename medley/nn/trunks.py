"""Task-conditioned networks. Each maps x[T, b, in] to [members, T, b, out]; this is the trunk seam.

A trunk says which parameters belong to one task alone (`per_task_parameters`): gradient combiners leave those out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.errors import ConfigError, closest
from medley.nn.stacked import StackedLinear, init_hidden, init_uniform


@dataclass(frozen=True)
class Shape:
    """What a trunk is asked to be."""

    in_features: int
    out_features: int
    tasks: int
    members: int
    width: int
    depth: int
    out_bound: float  # the output layer starts as U(-out_bound, out_bound)


class Trunk(nn.Module):
    """Base of all trunks; a subclass fills `forward` and, if it has any, `per_task_parameters`."""

    def per_task_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters that only one task's rows ever reach."""
        return iter(())

    def reduce_precision(self) -> None:
        """Products between hidden layers in bf16. What comes in and goes out (positions, values) needs its digits."""
        layers = [module for module in self.modules() if isinstance(module, StackedLinear)]
        for layer in layers[1:-1]:
            layer.reduced = True


def _hidden_layers(
    members: Sequence[int], in_features: int, width: int, depth: int, generator: torch.Generator
) -> nn.ModuleList:
    layers = nn.ModuleList()
    for i in range(depth):
        layer = StackedLinear(members, in_features if i == 0 else width, width)
        init_hidden(layer, generator)
        layers.append(layer)
    return layers


class SharedTrunk(Trunk):
    """One MLP for all tasks: every row goes through the same weights."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden = _hidden_layers((shape.members,), shape.in_features, shape.width, shape.depth, generator)
        self.out = StackedLinear((shape.members,), shape.width, shape.out_features)
        init_uniform(self.out, shape.out_bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        tasks, rows = x.shape[0], x.shape[1]
        h = x.reshape(1, tasks * rows, x.shape[2])
        for layer in self.hidden:
            h = torch.relu(layer(h))
        out: Tensor = self.out(h)
        return out.view(out.shape[0], tasks, rows, out.shape[-1])


class MultiHeadTrunk(Trunk):
    """A shared body and one linear output head per task."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden = _hidden_layers((shape.members,), shape.in_features, shape.width, shape.depth, generator)
        self.heads = StackedLinear((shape.members, shape.tasks), shape.width, shape.out_features)
        init_uniform(self.heads, shape.out_bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        tasks, rows = x.shape[0], x.shape[1]
        h = x.reshape(1, tasks * rows, x.shape[2])
        for layer in self.hidden:
            h = torch.relu(layer(h))
        out: Tensor = self.heads(h.view(h.shape[0], tasks, rows, h.shape[-1]))
        return out

    def per_task_parameters(self) -> Iterator[nn.Parameter]:
        return self.heads.parameters()


class DisjointTrunk(Trunk):
    """A separate MLP for every task; nothing is shared."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        members = (shape.members, shape.tasks)
        self.hidden = _hidden_layers(members, shape.in_features, shape.width, shape.depth, generator)
        self.out = StackedLinear(members, shape.width, shape.out_features)
        init_uniform(self.out, shape.out_bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        h = x.unsqueeze(0)
        for layer in self.hidden:
            h = torch.relu(layer(h))
        out: Tensor = self.out(h)
        return out

    def per_task_parameters(self) -> Iterator[nn.Parameter]:
        return self.parameters()


_TRUNKS: dict[str, Callable[[Shape, torch.Generator], Trunk]] = {
    "shared": SharedTrunk,
    "multi_head": MultiHeadTrunk,
    "disjoint": DisjointTrunk,
}


def register_trunk(name: str, build: Callable[[Shape, torch.Generator], Trunk]) -> None:
    """Make `agent.trunk=<name>` available."""
    _TRUNKS[name] = build


def trunk_names() -> list[str]:
    return sorted(_TRUNKS)


def make_trunk(name: str, shape: Shape, generator: torch.Generator) -> Trunk:
    if name not in _TRUNKS:
        raise ConfigError(f"there is no trunk {name!r}.{closest(name, _TRUNKS)}")
    return _TRUNKS[name](shape, generator)
