"""What workers send of the steps they took: every picture and every row of numbers once, as plain arrays.

A step's next observation is the following step's observation but where an episode ended, and all pictures of a stack
but the newest were in the stack before. So a chunk is its first observation, what was new after each step, and the
first observations of the episodes that began within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.replay.base import Step
from medley.training.collector import Episode

Array = npt.NDArray[Any]
Packed = dict[str, Array]

_WHOLE = ("action", "reward", "terminated", "ended")


def pack(chunk: Sequence[Step], episodes: Sequence[Episode], channels: int | None) -> Packed:
    """`channels` of a stack are one picture; None: observations are not stacks."""
    packed = {name: np.stack([getattr(step, name) for step in chunk]) for name in _WHOLE}
    packed["first"] = chunk[0].obs
    packed["new"] = np.stack([_newest(step.next_obs, channels) for step in chunk])
    later = np.stack([step.obs for step in chunk[1:]]) if len(chunk) > 1 else chunk[0].obs[None][:0]
    packed["begun"] = later[packed["ended"][:-1]]
    packed["episodes"] = np.array([(e.reward, e.length, e.success) for e in episodes], dtype=np.float64).reshape(-1, 3)
    return packed


def unpack(parts: Sequence[Packed], channels: int | None, tasks: Array | None) -> tuple[list[Step], list[Episode]]:
    """The steps and episodes of all parts together, as one collector with all their slots would have given them."""
    joined = {name: np.concatenate([part[name] for part in parts], axis=2) for name in _WHOLE}
    observed = [_observations(part, channels, tasks) for part in parts]
    obs, next_obs = (np.concatenate([pair[i] for pair in observed], axis=2) for i in (0, 1))
    scores = np.concatenate([_scores(part) for part in parts], axis=2)
    ended = joined["ended"]
    chunk = [
        Step(
            obs=obs[i],
            next_obs=next_obs[i],
            active=tasks,
            success=scores[i, ..., 2] > 0 if ended[i].any() else None,
            **{name: values[i] for name, values in joined.items()},
        )
        for i in range(len(ended))
    ]
    found = (
        Episode(int(task), float(reward), int(length), bool(success))
        for (_, task, _), (reward, length, success) in zip(np.argwhere(ended), scores[ended], strict=True)
    )
    return chunk, list(found)


def size(packed: Packed) -> int:
    return sum(values.nbytes for values in packed.values())


def _newest(obs: Array, channels: int | None) -> Array:
    return obs if channels is None else obs[:, :, -channels:]


def _observations(part: Packed, channels: int | None, tasks: Array | None) -> tuple[Array, Array]:
    first, new, ended = part["first"], part["new"], part["ended"]
    obs = np.empty((len(new), *first.shape), dtype=first.dtype)
    next_obs = np.empty_like(obs)
    now, used = first, 0
    for i in range(len(new)):
        obs[i] = now
        if channels is None:
            next_obs[i] = new[i]
        else:
            next_obs[i, :, :, :-channels] = now[:, :, channels:]
            next_obs[i, :, :, -channels:] = new[i]
            if tasks is not None:  # whoever idles sees what it saw
                next_obs[i, ~tasks] = now[~tasks]
        now = next_obs[i].copy()
        if i + 1 < len(new) and ended[i].any():
            count = int(ended[i].sum())
            now[ended[i]] = part["begun"][used : used + count]
            used += count
    return obs, next_obs


def _scores(part: Packed) -> Array:
    """[steps, tasks, slots, 3], zeros where no episode ended."""
    scores = np.zeros((*part["ended"].shape, 3))
    scores[part["ended"]] = part["episodes"]
    return scores
