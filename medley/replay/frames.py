"""Replay of pictures: every frame is stored once, and stacks are put together when they are sampled.

Each slot of a task has a lane of its own: a ring of frames, and a ring of the transitions between them. An episode of
T transitions takes T + 1 frames; the last is only ever looked at. A transition knows the place of its frame and how
many frames of its episode lie before it (its age), which is all a stack needs: where the episode is younger than the
stack, its first frame is repeated, as at a reset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from medley.agents.api import Batch
from medley.replay.base import Array, Records, ReplayBase, Step, TensorRecords
from medley.replay.frame_stores import FrameStore, make_store

NSTEP_MODES = ("shorter", "full")


class FrameReplay(ReplayBase):
    """Observations are stacks [frame_channels * frame_stack, height, width] of uint8, the oldest frame first.

    A transition can be drawn as long as every frame of its stack is there (of the next stack then too). In a lane
    these are the transitions from `low` to `high`, two counts that only grow. With nstep_mode="full" transitions that
    n rewards do not follow in their episode are never drawn; else their sums are shorter.
    """

    def __init__(
        self,
        tasks: int,
        slots: int,
        capacity: int,
        frame_channels: int,
        image: tuple[int, int],
        frame_stack: int,
        horizon: int,
        action_dim: int,
        device: torch.device,
        seed: int,
        n_step: int = 1,
        discount: float = 0.99,
        uniform: bool = False,
        nstep_mode: str = "shorter",
        frames: str = "memory",
        folder: Path | None = None,
    ) -> None:
        super().__init__(tasks, slots, capacity, device, seed, n_step, discount, uniform)
        self.shape, self.frame_stack = (frame_channels, *image), frame_stack
        self.lanes, self.room = tasks * slots, self.capacity // slots  # transitions in a lane
        # One frame more for every episode, and those before the oldest transition that its stack needs.
        self.places = self.room + -(-self.room // horizon) + frame_stack + 1
        self.store: FrameStore = make_store(frames, self.lanes * self.places, self.shape, device, folder)
        self.traceable = self.store.traceable
        self.full = nstep_mode == "full" and n_step > 1

        def ring(*shape: int, dtype: torch.dtype = torch.float32, where: torch.device = device) -> Tensor:
            return torch.zeros(self.lanes, self.room, *shape, dtype=dtype, device=where)

        self.rows = {
            "action": ring(action_dim),
            "reward": ring(),
            "terminated": ring(dtype=torch.bool),
            "ended": ring(dtype=torch.bool),
            "place": ring(dtype=torch.int32),
            "age": ring(dtype=torch.int32),
        }
        if self.full:  # the transitions that may be drawn, in a ring of their own
            self.rows["start"] = ring(dtype=torch.int32)
        self._arrays = {name: rows.numpy() for name, rows in self.rows.items()} if device.type == "cpu" else None
        # The host's own copy of what it decides by; positions count all frames ever written to a lane.
        host = torch.device("cpu")
        self._position = ring(dtype=torch.int64, where=host)
        self._age = self.rows["age"] if device.type == "cpu" else ring(dtype=torch.int32, where=host)
        self._numbers = np.zeros((self.lanes, self.room), dtype=np.int64) if self.full else None
        self._low, self._high, self._start_low, self._start_high, self._frames = np.zeros((5, self.lanes), np.int64)
        self._next_age = np.zeros(self.lanes, dtype=np.int32)  # of the newest frame
        self._begins = np.ones(self.lanes, dtype=np.bool_)  # the next step is the first of an episode
        # Per slot: what turns an index among the task's transitions into a count of the lane; up to which index it is
        # this lane's; transitions written; transitions there.
        self._bounds = torch.zeros(4, tasks, slots, dtype=torch.int64, device=device)
        self._sizes = np.zeros(tasks, dtype=np.int64)
        self._back = torch.arange(frame_stack - 1, -1, -1, device=device)
        self._every_lane = np.arange(self.lanes)

    @property
    def size(self) -> int:
        return int(self._sizes.max())

    @property
    def nbytes(self) -> int:
        """Bytes of memory it takes, on the device and on the host."""
        tensors = {t.data_ptr(): t for t in (*self.rows.values(), self._position, self._age)}
        numbers = 0 if self._numbers is None else self._numbers.nbytes
        return self.store.nbytes + numbers + sum(t.numel() * t.element_size() for t in tensors.values())

    # ---- writing

    def add(self, step: Step) -> None:
        lanes = self._every_lane
        if step.active is not None and not np.all(step.active):
            lanes = lanes[np.repeat(np.asarray(step.active, dtype=np.bool_), self.slots)]

        def own(values: Array) -> Array:
            return values.reshape(self.lanes, *values.shape[2:])[lanes if len(lanes) < self.lanes else slice(None)]

        self._begin(lanes, own(step.obs))
        position, age, ended = self._frames[lanes] - 1, self._next_age[lanes], own(step.ended)
        at = lanes, self._high[lanes] % self.room
        self._position.numpy()[at], self._age.numpy()[at] = position, age
        values = {name: own(getattr(step, name)) for name in ("action", "reward", "terminated", "ended")}
        self._write(*at, {**values, "place": position % self.places, "age": age})
        self._append(lanes, own(step.next_obs)[:, -self.shape[0] :])
        self._next_age[lanes] = age + 1
        self._begins[lanes] = ended
        self._high[lanes] += 1
        if self.full:
            self._add_starts(lanes[age >= self.n_step - 1])
        self._forget()
        self._settle()

    def _begin(self, lanes: Array, obs: Array) -> None:
        """First frames of episodes. One that replay did not see begin, since it was not saved, comes with its stack."""
        for i in np.flatnonzero(self._begins[lanes]):
            stack = obs[i].reshape(self.frame_stack, *self.shape)
            unseen = self._frames[lanes[i]] == 0 and bool((stack != stack[-1]).any())
            self._next_age[lanes[i]] = self.frame_stack - 1 if unseen else 0
            for frame in stack if unseen else stack[-1:]:
                self._append(lanes[i : i + 1], frame[None])

    def _append(self, lanes: Array, frames: Array) -> None:
        self.store.write(lanes * self.places + self._frames[lanes] % self.places, frames)
        self._frames[lanes] += 1

    def _write(self, lanes: Array, rows: Array, values: Mapping[str, Array]) -> None:
        if self._arrays is not None:
            for name, value in values.items():
                self._arrays[name][lanes, rows] = value
            return
        if not len(lanes):
            return
        # To a GPU: all fields in one transfer that nobody waits for. Doubles hold every one of them exactly.
        columns = [np.asarray(v, np.float64).reshape(len(lanes), -1) for v in (lanes, rows, *values.values())]
        sent = torch.from_numpy(np.concatenate(columns, axis=1)).pin_memory().to(self.device, non_blocking=True)
        lane, row, *parts = torch.split(sent, [c.shape[1] for c in columns], dim=1)
        for name, part in zip(values, parts, strict=True):
            ring = self.rows[name]
            ring[lane[:, 0].long(), row[:, 0].long()] = (part if ring.ndim == 3 else part[:, 0]).to(ring.dtype)

    def _add_starts(self, lanes: Array) -> None:
        """The newest transition is the n-th of a sum: that sum can be drawn from now on. (Where replay did not see the
        episode begin, it may have begun before the first transition: `_forget` leaves that out.)"""
        assert self._numbers is not None
        number, at = self._high[lanes] - self.n_step, (lanes, self._start_high[lanes] % self.room)
        self._numbers[at] = number
        self._write(*at, {"start": number % self.room})
        self._start_high[lanes] += 1

    def _forget(self) -> None:
        """Leave out transitions that have been overwritten, or a frame of whose stack has."""
        lanes, low, high = self._every_lane, self._low, self._high
        np.maximum(low, high - self.room, out=low)
        while True:  # once or twice, since few frames are new
            at = lanes, low % self.room
            first = self._position.numpy()[at] - np.minimum(self._age.numpy()[at], self.frame_stack - 1)
            stale = (first < self._frames - self.places) & (low < high)
            if not stale.any():
                break
            low += stale
        if self._numbers is not None:
            while True:
                number = self._numbers[lanes, self._start_low % self.room]
                stale = (number < low) & (self._start_low < self._start_high)
                if not stale.any():
                    break
                self._start_low += stale

    def _settle(self) -> None:
        """Tell the device what can be drawn."""
        shape = self.tasks, self.slots
        low, high = (self._start_low, self._start_high) if self.full else (self._low, self._high)
        count = (high - low).reshape(shape)
        until = count.cumsum(1)
        written, there = self._high.reshape(shape), (self._high - self._low).reshape(shape)
        bounds = torch.from_numpy(np.stack([low.reshape(shape) - (until - count), until, written, there]))
        self._bounds.copy_(bounds if self.device.type == "cpu" else bounds.pin_memory(), non_blocking=True)
        self.sizes.copy_(self._bounds[1, :, -1:])
        self._sizes, self.counts[:] = until[:, -1], written.sum(1)

    # ---- sampling

    def take(self, drawn: Sequence[Tensor]) -> Batch:
        shift, until, written = self._bounds[0], self._bounds[1], self._bounds[2]
        index = (drawn[0] * self.sizes).long()
        slot = (index.unsqueeze(2) >= until.unsqueeze(1)).sum(2).clamp(max=self.slots - 1)
        lane = self._task_index * self.slots + slot
        row = (index + shift.gather(1, slot)) % self.room
        if self.full:
            row = self.rows["start"][lane, row].long()
        newer = (written.gather(1, slot) - 1 - row) % self.room  # transitions of the lane after this one
        reward, discount, last, steps = self._n_step(lane, row, newer)
        place, age = self.rows["place"][lane, row].long(), self.rows["age"][lane, row].long()
        stacks = torch.stack([self._stack(place, age), self._stack(place + steps, age + steps)])
        frames = self.store.gather(stacks + (lane * self.places).unsqueeze(2))
        frames = frames.flatten(3, 4)
        alive = ~self.rows["terminated"][lane, last]
        action = self.rows["action"][lane, row]
        return Batch(frames[0], action, reward, discount * alive, frames[1], self.weights(drawn))

    def _stack(self, place: Tensor, age: Tensor) -> Tensor:
        return (place.unsqueeze(2) - torch.minimum(self._back, age.unsqueeze(2))) % self.places

    def _n_step(self, lane: Tensor, row: Tensor, newer: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(sum of rewards, discount, last transition, transitions) until n, the episode's end or the newest."""
        last, steps = row, torch.ones_like(row)
        reward = self.rows["reward"][lane, row]
        discount = torch.full_like(reward, self.discount)
        going = torch.ones_like(row, dtype=torch.bool)
        for k in range(1, self.n_step):
            going = going & ~self.rows["ended"][lane, last] & (newer >= k)
            last = torch.where(going, (row + k) % self.room, last)
            reward = reward + torch.where(going, discount * self.rows["reward"][lane, last], 0.0)
            discount = torch.where(going, discount * self.discount, discount)
            steps = steps + going
        return reward, discount, last, steps

    def mean_abs_reward(self) -> Tensor:
        written, there = self._bounds[2].reshape(-1, 1), self._bounds[3].reshape(-1, 1)
        age = (written - 1 - torch.arange(self.room, device=self.device)) % self.room
        sums = torch.where(age < there, self.rows["reward"].abs(), 0.0).sum(1).view(self.tasks, self.slots)
        return sums.sum(1, keepdim=True) / self._bounds[3].sum(1, keepdim=True).clamp(min=1)

    # ---- saving

    def layout(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "slots": self.slots,
            "capacity": self.capacity,
            "frame": list(self.shape),
            "frame_stack": self.frame_stack,
            "frames_per_slot": self.places,
        }

    def records(self) -> list[Records]:
        kept = {name: self.rows[name] for name in ("action", "reward", "terminated", "ended")}
        return [TensorRecords({**kept, "position": self._position, "age": self._age}), FrameRecords(self)]

    def marks(self) -> Array:
        return np.concatenate([self._high, self._frames])

    def set_marks(self, marks: Array) -> None:
        self._high[:], self._frames[:] = np.split(marks, 2)
        newest = self._every_lane, (self._high - 1) % self.room
        begun = self._high > 0
        ended = self.rows["ended"].cpu().numpy()[newest]
        self._begins[:] = ~begun | ended
        self._next_age[:] = np.where(begun, self._age.numpy()[newest] + 1, 0)
        self.rows["place"].copy_(self._position % self.places)
        self.rows["age"].copy_(self._age)
        self._low[:] = 0
        if self.full:
            self._find_starts()
        self._forget()
        self._settle()

    def _find_starts(self) -> None:
        """The ring of starts, from the ages of the transitions that are there."""
        assert self._numbers is not None
        self._start_low[:] = self._start_high[:] = 0
        for lane, high in enumerate(self._high.tolist()):
            number = np.arange(max(0, high - self.room), high)
            found = number[self._age.numpy()[lane, number % self.room] >= self.n_step - 1] - (self.n_step - 1)
            self._numbers[lane, : len(found)], self._start_high[lane] = found, len(found)
        self.rows["start"].copy_(torch.from_numpy(self._numbers % self.room))


class FrameRecords(Records):
    """The frames of a replay, for its saves."""

    names = ("frame",)

    def __init__(self, replay: FrameReplay) -> None:
        self.lanes, self.places, self._store = replay.lanes, replay.places, replay.store
        self.record_bytes = self._store.frame_bytes

    def read(self, lane: Array, place: Array) -> dict[str, Tensor]:
        return {"frame": torch.from_numpy(self._store.read(lane * self.places + place))}

    def write(self, lane: Array, place: Array, values: Mapping[str, Tensor]) -> None:
        self._store.write(lane * self.places + place, values["frame"].numpy())
