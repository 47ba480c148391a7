"""What every kind of replay has in common: counts, random numbers, the shares of tasks, and how it is saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.agents.api import Batch

Array = npt.NDArray[Any]


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
    # Where one world has several intentions: rewards are [1, slots, intentions]; what was wanted; whether that changed.
    intention: Array | None = None
    switched: Array | None = None


class Records(ABC):
    """Records of one kind in several lanes. Record i of a lane is written once, at i % places, and stays as it is
    until another is written there: what a save needs to know."""

    names: tuple[str, ...]
    lanes: int
    places: int
    record_bytes: int

    @abstractmethod
    def read(self, lane: Array, place: Array) -> dict[str, Tensor]:
        """The records at these places, on the CPU."""

    @abstractmethod
    def write(self, lane: Array, place: Array, values: Mapping[str, Tensor]) -> None: ...


class TensorRecords(Records):
    """Fields that are tensors [lanes, places, ...], wherever they are."""

    def __init__(self, fields: Mapping[str, Tensor]) -> None:
        self.fields, self.names = fields, tuple(fields)
        self.lanes, self.places = next(iter(fields.values())).shape[:2]
        self.record_bytes = sum(t[0, 0].numel() * t.element_size() for t in fields.values())

    def read(self, lane: Array, place: Array) -> dict[str, Tensor]:
        at = torch.from_numpy(lane), torch.from_numpy(place)
        return {name: t[at[0].to(t.device), at[1].to(t.device)].cpu() for name, t in self.fields.items()}

    def write(self, lane: Array, place: Array, values: Mapping[str, Tensor]) -> None:
        at = torch.from_numpy(lane), torch.from_numpy(place)
        for name, t in self.fields.items():
            t[at[0].to(t.device), at[1].to(t.device)] = values[name].to(t.device)


class ReplayBase(ABC):
    """`counts` are transitions ever written, per task, and `sizes` [tasks, 1] (on the device) how many of them can be
    drawn. `share` [tasks, 1] is how much each task counts in a batch, 1 on average. `capacity` is per task."""

    traceable = True  # whether `take` consists of operations on the device that a graph can hold

    def __init__(
        self,
        tasks: int,
        slots: int,
        capacity: int,
        device: torch.device,
        seed: int,
        n_step: int = 1,
        discount: float = 0.99,
        uniform: bool = False,
    ) -> None:
        self.tasks, self.slots, self.device = tasks, slots, device
        # A whole number of steps, so that all slots of a task have the same room.
        self.capacity = max(1, capacity // slots) * slots
        self.n_step, self.discount, self.uniform = n_step, discount, uniform
        self.counts = np.zeros(tasks, dtype=np.int64)
        self.sizes = torch.zeros(tasks, 1, dtype=torch.float64, device=device)
        self.share = torch.ones(tasks, 1, device=device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self._task_index = torch.arange(tasks, device=device).unsqueeze(1)

    @property
    def written(self) -> int:
        """Transitions ever written for the task that has most."""
        return int(self.counts.max())

    @property
    @abstractmethod
    def size(self) -> int:
        """Transitions that can be drawn, of the task that has most."""

    @abstractmethod
    def add(self, step: Step) -> None: ...

    def sample(self, per_task: int) -> Batch:
        """`per_task` transitions of every task, each task with indices of its own.

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

    @abstractmethod
    def take(self, drawn: Sequence[Tensor]) -> Batch:
        """The sample that these random numbers choose; where it is `traceable`, nothing is read back."""

    def weights(self, drawn: Sequence[Tensor]) -> Tensor:
        """[tasks, per_task], 1 on average: the share of each task, and with `uniform` how often it was drawn, divided
        by the expected count."""
        per_task = drawn[0].shape[1]
        if not self.uniform:
            return self.share.expand(self.tasks, per_task)
        ones = torch.full_like(drawn[1], 1.0 / per_task, dtype=torch.float32)
        counts = torch.zeros(self.tasks, device=self.device).scatter_add(0, drawn[1], ones)
        return (counts.unsqueeze(1) * self.share).expand(self.tasks, per_task)

    @abstractmethod
    def mean_abs_reward(self) -> Tensor:
        """The mean size of the rewards that are there, [tasks, 1]; 0 where there are none."""

    # ---- what a save needs

    @abstractmethod
    def layout(self) -> dict[str, Any]:
        """What a saved replay must have in common with this one, as plain JSON."""

    @abstractmethod
    def records(self) -> list[Records]:
        """Everything that is kept."""

    @abstractmethod
    def marks(self) -> Array:
        """How many records have ever been written, for every lane of all `records`."""

    @abstractmethod
    def set_marks(self, marks: Array) -> None:
        """So many have been written, and those that are left are there: the rest of the state follows from them."""
