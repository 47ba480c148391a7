"""What workers send is what they did, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from medley.replay.base import Step
from medley.scale.wire import pack, size, unpack
from medley.training.collector import Episode

TASKS, SLOTS, STEPS = 2, 4, 9


def _world(shape: tuple[int, ...], channels: int | None, tasks: Any, seed: int) -> tuple[list[Step], list[Episode]]:
    """Random steps of all slots as a collector gives them: stacks that move on by a picture, episodes of any length."""
    rng = np.random.default_rng(seed)

    def fresh(count: int) -> Any:
        if channels is None:
            return rng.normal(size=(count, *shape)).astype(np.float32)
        one = rng.integers(0, 256, (count, channels, *shape[1:]), dtype=np.uint8)
        return np.concatenate([one] * (shape[0] // channels), axis=1)

    now = fresh(TASKS * SLOTS).reshape(TASKS, SLOTS, *shape)
    active = np.ones(TASKS, dtype=np.bool_) if tasks is None else tasks
    chunk, episodes = [], []
    for _ in range(STEPS):
        new = fresh(TASKS * SLOTS).reshape(TASKS, SLOTS, *shape)
        after = new if channels is None else np.concatenate([now[:, :, channels:], new[:, :, :channels]], axis=2)
        after[~active] = now[~active]
        ended = (rng.random((TASKS, SLOTS)) < 0.3) & active[:, None]
        success = (rng.random((TASKS, SLOTS)) < 0.5) & ended
        rewards = rng.normal(size=(TASKS, SLOTS)).astype(np.float32)
        chunk.append(
            Step(
                obs=now,
                action=rng.normal(size=(TASKS, SLOTS, 3)).astype(np.float32),
                reward=rewards,
                next_obs=after,
                terminated=ended & (rng.random((TASKS, SLOTS)) < 0.5),
                ended=ended,
                active=tasks,
                success=success if ended.any() else None,
            )
        )
        for task, slot in np.argwhere(ended):
            length = int(rng.integers(1, 99))
            episodes.append(Episode(int(task), float(rewards[task, slot]), length, bool(success[task, slot])))
        now = after.copy()
        now[ended] = fresh(int(ended.sum()))
    return chunk, episodes


def _part(chunk: list[Step], episodes: list[Episode], mine: slice) -> tuple[list[Step], list[Episode]]:
    """What a worker with these slots would have given."""
    kept, at = [], 0
    for step in chunk:
        for _, slot in np.argwhere(step.ended):
            if mine.start <= slot < mine.stop:
                kept.append(episodes[at])
            at += 1
    names = ("obs", "action", "reward", "next_obs", "terminated", "ended")
    own = [Step(**{n: getattr(s, n)[:, mine] for n in names}, active=s.active) for s in chunk]
    for step, whole in zip(own, chunk, strict=True):
        step.success = whole.success[:, mine] if whole.success is not None and step.ended.any() else None
    return own, kept


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tasks", [None, np.array([True, False])])
@pytest.mark.parametrize(("shape", "channels"), [((5,), None), ((9, 4, 4), 3)])
def test_back_and_forth(shape: tuple[int, ...], channels: int | None, tasks: Any, seed: int) -> None:
    chunk, episodes = _world(shape, channels, tasks, seed)
    parts = [_part(chunk, episodes, slice(first, first + 2)) for first in (0, 2)]
    packed = [pack(*part, channels) for part in parts]
    got, ended = unpack(packed, channels, tasks)
    assert ended == episodes
    for mine, true in zip(got, chunk, strict=True):
        for name in ("obs", "action", "reward", "next_obs", "terminated", "ended", "success"):
            a, b = getattr(mine, name), getattr(true, name)
            assert (a is None) == (b is None), name
            if a is not None:
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b, name)
        assert mine.active is true.active


def test_every_picture_is_sent_once() -> None:
    """A stack of three and its successor are six pictures, of which one is new in every step."""
    chunk, episodes = _world((9, 16, 16), 3, None, 0)
    sent = size(pack(chunk, episodes, 3))
    assert sent < 0.4 * sum(step.obs.nbytes + step.next_obs.nbytes for step in chunk)
