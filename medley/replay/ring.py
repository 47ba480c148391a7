"""Replay: one ring of transitions per task, on the training device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from medley.agents.api import Batch
from medley.replay.base import Array, Records, ReplayBase, Step, TensorRecords

__all__ = ["FIELDS", "Replay", "Step"]

FIELDS = ("obs", "action", "reward", "next_obs", "terminated", "ended")


class Replay(ReplayBase):
    """Rows of one slot lie `slots` apart in its task's ring, so that n-step returns can follow an episode.

    Row r of a task's count lives at r % capacity.
    """

    fields: tuple[str, ...] = FIELDS

    def __init__(
        self,
        tasks: int,
        slots: int,
        capacity: int,
        obs_dim: int,
        action_dim: int,
        device: torch.device,
        seed: int,
        n_step: int = 1,
        discount: float = 0.99,
        uniform: bool = False,
    ) -> None:
        super().__init__(tasks, slots, capacity, device, seed, n_step, discount, uniform)
        self.written_rows = torch.zeros(tasks, 1, dtype=torch.int64, device=device)  # the counts, on the device

        def ring(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(tasks, self.capacity, *shape, dtype=dtype, device=device)

        self.rows = {
            "obs": ring(obs_dim),
            "action": ring(action_dim),
            "reward": ring(),
            "next_obs": ring(obs_dim),
            "terminated": ring(dtype=torch.bool),
            "ended": ring(dtype=torch.bool),
        } | self._more_rows(ring)
        # The same memory as arrays: NumPy writes a few rows quicker than PyTorch.
        self._arrays = {name: rows.numpy() for name, rows in self.rows.items()} if device.type == "cpu" else None

    def _more_rows(self, ring: Callable[..., Tensor]) -> dict[str, Tensor]:
        """What else is kept, or kept in another shape."""
        return {}

    @property
    def size(self) -> int:
        return min(self.written, self.capacity)

    def add(self, step: Step) -> None:
        everyone = step.active is None or bool(np.all(step.active))
        if everyone and (self.counts == self.counts[0]).all():
            self._write(slice(None), int(self.counts[0]) % self.capacity, step)
            self.set_written(self.written + self.slots)
            return
        counts = self.counts.copy()
        for task in range(self.tasks) if step.active is None else np.flatnonzero(step.active):
            self._write(slice(task, task + 1), int(counts[task]) % self.capacity, step)
            counts[task] += self.slots
        self.set_written(counts)

    def _write(self, tasks: slice, at: int, step: Step) -> None:
        if self._arrays is not None:
            for name in self.fields:
                self._arrays[name][tasks, at : at + self.slots] = getattr(step, name)[tasks]
            return
        # To a GPU: all fields in one transfer that nobody waits for.
        values = [np.asarray(getattr(step, name)[tasks], np.float32) for name in self.fields]
        columns = [value if value.ndim == 3 else value[:, :, None] for value in values]
        sent = torch.from_numpy(np.concatenate(columns, axis=2)).pin_memory().to(self.device, non_blocking=True)
        for name, rows in zip(self.fields, torch.split(sent, [c.shape[2] for c in columns], dim=2), strict=True):
            ring = self.rows[name]
            ring[tasks, at : at + self.slots] = rows if ring.ndim == 3 else rows[:, :, 0]

    def set_written(self, written: int | Array) -> None:
        """So many rows have been written, per task or in every task."""
        if isinstance(written, int):
            self.counts[:] = written
            self.written_rows.fill_(written)
            self.sizes.fill_(self.size)
            return
        self.counts[:] = written
        self.written_rows.copy_(torch.from_numpy(self.counts).unsqueeze(1))
        self.sizes.copy_(torch.from_numpy(np.minimum(self.counts, self.capacity)).unsqueeze(1))

    def take(self, drawn: Sequence[Tensor]) -> Batch:
        """The sample that these random numbers choose."""
        index = (drawn[0] * self.sizes).long()
        rows, task = self.rows, self._task_index
        reward = rows["reward"][task, index]
        last = index
        discount = torch.full(index.shape, self.discount, device=reward.device)
        if self.n_step > 1:
            reward, discount, last = self._n_step(index, reward, discount)
        alive = ~rows["terminated"][task, last]
        return Batch(
            obs=rows["obs"][task, index],
            action=rows["action"][task, index],
            reward=reward,
            discount=discount * alive,
            next_obs=rows["next_obs"][task, last],
            weight=self.weights(drawn),
        )

    def _n_step(self, index: Tensor, reward: Tensor, discount: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Follow each row's slot until n rewards are summed, the episode ends, or the newest row is reached."""
        task, last = self._task_index, index
        newest_distance = (self.written_rows - 1 - index) % self.capacity  # rows written after this one
        going = torch.ones_like(index, dtype=torch.bool)
        for k in range(1, self.n_step):
            going = going & ~self.rows["ended"][task, last] & (newest_distance >= k * self.slots)
            last = torch.where(going, (index + k * self.slots) % self.capacity, last)
            reward = reward + torch.where(going, discount * self.rows["reward"][task, last], 0.0)
            discount = torch.where(going, discount * self.discount, discount)
        return reward, discount, last

    def mean_abs_reward(self) -> Tensor:
        rewards = self.rows["reward"].abs()
        there = torch.arange(self.capacity, device=rewards.device) < self.sizes
        return torch.where(there, rewards, 0.0).sum(1, keepdim=True) / self.sizes.clamp(min=1)

    def layout(self) -> dict[str, Any]:
        return {"capacity": self.capacity, "slots": self.slots, "tasks": self.tasks}

    def records(self) -> list[Records]:
        return [TensorRecords(self.rows)]

    def marks(self) -> Array:
        return self.counts

    def set_marks(self, marks: Array) -> None:
        self.set_written(marks)
