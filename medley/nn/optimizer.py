"""Adam with clipping on explicit gradients, and its state as named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.config.options import opt


@dataclass
class OptimizerConfig:
    lr: float = opt(3e-4, "learning rate")
    beta1: float = opt(0.9, "decay of Adam's first moment")
    beta2: float = opt(0.999, "decay of Adam's second moment")
    eps: float = opt(1e-8, "Adam's epsilon")
    weight_decay: float = opt(0.0, "share of the learning rate by which weights shrink per step (AdamW)")
    lr_end: float | None = opt(
        None, "learning rate at the end of the run, reached in a line; null: the same throughout"
    )


class Optimizer:
    """Adam over a fixed list of parameters, all in one fused call.

    `torch.optim.Adam` calls the same kernel, but its bookkeeping per step costs more than the kernel on small networks.
    """

    def __init__(self, parameters: Sequence[Tensor], config: OptimizerConfig) -> None:
        self.traceable = False  # True: in operations that a compiler understands
        self.parameters: list[Tensor] = list(parameters)
        self.config = config
        device = self.parameters[0].device
        # A tensor, so that a captured graph can follow a schedule; the CUDA kernel takes 32 bits only.
        dtype = torch.float64 if device.type == "cpu" else torch.float32
        self.lr = torch.tensor(config.lr, dtype=dtype, device=device)
        self.steps = [torch.zeros((), device=device) for _ in self.parameters]
        self.means = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.squares = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]

    def step(self, gradients: list[Tensor], max_norm: float | None) -> Tensor:
        """Clip to a total norm of `max_norm` and step; returns the norm before clipping."""
        norm = self._norm(gradients)
        with torch.no_grad():
            if max_norm is not None:
                scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
                if self.traceable:
                    gradients = [gradient * scale for gradient in gradients]
                else:
                    torch._foreach_mul_(gradients, scale)
            if self.traceable:
                self._step(gradients)
            else:
                self._fused_step(gradients)
        return norm

    def _norm(self, gradients: list[Tensor]) -> Tensor:
        if self.traceable:
            return torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        return norm

    def _fused_step(self, gradients: list[Tensor]) -> None:
        c = self.config
        gradients = [g.contiguous() for g in gradients]  # the kernel walks through memory as if they were
        torch._foreach_add_(self.steps, 1)
        kernel = torch._fused_adamw_ if c.weight_decay else torch._fused_adam_
        kernel(
            self.parameters,
            gradients,
            self.means,
            self.squares,
            [],
            self.steps,
            lr=self.lr,
            beta1=c.beta1,
            beta2=c.beta2,
            weight_decay=c.weight_decay,
            eps=c.eps,
            amsgrad=False,
            maximize=False,
        )

    def _step(self, gradients: list[Tensor]) -> None:
        """The same arithmetic, spelt out."""
        c = self.config
        for step in self.steps:
            step.add_(1)
        count = self.steps[0]
        size = self.lr.float() / (1 - c.beta1**count)
        correction = (1 - c.beta2**count).sqrt()
        for p, g, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            mean.lerp_(g, 1 - c.beta1)
            square.mul_(c.beta2).addcmul_(g, g, value=1 - c.beta2)
            if c.weight_decay:
                p.mul_(1 - self.lr.float() * c.weight_decay)
            p.sub_(size * mean / (square.sqrt() / correction + c.eps))

    def anneal(self, share: float) -> None:
        """The learning rate after this share of the run."""
        c = self.config
        if c.lr_end is not None:
            self.lr.fill_(c.lr + (c.lr_end - c.lr) * min(share, 1.0))

    def state(self) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for i in range(len(self.parameters)):
            out |= {f"{i}.step": self.steps[i], f"{i}.mean": self.means[i], f"{i}.square": self.squares[i]}
        return out
