"""Adam with clipping on explicit gradients, and its state as named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.config.options import opt


@dataclass
class OptimizerConfig:
    lr: float = opt(3e-4, "learning rate")
    beta1: float = opt(0.9, "decay of Adam's first moment")
    beta2: float = opt(0.999, "decay of Adam's second moment")
    eps: float = opt(1e-8, "Adam's epsilon")


class Optimizer:
    """Fused Adam over a fixed list of parameters."""

    def __init__(self, parameters: Sequence[nn.Parameter], config: OptimizerConfig) -> None:
        self.parameters = list(parameters)
        device = self.parameters[0].device
        self.adam = torch.optim.Adam(
            self.parameters,
            lr=torch.tensor(config.lr, device=device),
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            fused=True,
        )
        for p in self.parameters:  # made now, so that a restart copies into tensors that exist
            self.adam.state[p] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }

    def step(self, gradients: Sequence[Tensor], max_norm: float | None) -> Tensor:
        """Clip to a total norm of `max_norm` and step; returns the norm before clipping."""
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if max_norm is not None:
            torch._foreach_mul_(list(gradients), (max_norm / (norm + 1e-6)).clamp(max=1.0))
        for p, g in zip(self.parameters, gradients, strict=True):
            p.grad = g
        self.adam.step()
        for p in self.parameters:
            p.grad = None
        return norm

    def state(self) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for i, p in enumerate(self.parameters):
            for key, value in self.adam.state[p].items():
                out[f"{i}.{key}"] = value
        return out
