"""Examples of success and demonstrations, on the training device: what fulfils each intention.

An example is drawn with a little noise, and its successor is the same example with noise of its own, unless it is known
what came next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.agents.intentions.batch import ExpertBatch

Array = npt.NDArray[Any]


class Experts:
    """Rows of every intention, padded to the longest; `noise` is relative to each dimension's deviation."""

    def __init__(
        self,
        obs: Sequence[Array],
        device: torch.device,
        noise: float = 0.1,
        next_obs: Sequence[Array] | None = None,
        action: Sequence[Array] | None = None,
    ) -> None:
        self.counts = torch.tensor([[len(own)] for own in obs], dtype=torch.float64, device=device)
        self.obs = _padded(obs, device)
        self.next_obs = None if next_obs is None else _padded(next_obs, device)
        self.action = None if action is None else _padded(action, device)
        deviation = np.stack([np.asarray(own, np.float64).std(0) for own in obs])
        self.noise = noise
        self._sigma = torch.from_numpy((noise * deviation).astype(np.float32)).to(device).unsqueeze(1)
        self._task = torch.arange(len(obs), device=device).unsqueeze(1)
        self._size = (self.counts / self.counts.mean()).float()

    @property
    def intentions(self) -> int:
        return self.obs.shape[0]

    def draw(self, rows: int, generator: torch.Generator) -> list[Tensor]:
        shape, device = (self.intentions, rows), self.obs.device
        places = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        if not self.noise:
            return [places]
        return [places, torch.randn((2, *shape, self.obs.shape[-1]), generator=generator, device=device)]

    def take(self, drawn: Sequence[Tensor]) -> ExpertBatch:
        index = (drawn[0] * self.counts).long()
        obs = self.obs[self._task, index]
        next_obs = obs if self.next_obs is None else self.next_obs[self._task, index]
        if self.noise:
            obs, next_obs = obs + self._sigma * drawn[1][0], next_obs + self._sigma * drawn[1][1]
        action = None if self.action is None else self.action[self._task, index]
        return ExpertBatch(obs, next_obs, action, self._size)


def _padded(rows: Sequence[Array], device: torch.device) -> Tensor:
    longest = max(len(own) for own in rows)
    whole = np.zeros((len(rows), longest, *np.asarray(rows[0]).shape[1:]), dtype=np.float32)
    for place, own in zip(whole, rows, strict=True):
        place[: len(own)] = own
    return torch.from_numpy(whole).to(device)
