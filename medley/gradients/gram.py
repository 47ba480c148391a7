"""Combiners that look at the inner products of per-task gradients alone: PCGrad, CAGrad, Nash-MTL.

With K_ij = g_i . g_j, each finds weights c (a number per task), and the update is sum_i c_i g_i.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from medley.config.options import opt
from medley.gradients.combiners import Combined, Combiner, register_combiner
from medley.gradients.task_loss import TaskLoss


@dataclass
class CAGradConfig:
    c: float | None = opt(None, "distance from the mean gradient, 0 to 1; null: 0.9, or 0.5 for 50 tasks")
    steps: int = opt(20, "steps of the search for task weights")
    lr: float | None = opt(None, "learning rate of that search; null: 25, or 50 for 50 tasks")
    momentum: float = opt(0.5, "its momentum")


@dataclass
class NashConfig:
    steps: int = opt(20, "Newton steps at most")
    max_norm: float = opt(1.0, "largest norm of the combined gradient")


class GramCombiner(Combiner):
    @abstractmethod
    def weights(self, gram: Tensor, random: Tensor | None) -> Tensor:
        """c [T] from K [T, T]."""

    def __call__(self, loss: TaskLoss, inputs: Sequence[Tensor], random: Tensor | None = None) -> Combined:
        each = loss.per_task(inputs)
        flat = [g.flatten(1) for g in each.shared]
        with torch.no_grad():
            gram = torch.stack([g @ g.T for g in flat]).sum(0) if flat else torch.eye(self.tasks, device=self.device)
            c = self.weights(gram, random)
            shared = [torch.tensordot(c, g, 1) for g in each.shared]
        gradients = dict(zip(loss.parameters_trained, [*shared, *each.own], strict=True))
        return Combined(gradients, each.losses, each.extras, _conflicts(gram))


def _conflicts(gram: Tensor) -> dict[str, Tensor]:
    """How far tasks agree: the mean cosine of two tasks' gradients, and the share of pairs that disagree."""
    norm = gram.diagonal().clamp(min=1e-30).sqrt()
    cosine = gram / (norm.unsqueeze(0) * norm.unsqueeze(1))
    tasks = gram.shape[0]
    pairs = max(tasks * (tasks - 1), 1)
    others = 1 - torch.eye(tasks, device=gram.device)
    return {"grad_cos_mean": (cosine * others).sum() / pairs, "grad_conflicts": ((cosine < 0) * others).sum() / pairs}


class PCGrad(GramCombiner):
    """Yu et al. 2020: where g_i points against g_j, take out of it what lies along g_j; others in random order."""

    def random_shape(self) -> tuple[int, ...] | None:
        return (self.tasks, self.tasks)

    def weights(self, gram: Tensor, random: Tensor | None) -> Tensor:
        assert random is not None
        order = random.argsort(dim=1)  # row i: in which order g_i meets the others
        every = torch.arange(self.tasks, device=gram.device)
        # Row i holds g_i as a combination of the original gradients; all rows go on side by side.
        rows = torch.eye(self.tasks, device=gram.device, dtype=gram.dtype)
        for k in range(self.tasks):
            other = order[:, k]
            along = (rows * gram[:, other].T).sum(1)
            share = torch.where((along < 0) & (other != every), along / (gram.diagonal()[other] + 1e-8), 0.0)
            rows = rows - share.unsqueeze(1) * (other.unsqueeze(1) == every)
        return rows.mean(0)


class CAGrad(GramCombiner):
    """Liu et al. 2021: near the mean gradient, the direction in which the task that gains least gains most."""

    def __init__(self, tasks: int, options: Any, device: torch.device) -> None:
        super().__init__(tasks, options, device)
        self.config: CAGradConfig = options.cagrad
        many = tasks >= 50
        self.c = self.config.c if self.config.c is not None else (0.5 if many else 0.9)
        self.lr = self.config.lr if self.config.lr is not None else (50.0 if many else 25.0)

    def weights(self, gram: Tensor, random: Tensor | None) -> Tensor:
        """w = argmin over the simplex of w.K.1/T + c |g0| sqrt(w.K.w), by descent on its logits."""
        scale = gram.diagonal().mean().clamp(min=1e-30)
        k = gram / scale  # so that one learning rate serves gradients of any size
        toward_mean = k.mean(1)
        radius = self.c * k.mean().clamp(min=0).sqrt()
        logits = torch.zeros(self.tasks, device=gram.device, dtype=gram.dtype)
        speed, best, least = torch.zeros_like(logits), logits, torch.full_like(radius, torch.inf)
        for _ in range(self.config.steps + 1):
            w = torch.softmax(logits, 0)
            length = ((w @ k @ w).clamp(min=0) + 1e-8).sqrt()
            value = w @ toward_mean + radius * length
            best, least = torch.where(value < least, w, best), torch.minimum(value, least)
            slope = toward_mean + radius * (k @ w) / length
            speed = self.config.momentum * speed + w * (slope - w @ slope)  # through the softmax
            logits = logits - self.lr * speed
        length = ((best @ k @ best).clamp(min=0) + 1e-8).sqrt()
        return (1 / self.tasks + radius * best / length) / (1 + self.c**2)


class NashMTL(GramCombiner):
    """Navon et al. 2022: the bargaining solution K x = 1/x, in which every task gains the same relative to its norm."""

    def __init__(self, tasks: int, options: Any, device: torch.device) -> None:
        super().__init__(tasks, options, device)
        self.config: NashConfig = options.nash

    def weights(self, gram: Tensor, random: Tensor | None) -> Tensor:
        """min .5 x.K.x - sum log x, convex, by damped Newton steps (steps of a self-concordant function)."""
        scale = gram.diagonal().mean().clamp(min=1e-30)
        k = gram / scale + 1e-6 * torch.eye(self.tasks, device=gram.device, dtype=gram.dtype)
        x = 1 / k.diagonal().clamp(min=1e-6).sqrt() / self.tasks**0.5
        for _ in range(self.config.steps):
            slope = k @ x - 1 / x
            step = torch.linalg.solve_ex(k + torch.diag(1 / x.square()), slope)[0]
            decrement = (slope * step).sum().clamp(min=0).sqrt()
            x = x - step / (1 + decrement)  # stays positive
        x = x / scale.sqrt()
        norm = (x @ gram @ x).clamp(min=0).sqrt()  # sqrt(T) at the solution
        out: Tensor = x * (self.config.max_norm / (norm + 1e-12)).clamp(max=1.0)
        return out


register_combiner("pcgrad", PCGrad)
register_combiner("cagrad", CAGrad)
register_combiner("nash", NashMTL)
