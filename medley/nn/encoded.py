"""A trunk that sees states through an encoder, of which actor, critics and whoever else learns from it share one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from medley.nn.stacked import linear_layers
from medley.nn.trunks import Trunk, flat_rows


class StateEncoder(nn.Module):
    """h[T, b, width] of obs[T, b, D]: linear layers with ReLU between them, the same for all tasks."""

    def __init__(self, sizes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.layers = linear_layers((1,), sizes, generator)

    def forward(self, obs: Tensor) -> Tensor:
        h = flat_rows(obs)
        for i, layer in enumerate(self.layers):
            h = layer(torch.relu(h) if i else h)
        return h.view(*obs.shape[:2], h.shape[-1])

    def per_task(self) -> list[str]:
        return []


class EncodedTrunk(Trunk):
    """trunk(encoder(obs), task, action). The encoder is the critic's; the actor reads it without a gradient."""

    def __init__(self, trunk: Trunk, encoder: StateEncoder) -> None:
        super().__init__()
        self.encoder: StateEncoder | None = encoder
        self.inner = trunk
        self.mixes_rows = trunk.mixes_rows
        self._critics: tuple[StateEncoder, ...] = ()  # in a tuple, so that it stays a part of the critic alone

    def link(self, critic: Trunk) -> None:
        assert isinstance(critic, EncodedTrunk)
        assert critic.encoder is not None
        self.encoder, self._critics = None, (critic.encoder,)
        self.inner.link(critic.inner)

    def encode(self, obs: Tensor) -> Tensor:
        h: Tensor = self.encoder(obs) if self.encoder is not None else self._critics[0](obs).detach()
        return h

    def forward(self, obs: Tensor, task: Tensor | None = None, action: Tensor | None = None) -> Tensor:
        out: Tensor = self.inner(self.encode(obs), task, action)
        return out

    def act(self, obs: Tensor, task: Tensor | None = None, *action: Tensor) -> Tensor:
        return self.inner.act(self.encode(obs), task, *action)

    def acting_tensors(self) -> list[Tensor]:
        encoders = self._critics if self.encoder is None else (self.encoder,)
        return [*(p for encoder in encoders for p in encoder.parameters()), *self.inner.acting_tensors()]

    def per_task(self) -> list[str]:
        return [f"inner.{name}" for name in self.inner.per_task()]

    def after_step(self) -> None:
        self.inner.after_step()

    def reduce_precision(self) -> None:
        self.inner.reduce_precision()
