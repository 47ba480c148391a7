"""The last episodes of every task, for agents that learn from how a task looks: states only, every n-th.

Until a task succeeds for the first time any episode is kept; then the store of that task is cleared, once, and from
there on only successes go in. Everything is plain tensors on the CPU that are part of the agent's saved state, the
episodes under way included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from medley.agents.api import Spaces

if TYPE_CHECKING:
    from medley.replay.ring import Step


class Episodes(NamedTuple):
    """Some episodes: states [N, time, obs], how many of them are real, and whose they are; lengths on the CPU."""

    states: Tensor
    lengths: Tensor
    task: Tensor


class TrajectoryStore:
    def __init__(self, spaces: Spaces, window: int, stride: int) -> None:
        tasks, slots = len(spaces.tasks), spaces.slots
        self.tasks, self.window, self.stride = tasks, window, stride
        self.time = -(-spaces.horizon // stride)
        self._tensors = {
            "states": torch.zeros(tasks, window, self.time, spaces.obs_dim),
            "lengths": torch.zeros(tasks, window, dtype=torch.int64),  # 0: no episode there
            "written": torch.zeros(tasks, dtype=torch.int64),
            "succeeded": torch.zeros(tasks, dtype=torch.bool),
            "running": torch.zeros(tasks, slots, self.time, spaces.obs_dim),
            "elapsed": torch.zeros(tasks, slots, dtype=torch.int64),
        }
        # The same memory as arrays: NumPy writes a few rows quicker than PyTorch.
        arrays = {name: tensor.numpy() for name, tensor in self._tensors.items()}
        self._states, self._lengths, self._written = arrays["states"], arrays["lengths"], arrays["written"]
        self._running, self._elapsed = arrays["running"], arrays["elapsed"]
        self.succeeded = arrays["succeeded"]

    def add(self, step: Step) -> None:
        """One step of every slot that took it; `step.success` says how the episodes that ended in it went."""
        now = self._elapsed
        took = np.ones((self.tasks, 1), dtype=np.bool_) if step.active is None else step.active[:, None]
        task, slot = np.nonzero((now % self.stride == 0) & (now < self.time * self.stride) & took)
        self._running[task, slot, now[task, slot] // self.stride] = step.obs[task, slot]
        now += took
        for task, slot in zip(*np.nonzero(step.ended & took), strict=True):
            self._keep(task, slot, step.success is not None and bool(step.success[task, slot]))
            now[task, slot] = 0
        now[step.ended & ~took] = 0  # the last step was dropped, so that nobody knows how the episode ended

    def _keep(self, task: int, slot: int, success: bool) -> None:
        if success and not self.succeeded[task]:
            self.succeeded[task] = True
            self._written[task] = self._lengths[task] = 0
        if self.succeeded[task] and not success:
            return
        length = min(-(-self._elapsed[task, slot] // self.stride), self.time)
        place = self._written[task] % self.window
        self._states[task, place] = 0
        self._states[task, place, :length] = self._running[task, slot, :length]
        self._lengths[task, place] = length
        self._written[task] += 1

    def is_full(self) -> bool:
        """Whether every task has an episode."""
        return bool((self._written > 0).all())

    def recent(self, episodes: int) -> Episodes:
        """The newest episodes of every task, standardised by all that is in the store."""
        wanted = [
            (task, (written - 1 - back) % self.window)
            for task, written in enumerate(self._written.tolist())
            for back in range(min(written, episodes, self.window))
        ]
        task = torch.tensor([t for t, _ in wanted], dtype=torch.int64)
        place = torch.tensor([p for _, p in wanted], dtype=torch.int64)
        return Episodes(
            self._standardised(self._tensors["states"][task, place]), self._tensors["lengths"][task, place], task
        )

    def features(self) -> Tensor:
        """[T, 2 obs]: mean and spread of every dimension over a task's standardised states."""
        real = self._real().unsqueeze(-1)
        states = self._standardised(self._tensors["states"])
        count = real.sum((1, 2)).clamp(min=1)
        mean = (states * real).sum((1, 2)) / count
        spread = ((states - mean[:, None, None]).square() * real).sum((1, 2)) / count
        return torch.cat([mean, spread.sqrt()], 1)

    def _real(self) -> Tensor:
        return torch.arange(self.time) < self._tensors["lengths"].unsqueeze(-1)

    def _standardised(self, states: Tensor) -> Tensor:
        known = self._tensors["states"][self._real()]
        if not len(known):
            return states
        spread = known.std(0, correction=0).clamp(min=1e-3)  # what hardly ever moves says nothing
        return (states - known.mean(0)) / spread

    def state(self) -> dict[str, Tensor]:
        return dict(self._tensors)
