"""The median of the last so many values, one per intention, in tensors that stay where they are."""

from __future__ import annotations

import torch
from torch import Tensor


class RunningMedian:
    def __init__(self, intentions: int, window: int, device: torch.device, nothing: float = torch.inf) -> None:
        """`nothing` is the median of no values."""
        self.values = torch.zeros(intentions, window, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self.nothing = nothing
        self._places = torch.arange(window, device=device)

    def push(self, values: Tensor) -> None:
        """Take note of values [intentions]; the oldest are forgotten."""
        with torch.no_grad():
            here = self._places == self.count % len(self._places)
            self.values.copy_(torch.where(here, values.unsqueeze(1), self.values))
            self.count.add_(1)

    def value(self) -> Tensor:
        """[intentions, 1]"""
        there = self.count.clamp(max=len(self._places))
        ordered = torch.where(self._places < there, self.values, torch.inf).sort(dim=1).values
        middle = torch.stack([(there - 1).clamp(min=0) // 2, there // 2]).clamp(max=len(self._places) - 1)
        median = ordered[:, middle].mean(1, keepdim=True)
        return torch.where(there > 0, median, self.nothing)

    def state(self) -> dict[str, Tensor]:
        return {"values": self.values, "count": self.count}
