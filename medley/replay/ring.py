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
    """One step of every slot, [tasks, slots, ...]. `ended` is true for a true end and for a time limit alike.

    `active` [tasks] says which tasks took it; None: all of them. The rows of the others mean nothing.
    """

    obs: Array
    action: Array
    reward: Array
    next_obs: Array
    terminated: Array
    ended: Array
    active: Array | None = None
    success: Array | None = None  # of the episodes that ended in it; not kept in replay


class Replay:
    """Rows of one slot lie `slots` apart in its task's ring, so that n-step returns can follow an episode.

    `counts` are rows ever written, per task; row r of that count lives at r % capacity. `share` [tasks, 1] is how much
    each task counts in a batch, 1 on average.
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
        self.counts = np.zeros(tasks, dtype=np.int64)
        self.sizes = torch.zeros(tasks, 1, dtype=torch.float64, device=device)
        self.written_rows = torch.zeros(tasks, 1, dtype=torch.int64, device=device)  # the counts, on the device
        self.share = torch.ones(tasks, 1, device=device)
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
    def written(self) -> int:
        """Rows ever written for the task that has most."""
        return int(self.counts.max())

    @property
    def size(self) -> int:
        """Rows that can be sampled, of the task that has most."""
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
            for name in FIELDS:
                self._arrays[name][tasks, at : at + self.slots] = getattr(step, name)[tasks]
            return
        # To a GPU: all fields in one transfer that nobody waits for.
        values = [np.asarray(getattr(step, name)[tasks], np.float32) for name in FIELDS]
        columns = [value if value.ndim == 3 else value[:, :, None] for value in values]
        sent = torch.from_numpy(np.concatenate(columns, axis=2)).pin_memory().to(self.device, non_blocking=True)
        for name, rows in zip(FIELDS, torch.split(sent, [c.shape[2] for c in columns], dim=2), strict=True):
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
        index = (drawn[0] * self.sizes).long()
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
            weight=self.weights(drawn),
        )

    def weights(self, drawn: Sequence[Tensor]) -> Tensor:
        """[tasks, per_task], 1 on average: the share of each task, and with `uniform` how often it was drawn, divided
        by the expected count."""
        per_task = drawn[0].shape[1]
        if not self.uniform:
            return self.share.expand(self.tasks, per_task)
        ones = torch.full_like(drawn[1], 1.0 / per_task, dtype=torch.float32)
        counts = torch.zeros(self.tasks, device=self.device).scatter_add(0, drawn[1], ones)
        return (counts.unsqueeze(1) * self.share).expand(self.tasks, per_task)

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
