"""Single envs, one per slot, that take their actions from a block of memory and write what happens into it.

The block may be this process's own or shared with the processes in which the envs run (`workers.py`); what a slot
does is the same wherever it runs.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array

RESET, STEP = b"r", b"s"


class Description(NamedTuple):
    """What an env says about itself."""

    observation: gym.spaces.Box  # a row of numbers, or one picture
    action: gym.spaces.Box
    limit: int | None  # steps until it cuts off its episodes
    renders: bool
    state_dim: int = 0  # numbers that tell whether a replayed episode led to the same place
    renderer: str = ""  # what draws, where pictures are observed


class Layout(NamedTuple):
    """What decides the places in a block."""

    slots: int
    obs_shape: tuple[int, ...]
    obs_dtype: str
    action_dim: int
    state_dim: int = 0

    @classmethod
    def of(cls, descriptions: Sequence[Description]) -> Layout:
        """Rows as wide as the widest slot needs; pictures are all of one size."""
        spaces = [d.observation for d in descriptions]
        action_dim = max(d.action.shape[0] for d in descriptions)
        state_dim = max(d.state_dim for d in descriptions)
        if len(spaces[0].shape) > 1:
            return cls(len(spaces), spaces[0].shape, np.dtype(np.uint8).str, action_dim, state_dim)
        dtype = np.result_type(np.float32, *(space.dtype for space in spaces))
        return cls(len(spaces), (max(space.shape[0] for space in spaces),), dtype.str, action_dim, state_dim)

    def fields(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {
            "obs": (self.obs_dtype, (self.slots, *self.obs_shape)),
            "action": ("f8", (self.slots, self.action_dim)),
            "reward": ("f8", (self.slots,)),
            "state": ("f8", (self.slots, self.state_dim)),
            "seed": ("i8", (self.slots,)),  # of the episode to start
            "flags": ("u1", (self.slots, 4)),  # terminated, truncated, success, physics broken
            "draw": ("u1", (self.slots,)),  # whether a picture is needed: not while an episode is replayed
            "wanted": ("u1", (self.slots,)),  # which slots a command is for
            "busy": ("i8", (self.slots,)),  # for each worker, the slot it is at
        }

    def size(self) -> int:
        return sum(_room(dtype, shape) for dtype, shape in self.fields().values())


def _room(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes, in whole cache lines: two processes never write to the same one for different fields."""
    return -(-np.dtype(dtype).itemsize * int(np.prod(shape)) // 64) * 64


@dataclass
class Block:
    obs: Array
    action: Array
    reward: npt.NDArray[np.float64]
    state: npt.NDArray[np.float64]
    seed: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
    draw: npt.NDArray[np.uint8]
    wanted: npt.NDArray[np.uint8]
    busy: npt.NDArray[np.int64]

    @classmethod
    def at(cls, memory: bytearray | mmap.mmap, layout: Layout) -> Block:
        arrays, start = {}, 0
        for name, (dtype, shape) in layout.fields().items():
            flat = np.frombuffer(memory, dtype, int(np.prod(shape)), start)
            arrays[name] = flat.reshape(shape)
            start += _room(dtype, shape)
        return cls(**arrays)


class Slot(Protocol):
    """One env, and its rows of the block."""

    def describe(self) -> Description: ...

    def attach(self, block: Block, row: int) -> None:
        """From now on actions are read from there and results written there."""
        ...

    def reset(self) -> None: ...

    def step(self) -> None: ...

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """A picture; an env that chooses the size itself may do so."""
        ...

    def close(self) -> None: ...


class Recipe(Protocol):
    """How to make a slot, wherever it is to run. It is sent there by value."""

    @property
    def task(self) -> str: ...

    def open(self) -> Slot: ...


class Broken(NamedTuple):
    """A process that had to be started anew: its slots begin from nothing."""

    slots: Array
    at: int  # the slot it was busy with
    why: str


class Slots(Protocol):
    """All slots of an env, wherever they are."""

    descriptions: list[Description]
    block: Block

    def run(self, command: bytes, slots: Array) -> list[Broken]:
        """RESET or STEP some slots with what stands in the block."""
        ...

    def render(self, slot: int, width: int, height: int) -> npt.NDArray[np.uint8] | Broken: ...

    def close(self) -> None: ...


class LocalSlots:
    """In this process, one after another."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._slots = [recipe.open() for recipe in recipes]
        self.descriptions = [slot.describe() for slot in self._slots]
        layout = Layout.of(self.descriptions)
        self.block = Block.at(bytearray(layout.size()), layout)
        for row, slot in enumerate(self._slots):
            slot.attach(self.block, row)

    def run(self, command: bytes, slots: Array) -> list[Broken]:
        for slot in slots:
            if command == RESET:
                self._slots[slot].reset()
            else:
                self._slots[slot].step()
        return []

    def render(self, slot: int, width: int, height: int) -> npt.NDArray[np.uint8] | Broken:
        return self._slots[slot].render(width, height)

    def close(self) -> None:
        for slot in self._slots:
            slot.close()
