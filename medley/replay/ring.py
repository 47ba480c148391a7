"""Replay: one ring of transitions per task, on the training device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.agents.api import Batch

Array = npt.NDArray[Any]
FIELDS = ("obs", "action", "reward", "next_obs", "terminated", "ended")


@dataclass
class Step:
    """One step of every slot, [tasks, slots, ...]. `ended` is true for a true end and for a time limit alike."""

    obs: Array
    action: Array
    reward: Array
    next_obs: Array
    terminated: Array
    ended: Array
    success: Array | None = None  # of the episodes that ended; not kept in replay


class Replay:
    """Rows of one slot lie `slots` apart in its task's ring, so that n-step returns can follow an episode.

    `written` counts rows ever written per task; row r of that count lives at r % capacity.
    """

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
        self.tasks, self.slots, self.device = tasks, slots, device
        # A whole number of steps, so that a slot's rows keep their distance across the wrap.
        self.capacity = max(1, capacity // slots) * slots
        self.n_step, self.discount, self.uniform = n_step, discount, uniform
        self.written = 0
        self._size = torch.zeros((), dtype=torch.float64, device=device)
        self._written = torch.zeros((), dtype=torch.int64, device=device)
        self.generator = torch.Generator(device).manual_seed(seed)

        def ring(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(tasks, self.capacity, *shape, dtype=dtype, device=device)

        self.rows = {
            "obs": ring(obs_dim),
            "action": ring(action_dim),
            "reward": ring(),
            "next_obs": ring(obs_dim),
            "terminated": ring(dtype=torch.bool),
            "ended": ring(dtype=torch.bool),
        }
        self._task_index = torch.arange(tasks, device=device).unsqueeze(1)
        # The same memory as arrays: NumPy writes a few rows quicker than PyTorch.
        self._arrays = {name: rows.numpy() for name, rows in self.rows.items()} if device.type == "cpu" else None

    @property
    def size(self) -> int:
        """Rows per task that can be sampled."""
        return min(self.written, self.capacity)

    def add(self, step: Step) -> None:
        at = self.written % self.capacity
        if self._arrays is not None:
            for name in FIELDS:
                self._arrays[name][:, at : at + self.slots] = getattr(step, name)
        else:
            self._send(step, at)
        self.set_written(self.written + self.slots)

    def _send(self, step: Step, at: int) -> None:
        """To a GPU: all fields in one transfer that nobody waits for."""
        values = [np.asarray(getattr(step, name), np.float32) for name in FIELDS]
        columns = [value if value.ndim == 3 else value[:, :, None] for value in values]
        sent = torch.from_numpy(np.concatenate(columns, axis=2)).pin_memory().to(self.device, non_blocking=True)
        for name, rows in zip(FIELDS, torch.split(sent, [c.shape[2] for c in columns], dim=2), strict=True):
            ring = self.rows[name]
            ring[:, at : at + self.slots] = rows if ring.ndim == 3 else rows[:, :, 0]

    def set_written(self, written: int) -> None:
        self.written = written
        self._written.fill_(written)
        self._size.fill_(self.size)

    def sample(self, per_task: int) -> Batch:
        """`per_task` rows of every task, each task with indices of its own; nothing is read back from the device.

        With `uniform` a task's share of the batch is random, as when rows are drawn from all tasks together: the
        number of rows that would fall to each task is drawn, and becomes the weight of the rows it has.
        """
        return self.take(self.draw(per_task))

    @property
    def draws(self) -> int:
        """How many tensors of random numbers `draw` gives."""
        return 2 if self.uniform else 1

    def draw(self, per_task: int) -> list[Tensor]:
        """The random numbers of one sample."""
        shape = (self.tasks, per_task)
        places = torch.rand(shape, generator=self.generator, device=self.device, dtype=torch.float64)
        if not self.uniform:
            return [places]
        rows = (self.tasks * per_task,)
        return [places, torch.randint(self.tasks, rows, generator=self.generator, device=self.device)]

    def take(self, drawn: Sequence[Tensor]) -> Batch:
        """The sample that these random numbers choose."""
        index = (drawn[0] * self._size).long()
        rows, task = self.rows, self._task_index
        reward = rows["reward"][task, index]
        last = index
        discount = torch.full_like(reward, self.discount)
        if self.n_step > 1:
            reward, discount, last = self._n_step(index, reward, discount)
        alive = ~rows["terminated"][task, last]
        return Batch(
            obs=rows["obs"][task, index],
            action=rows["action"][task, index],
            reward=reward,
            discount=discount * alive,
            next_obs=rows["next_obs"][task, last],
            weight=self.shares(drawn[1]) if self.uniform else torch.ones_like(reward),
        )

    def shares(self, drawn: Tensor) -> Tensor:
        """[tasks, per_task] weights of mean 1: how often each task was drawn, divided by the expected count."""
        per_task = len(drawn) // self.tasks
        ones = torch.full_like(drawn, 1.0 / per_task, dtype=torch.float32)
        shares = torch.zeros(self.tasks, device=self.device).scatter_add(0, drawn, ones)
        return shares.unsqueeze(1).expand(self.tasks, per_task)

    def _n_step(self, index: Tensor, reward: Tensor, discount: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Follow each row's slot until n rewards are summed, the episode ends, or the newest row is reached."""
        task, last = self._task_index, index
        newest_distance = (self._written - 1 - index) % self.capacity  # rows written after this one
        going = torch.ones_like(index, dtype=torch.bool)
        for k in range(1, self.n_step):
            going = going & ~self.rows["ended"][task, last] & (newest_distance >= k * self.slots)
            last = torch.where(going, (index + k * self.slots) % self.capacity, last)
            reward = reward + torch.where(going, discount * self.rows["reward"][task, last], 0.0)
            discount = torch.where(going, discount * self.discount, discount)
        return reward, discount, last
