"""Combiners that weigh the tasks' losses and learn the weights: GradNorm, FAMO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from medley.config.options import opt
from medley.gradients.combiners import Combined, Combiner, register_combiner
from medley.gradients.task_loss import TaskLoss

_TINY = 1e-8


@dataclass
class GradNormConfig:
    asymmetry: float = opt(1.0, "how much more a task counts that has fallen behind; 0: all the same")
    lr: float = opt(3e-4, "learning rate of the task weights")


@dataclass
class FAMOConfig:
    lr: float = opt(0.025, "learning rate of the task weights")
    decay: float = opt(0.01, "pull of the task weights towards equal ones")


class GradNorm(Combiner):
    """Chen et al. 2018: weights under which all tasks' gradients have comparable norms, more for those behind.

    G_i = |w_i grad_W L_i| on the last layer that tasks share; w follows d/dw of sum_i |G_i - mean(G) r_i^a|, where
    r_i says how little of its first loss task i has lost. Then w is put back to a sum of T.
    """

    needs_positive = True

    def __init__(self, tasks: int, options: Any, device: torch.device) -> None:
        super().__init__(tasks, options, device)
        self.config: GradNormConfig = options.gradnorm
        self.w = torch.ones(tasks, device=device)
        self.first = torch.zeros(tasks, device=device)  # losses of the first call
        self.calls = torch.zeros((), device=device)

    def __call__(self, loss: TaskLoss, inputs: Sequence[Tensor], random: Tensor | None = None) -> Combined:
        last = loss.last_shared()
        gradients, losses, extras = loss.plain(inputs, lambda losses: self.w.clone() / self.tasks)
        with torch.no_grad():
            self.first.copy_(torch.where(self.calls == 0, losses, self.first))
            self.calls.add_(1)
        if last is not None:
            each = loss.per_task(inputs, [last]).shared[0].flatten(1)
            with torch.no_grad():
                self._step(each.square().sum(1).sqrt(), losses)
        return Combined(gradients, losses, extras, {"weight_max": self.w.amax()})

    def _step(self, norms: Tensor, losses: Tensor) -> None:
        weighted = self.w * norms
        ratio = losses / (self.first + _TINY)
        wanted = weighted.mean() * (ratio / (ratio.mean() + _TINY)) ** self.config.asymmetry
        slope = torch.sign(weighted - wanted) * norms  # the target is a constant
        # Relative to the mean norm: otherwise the pace would depend on how large gradients happen to be.
        self.w.sub_(self.config.lr * slope / (norms.mean() + _TINY)).clamp_(min=1e-3)
        self.w.mul_(self.tasks / self.w.sum())

    def state(self) -> dict[str, Tensor]:
        return {"w": self.w, "first": self.first, "calls": self.calls}


class FAMO(Combiner):
    """Liu et al. 2023: weights under which all losses fall at the same relative rate, without per-task gradients.

    The step is on sum_i z_i log l_i / sum_j (z_j / l_j) with z = softmax(xi); how much each log l_i fell on the same
    batch then moves xi.
    """

    needs_positive = True

    def __init__(self, tasks: int, options: Any, device: torch.device) -> None:
        super().__init__(tasks, options, device)
        self.config: FAMOConfig = options.famo
        self.xi = torch.zeros(tasks, device=device)

    def __call__(self, loss: TaskLoss, inputs: Sequence[Tensor], random: Tensor | None = None) -> Combined:
        gradients, losses, extras = loss.plain(inputs, self._weights)
        return Combined(gradients, losses, extras, {"weight_max": self._weights(losses).amax() * self.tasks})

    def _weights(self, losses: Tensor) -> Tensor:
        share = torch.softmax(self.xi, 0) / (losses + _TINY)
        return share / share.sum()

    def after_step(self, loss: TaskLoss, inputs: Sequence[Tensor], before: Tensor) -> None:
        with torch.no_grad():
            after, _ = loss(*inputs)
            fell = (before + _TINY).log() - (after + _TINY).log()
            z = torch.softmax(self.xi, 0)
            slope = z * (fell - (z * fell).sum())  # through the softmax
            self.xi.sub_(self.config.lr * (slope + self.config.decay * self.xi))

    def state(self) -> dict[str, Tensor]:
        return {"xi": self.xi}


register_combiner("gradnorm", GradNorm)
register_combiner("famo", FAMO)
