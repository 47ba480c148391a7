"""Observations by their running mean and deviation."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

LARGEST = 10.0  # a feature that hardly ever moved would be huge once it does


class ObsNorm:
    """(obs - mean) / std of every feature, over all tasks: what differs between tasks stays visible.

    Statistics are exact sums (Welford, in 64 bits) over all that was ever collected. They stay where networks are, and
    change between chunks only: whoever acts and whoever learns meanwhile sees the same.
    """

    def __init__(self, features: int, device: torch.device) -> None:
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.mean = torch.zeros(features, dtype=torch.float64, device=device)
        self.squares = torch.zeros_like(self.mean)  # sum of squared distances from the mean
        self.shift = torch.zeros(features, device=device)
        self.factor = torch.ones(features, device=device)

    def __call__(self, obs: Tensor) -> Tensor:
        return ((obs - self.shift) * self.factor).clamp(-LARGEST, LARGEST)

    def observe(self, obs: npt.NDArray[Any]) -> None:
        rows = torch.from_numpy(obs.reshape(-1, obs.shape[-1]))
        if not len(rows):  # a step that nobody took
            return
        if self.count.is_cuda:
            rows = rows.pin_memory()
        rows = rows.to(self.count.device, non_blocking=True).double()
        mean, count = rows.mean(0), rows.shape[0]
        share = count / (self.count + count)
        gap = mean - self.mean
        self.squares.add_((rows - mean).square().sum(0) + gap.square() * self.count * share)
        self.mean.add_(gap * share)
        self.count.add_(count)
        self.shift.copy_(self.mean)
        self.factor.copy_((self.squares / self.count + 1e-8).rsqrt())

    def acting_tensors(self) -> list[Tensor]:
        return [self.shift, self.factor]

    def state(self) -> dict[str, Tensor]:
        return {
            "count": self.count,
            "mean": self.mean,
            "squares": self.squares,
            "shift": self.shift,
            "factor": self.factor,
        }
