"""Task-conditioned networks: the trunk seam. Each maps obs[T, b, D], a vector per task and perhaps an action to
[members, T, b, out].

A trunk says which of its tensors hold something for every task (`per_task`): gradient combiners leave such
parameters out, and a loss of one task alone gets its slice of them. Their shape is [members or 1, T, ...].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from medley.errors import ConfigError, closest
from medley.nn.stacked import StackedLinear, init_uniform, linear_layers
from medley.nn.task_input import with_task


@dataclass(frozen=True)
class Shape:
    """What a trunk is asked to be."""

    obs: int
    out_features: int
    tasks: int
    members: int
    width: int
    depth: int
    out_bound: float  # the output layer starts as U(-out_bound, out_bound)
    task: int = 0  # numbers that say which task it is
    action: int = 0  # 0 for an actor
    options: Any = None  # the agent's, where a trunk finds its own
    names: tuple[str, ...] = ()  # of the tasks

    @property
    def in_features(self) -> int:
        return self.obs + self.task + self.action


class Trunk(nn.Module, ABC):
    """Base of all trunks; a subclass fills `forward` and, if it has any, `per_task`."""

    task_inputs: tuple[str, ...] = ("one_hot", "encoder", "embedding", "none")  # that make sense; the default first
    mixes_rows = False  # whether `forward` of a row depends on the other rows, as batch norm does; `act` never may

    @abstractmethod
    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        """[members, T, b, out] of obs[T, b, .], task[T, .] and action[T, b, .]."""

    def act(self, obs: Tensor, task: Tensor | None = None) -> Tensor:
        """`forward` while nothing is learnt."""
        out: Tensor = self(obs, task)
        return out

    def per_task(self) -> list[str]:
        """Names of parameters and buffers [., T, ...] whose slice i only the rows of task i ever reach."""
        return []

    def acting_tensors(self) -> list[Tensor]:
        """All that `act` reads."""
        return [*self.parameters(), *self.buffers()]

    def link(self, critic: Trunk) -> None:
        """Called on the actor's trunk once the critic's is there: some share parameters."""

    def after_step(self) -> None:
        """Called after every step of the optimiser: some keep their weights within bounds."""

    def reduce_precision(self) -> None:
        """Products between hidden layers in bf16. What comes in and goes out (positions, values) needs its digits."""
        layers = [module for module in self.modules() if isinstance(module, StackedLinear)]
        for layer in layers[1:-1]:
            layer.reduced = True


def joined(obs: Tensor, task: Tensor | None, action: Tensor | None) -> Tensor:
    """All inputs side by side."""
    x = with_task(obs, task)
    return x if action is None else torch.cat([x, action], dim=-1)


def flat_rows(x: Tensor) -> Tensor:
    """[T, b, d] as [1, T * b, d]: one product for all rows."""
    return x.reshape(1, -1, x.shape[-1])


def forward_beside(network: Callable[..., Tensor], inputs: Sequence[Tensor | None], beside: Sequence[Tensor]) -> Tensor:
    """network(obs, task[, action]) where the rows of `beside` (obs[, action]) go through it too: their results are left
    out, but a network that mixes rows takes them into account."""
    if not beside:
        return network(*inputs)
    obs, task, *action = inputs
    assert obs is not None
    both = [torch.cat([own, other], dim=1) for own, other in zip((obs, *action), beside, strict=True)]  # type: ignore[list-item]
    return network(both[0], task, *both[1:])[:, :, : obs.shape[1]]


def through(hidden: nn.ModuleList, out: nn.Module, h: Tensor) -> Tensor:
    """Hidden layers with ReLU, then the output layer."""
    for layer in hidden:
        h = torch.relu(layer(h))
    result: Tensor = out(h)
    return result


def names_below(prefix: str, module: nn.Module) -> list[str]:
    return [f"{prefix}.{name}" for name, _ in module.named_parameters()]


def hidden_layers(
    members: Sequence[int], in_features: int, width: int, depth: int, generator: torch.Generator
) -> nn.ModuleList:
    return linear_layers(members, [in_features, *[width] * depth], generator)


class SharedTrunk(Trunk):
    """One MLP for all tasks: every row goes through the same weights."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden = hidden_layers((shape.members,), shape.in_features, shape.width, shape.depth, generator)
        self.out = StackedLinear((shape.members,), shape.width, shape.out_features)
        init_uniform(self.out, shape.out_bound, generator)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        x = joined(obs, task, action)
        tasks, rows = x.shape[0], x.shape[1]
        out = through(self.hidden, self.out, flat_rows(x))
        return out.view(out.shape[0], tasks, rows, out.shape[-1])


class MultiHeadTrunk(Trunk):
    """A shared body and one linear output head per task."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden = hidden_layers((shape.members,), shape.in_features, shape.width, shape.depth, generator)
        self.heads = StackedLinear((shape.members, shape.tasks), shape.width, shape.out_features)
        init_uniform(self.heads, shape.out_bound, generator)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        x = joined(obs, task, action)
        tasks, rows = x.shape[0], x.shape[1]
        h = flat_rows(x)
        for layer in self.hidden:
            h = torch.relu(layer(h))
        out: Tensor = self.heads(h.view(h.shape[0], tasks, rows, h.shape[-1]))
        return out

    def per_task(self) -> list[str]:
        return names_below("heads", self.heads)


class DisjointTrunk(Trunk):
    """A separate MLP for every task; nothing is shared."""

    task_inputs = ("none", "one_hot", "encoder", "embedding")

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        members = (shape.members, shape.tasks)
        self.hidden = hidden_layers(members, shape.in_features, shape.width, shape.depth, generator)
        self.out = StackedLinear(members, shape.width, shape.out_features)
        init_uniform(self.out, shape.out_bound, generator)

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        return through(self.hidden, self.out, joined(obs, task, action).unsqueeze(0))

    def per_task(self) -> list[str]:
        return [name for name, _ in self.named_parameters()]


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


def task_inputs(name: str) -> tuple[str, ...]:
    """Values of `agent.task_input` that a trunk can work with; the default first."""
    build = _TRUNKS[name]
    return build.task_inputs if isinstance(build, type) and issubclass(build, Trunk) else Trunk.task_inputs


def mixes_rows(name: str) -> bool:
    return bool(getattr(_TRUNKS[name], "mixes_rows", False))


def make_trunk(name: str, shape: Shape, generator: torch.Generator) -> Trunk:
    if name not in _TRUNKS:
        raise ConfigError(f"there is no trunk {name!r}.{closest(name, _TRUNKS)}")
    return _TRUNKS[name](shape, generator)
