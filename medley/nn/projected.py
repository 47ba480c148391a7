"""A trunk behind a narrow gate: many features become a few before any trunk sees them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from medley.nn.stacked import StackedLinear, init_orthogonal
from medley.nn.trunks import Trunk, flat_rows


class ProjectedTrunk(Trunk):
    """trunk(tanh(LayerNorm(linear(features))), task, action)."""

    def __init__(
        self, trunk: Trunk, features: int, width: int, generator: torch.Generator, init: str = "orthogonal"
    ) -> None:
        super().__init__()
        self.linear = StackedLinear((1,), features, width)
        init_all(self.linear, init, generator)
        self.norm = nn.LayerNorm(width)
        self.inner = trunk
        self.mixes_rows = trunk.mixes_rows

    def project(self, features: Tensor) -> Tensor:
        """[T, b, width] of features [T, b, F]."""
        h = self.linear(flat_rows(features))[0]
        return torch.tanh(self.norm(h)).view(*features.shape[:2], -1)

    def projection(self) -> list[nn.Parameter]:
        """The parameters of `project`."""
        return [*self.linear.parameters(), *self.norm.parameters()]

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        out: Tensor = self.inner(self.project(obs), task, action)
        return out

    def acting_tensors(self) -> list[Tensor]:
        return [*self.projection(), *self.inner.acting_tensors()]

    def per_task(self) -> list[str]:
        return [f"inner.{name}" for name in self.inner.per_task()]

    def link(self, critic: Trunk) -> None:
        assert isinstance(critic, ProjectedTrunk)
        self.inner.link(critic.inner)

    def after_step(self) -> None:
        self.inner.after_step()

    def reduce_precision(self) -> None:
        self.inner.reduce_precision()


def init_all(trunk: nn.Module, how: str, generator: torch.Generator) -> None:
    """Every layer anew: `orthogonal` or `xavier` weights, zero biases."""
    for layer in trunk.modules():
        if isinstance(layer, StackedLinear):
            if how == "orthogonal":
                init_orthogonal(layer, 1.0, generator)
            else:
                bound = (6.0 / (layer.in_features + layer.out_features)) ** 0.5
                with torch.no_grad():
                    layer.weight.copy_(torch.rand(layer.weight.shape, generator=generator) * 2 * bound - bound)
            with torch.no_grad():
                layer.bias.zero_()
