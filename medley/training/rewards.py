"""Reward scaling: a factor per task, learnt while collecting and applied when a batch is sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from medley.agents.api import Agent
    from medley.replay.base import ReplayBase

Array = npt.NDArray[Any]


class RewardScale:
    """r * scale, or r * scale / std with an exponential moving standard deviation per task (`ema_std`).

    Rewards are stored raw and divided by today's std, so that old and new rows of a batch share one scale.
    """

    RATE = 0.001

    def __init__(self, tasks: int, scale: float, normalization: str, device: torch.device) -> None:
        self.scale, self.normalize = scale, normalization == "ema_std"
        self.mean = np.zeros(tasks)
        self.var = np.ones(tasks)
        self.factor: Tensor = torch.full((tasks, 1), scale, device=device)

    def observe(
        self, reward: Array, terminated: Array | None = None, ended: Array | None = None, active: Array | None = None
    ) -> None:
        """Take note of one step, [tasks, slots], of the tasks that took it."""
        if not self.normalize:
            return
        rate = self.RATE if active is None else self.RATE * active
        for column in reward.T.astype(np.float64):
            self.mean += rate * (column - self.mean)
            self.var += rate * ((column - self.mean) ** 2 - self.var)
        self._refresh()

    def settle(self, agent: Agent, replay: ReplayBase, afresh: bool) -> None:
        """Called once per chunk, after its steps; `afresh`: learning begins here, after the warm-up or a reset."""

    def _refresh(self) -> None:
        factor = self.scale / (np.sqrt(self.var) + 1e-8)
        self.factor.copy_(torch.from_numpy(factor.astype(np.float32)).unsqueeze(1))

    def state(self) -> dict[str, Array]:
        return {"mean": self.mean.copy(), "var": self.var.copy()}

    def set_state(self, state: dict[str, Array]) -> None:
        self.mean, self.var = state["mean"].copy(), state["var"].copy()
        if self.normalize:
            self._refresh()
