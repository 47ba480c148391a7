"""A world of pictures without an environment, and a naive replay that keeps whole stacks, to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from medley.agents.api import Batch
from medley.replay.frames import FrameReplay
from medley.replay.ring import Step

Array = npt.NDArray[Any]
GAMMA = 0.9
CHANNELS, IMAGE, ACTIONS = 2, (4, 3), 2


def make(tasks: int = 2, slots: int = 2, capacity: int = 24, stack: int = 3, **changes: Any) -> FrameReplay:
    options: dict[str, Any] = {"horizon": 7, "seed": 0, "discount": GAMMA, "image": IMAGE, **changes}
    return FrameReplay(
        tasks,
        slots,
        capacity,
        frame_channels=CHANNELS,
        frame_stack=stack,
        action_dim=ACTIONS,
        **{"device": torch.device("cpu"), **options},
    )


class World:
    """Slots that live through episodes of random lengths; every picture is new."""

    def __init__(self, tasks: int, slots: int, stack: int, seed: int, longest: int = 7, image: Any = IMAGE) -> None:
        self.shape, self.stack, self.longest, self.image = (tasks, slots), stack, longest, image
        self.rng = np.random.default_rng(seed)
        self.obs = np.zeros((tasks, slots, stack * CHANNELS, *image), dtype=np.uint8)
        self.left = np.zeros(self.shape, dtype=np.int64)
        for at in np.ndindex(self.shape):
            self._reset(at)

    def _picture(self) -> Array:
        return self.rng.integers(0, 256, (CHANNELS, *self.image), dtype=np.uint8)

    def _reset(self, at: tuple[int, ...]) -> None:
        self.obs[at] = np.tile(self._picture(), (self.stack, 1, 1))
        self.left[at] = self.rng.integers(1, self.longest + 1)

    def step(self, active: Array | None = None) -> Step:
        tasks, slots = self.shape
        before, after = self.obs.copy(), self.obs.copy()
        ended, terminated = np.zeros((2, *self.shape), dtype=np.bool_)
        for task, slot in np.ndindex(self.shape):
            if active is not None and not active[task]:
                continue
            after[task, slot] = np.concatenate([before[task, slot, CHANNELS:], self._picture()])
            self.obs[task, slot] = after[task, slot]
            self.left[task, slot] -= 1
            if self.left[task, slot] == 0:
                ended[task, slot], terminated[task, slot] = True, self.rng.random() < 0.5
                self._reset((task, slot))
        action = self.rng.normal(size=(tasks, slots, ACTIONS)).astype(np.float32)
        reward = self.rng.normal(size=(tasks, slots)).astype(np.float32)
        return Step(before, action, reward, after, terminated, ended, active)


@dataclass
class Row:
    """One transition, with whole stacks. `position` and `first`: of its frame and of its stack's oldest one, counted
    over all frames that its lane would ever have stored."""

    obs: Array
    action: Array
    reward: np.float32
    next_obs: Array
    terminated: bool
    ended: bool
    first: int


class Naive:
    """Whole stacks in plain lists; which of them count is decided by looking at each."""

    def __init__(self, tasks: int, slots: int, stack: int, places: int, room: int, n: int, full: bool = False) -> None:
        self.shape, self.stack, self.places, self.room, self.n, self.full = (tasks, slots), stack, places, room, n, full
        self.lanes: dict[tuple[int, ...], list[Row]] = {at: [] for at in np.ndindex(self.shape)}
        self.frames = dict.fromkeys(self.lanes, 0)
        self.age = dict.fromkeys(self.lanes, 0)

    def add(self, step: Step) -> None:
        for at, rows in self.lanes.items():
            if step.active is not None and not step.active[at[0]]:
                continue
            if not rows or rows[-1].ended:
                self.frames[at] += 1
                self.age[at] = 0
            first = self.frames[at] - 1 - min(self.age[at], self.stack - 1)
            flags = bool(step.terminated[at]), bool(step.ended[at])
            rows.append(
                Row(step.obs[at], step.action[at], step.reward[at], step.next_obs[at], *flags, first),
            )
            self.frames[at] += 1
            self.age[at] += 1

    def samples(self, task: int) -> list[tuple[Array, Array, np.float32, np.float32, Array]]:
        """All that can be drawn, lane by lane, the oldest first: (obs, action, return, discount, next obs)."""
        found = []
        for slot in range(self.shape[1]):
            rows = self.lanes[task, slot]
            for i, row in enumerate(rows):
                there = i >= len(rows) - self.room and row.first >= self.frames[task, slot] - self.places
                total, factor, last = np.float32(0), np.float32(GAMMA), row
                steps = 0
                for later in rows[i : i + self.n]:
                    total = later.reward if not steps else np.float32(total + np.float32(factor * later.reward))
                    factor = np.float32(factor * np.float32(GAMMA)) if steps else factor
                    last, steps = later, steps + 1
                    if later.ended:
                        break
                if there and (steps == self.n or not self.full):
                    discount = np.float32(0) if last.terminated else factor
                    found.append((row.obs, row.action, total, discount, last.next_obs))
        return found


def everything(replay: FrameReplay) -> Batch:
    """The batch of every transition that can be drawn, in order; tasks that have fewer repeat their last."""
    wanted = torch.arange(replay.size).expand(replay.tasks, -1)
    wanted = torch.minimum(wanted, (replay.sizes.long() - 1).clamp(min=0))
    return replay.take([(wanted + 0.5) / replay.sizes.clamp(min=1), *[torch.zeros(1)] * (replay.draws - 1)])


def assert_equal(replay: FrameReplay, naive: Naive) -> None:
    """Exactly the same transitions can be drawn, bit for bit."""
    batch = everything(replay) if replay.size else None
    for task in range(replay.tasks):
        expected = naive.samples(task)
        assert int(replay.sizes[task, 0]) == len(expected)
        assert replay.size >= len(expected)
        for i, (obs, action, reward, discount, next_obs) in enumerate(expected):
            assert batch is not None
            np.testing.assert_array_equal(batch.obs[task, i].numpy(), obs)
            np.testing.assert_array_equal(batch.next_obs[task, i].numpy(), next_obs)
            np.testing.assert_array_equal(batch.action[task, i].numpy(), action)
            assert np.float32(batch.reward[task, i].item()) == reward
            assert np.float32(batch.discount[task, i].item()) == discount


def same(one: Batch, two: Batch) -> bool:
    names = ("obs", "action", "reward", "discount", "next_obs", "weight")
    return all(torch.equal(getattr(one, name), getattr(two, name)) for name in names)
