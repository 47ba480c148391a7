"""Gymnasium envs, one per slot, that take their actions from a block of memory and write what happens into it.

The block may be this process's own or shared with the processes in which the envs run (`workers.py`); what a slot
does is here, once, so that it is the same wherever it runs.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from medley.envs.api import Array
from medley.envs.gym_ids import Recipe, seeded
from medley.errors import MedleyError

RESET, STEP = b"r", b"s"


class Description(NamedTuple):
    """What an env says about itself."""

    observation: gym.spaces.Box
    action: gym.spaces.Box
    limit: int | None  # steps until it cuts off its episodes
    renders: bool


class Layout(NamedTuple):
    """What decides the places in a block."""

    slots: int
    obs_dim: int
    obs_dtype: str
    action_dim: int

    @classmethod
    def of(cls, descriptions: Sequence[Description]) -> Layout:
        """Rows as wide as the widest slot needs."""
        dtype = np.result_type(np.float32, *(d.observation.dtype for d in descriptions))
        obs_dim = max(d.observation.shape[0] for d in descriptions)
        action_dim = max(d.action.shape[0] for d in descriptions)
        return cls(len(descriptions), obs_dim, dtype.str, action_dim)

    def fields(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {
            "obs": (self.obs_dtype, (self.slots, self.obs_dim)),
            "action": ("f8", (self.slots, self.action_dim)),
            "reward": ("f8", (self.slots,)),
            "seed": ("i8", (self.slots,)),  # of the episode to start
            "flags": ("u1", (self.slots, 3)),  # terminated, truncated, success
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
    seed: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
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


class Slot:
    """One env, and its rows of the block."""

    def __init__(self, recipe: Recipe) -> None:
        self.env = recipe.make()
        self._dtype = self.env.action_space.dtype

    def describe(self) -> Description:
        obs, action = self.env.observation_space, self.env.action_space
        assert isinstance(obs, gym.spaces.Box)
        assert isinstance(action, gym.spaces.Box)
        limit = self.env.spec.max_episode_steps if self.env.spec else None
        return Description(obs, action, limit, self.env.render_mode == "rgb_array")

    def attach(self, block: Block, row: int) -> None:
        shape = self.describe()
        self._seed = block.seed[row : row + 1]
        self._obs = block.obs[row, : shape.observation.shape[0]]
        self._action = block.action[row, : shape.action.shape[0]]
        self._reward, self._flags = block.reward[row : row + 1], block.flags[row]

    def reset(self) -> None:
        seed = int(self._seed[0])
        with seeded(seed):
            # Some envs ignore the seed of `reset`, and some wrappers draw from this generator before the env is reset.
            self.env.unwrapped.np_random = seeding.np_random(seed)[0]
            self._obs[:] = self.env.reset(seed=seed)[0]

    def step(self) -> None:
        flags = self._flags
        obs, self._reward[0], flags[0], flags[1], info = self.env.step(self._action.astype(self._dtype))
        self._obs[:] = obs
        flags[2] = bool(info.get("success", info.get("is_success", False)))

    def render(self) -> npt.NDArray[np.uint8]:
        try:
            return np.asarray(self.env.render(), dtype=np.uint8)
        except gym.error.Error as error:  # a package that draws is missing
            raise MedleyError(str(error)) from error


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

    def render(self, slot: int) -> npt.NDArray[np.uint8] | Broken: ...

    def close(self) -> None: ...


class LocalSlots:
    """In this process, one after another."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._slots = [Slot(recipe) for recipe in recipes]
        self.descriptions = [slot.describe() for slot in self._slots]
        layout = Layout.of(self.descriptions)
        self.block = Block.at(bytearray(layout.size()), layout)
        for row, slot in enumerate(self._slots):
            slot.attach(self.block, row)

    def run(self, command: bytes, slots: Array) -> list[Broken]:
        do = Slot.reset if command == RESET else Slot.step
        for slot in slots:
            do(self._slots[slot])
        return []

    def render(self, slot: int) -> npt.NDArray[np.uint8] | Broken:
        return self._slots[slot].render()

    def close(self) -> None:
        for slot in self._slots:
            slot.env.close()
