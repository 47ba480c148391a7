"""Exploration noise that stays the same for a while: a slot then keeps pushing in one direction."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


class HeldNoise:
    """Every slot holds its noise for n steps, then takes new noise and a new n: P(n) ~ 1 / n^2 for n = 1 .. longest."""

    def __init__(self, shape: tuple[int, int, int], longest: int) -> None:
        self.noise = torch.zeros(shape)
        self.left = torch.zeros(shape[:2], dtype=torch.int64)
        self.chances = 1.0 / torch.arange(1, longest + 1, dtype=torch.float64) ** 2

    def hold(self, drawn: Tensor, generator: torch.Generator) -> Tensor:
        """`drawn` [steps, tasks, slots, dim] is the noise to take where some is taken."""
        out = torch.empty_like(drawn)
        for i, fresh in enumerate(drawn):
            lengths = torch.multinomial(self.chances, self.left.numel(), True, generator=generator) + 1
            over = self.left == 0
            self.noise = torch.where(over.unsqueeze(-1), fresh, self.noise)
            self.left = torch.where(over, lengths.view_as(self.left), self.left) - 1
            out[i] = self.noise
        return out

    def state(self) -> dict[str, npt.NDArray[Any]]:
        return {"held.noise": self.noise.numpy().copy(), "held.left": self.left.numpy().copy()}

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        self.noise = torch.from_numpy(state["held.noise"].copy())
        self.left = torch.from_numpy(state["held.left"].copy())
