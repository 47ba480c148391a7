"""Any Gymnasium envs as tasks, if their observations are flat and their actions continuous.

Narrower tasks are padded with zeros to the widest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array, stream_seed
from medley.envs.gym_ids import GymConfig, gym_tasks, recipes
from medley.envs.replayed import ReplayedEnv, open_slots
from medley.envs.slots import Description, Layout

_NO_LIMIT = 2**31 - 1


class GymEnv(ReplayedEnv):
    """One Gymnasium env per slot: stepped one after another, or in `workers` processes."""

    def __init__(
        self,
        ids: Sequence[Any],
        slots_per_task: int = 1,
        horizon: int | None = None,
        seed: int = 0,
        terminate_on_success: bool = False,
        kwargs: dict[str, Any] | None = None,
        workers: int = 0,
        worker_timeout: float = 60.0,
        make_seed: int | None = None,
    ) -> None:
        """`make_seed` decides what an env draws once, when it is made, such as the goals it will ever have."""
        tasks = recipes(ids, kwargs or {}, horizon, seed if make_seed is None else make_seed)
        slots = open_slots([task for task in tasks for _ in range(slots_per_task)], workers, worker_timeout)
        super().__init__(
            slots,
            [task.task for task in tasks],
            slots_per_task,
            _padded_space(slots.descriptions),
            # Each env's own time limit cuts its episodes; this one must never come earlier.
            max(d.limit or _NO_LIMIT for d in slots.descriptions),
            seed,
            terminate_on_success,
        )

    def _observed(self, slots: Array, first: bool = False) -> Array:
        return self.slots.block.obs[slots]

    def _arrived(self, slots: Array) -> Array:
        obs, before = self.slots.block.obs[slots], self._obs[slots]
        same: Array = ((obs == before) | (np.isnan(obs) & np.isnan(before))).all(axis=1)
        return same

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        if not self.slots.descriptions[slot].renders:
            raise NotImplementedError(f"{self.tasks[self.task_ids[slot]]} cannot be rendered as a picture")
        picture = self._picture(slot, width, height)
        # Gymnasium's envs choose their own size: take the nearest pixels.
        rows = np.arange(height) * picture.shape[0] // height
        columns = np.arange(width) * picture.shape[1] // width
        resized: npt.NDArray[np.uint8] = picture[rows[:, None], columns[None, :]]
        return resized


def _padded_space(described: Sequence[Description]) -> gym.spaces.Box:
    """The smallest box around all tasks' observations; padding is zero."""
    layout = Layout.of(described)
    low, high = np.zeros((2, layout.slots, *layout.obs_shape))
    for row, d in enumerate(described):
        low[row, : d.observation.low.size], high[row, : d.observation.high.size] = d.observation.low, d.observation.high
    dtype = np.dtype(layout.obs_dtype)
    return gym.spaces.Box(low.min(axis=0).astype(dtype), high.max(axis=0).astype(dtype), dtype=dtype.type)


def build_gym(cfg: GymConfig, slots_per_task: int, seed: int, evaluation: bool) -> GymEnv:
    gym_tasks(cfg)
    return GymEnv(
        cfg.ids,
        slots_per_task,
        cfg.horizon,
        stream_seed(seed, evaluation),
        cfg.terminate_on_success,
        dict(cfg.kwargs),
        cfg.workers,
        cfg.worker_timeout,
        make_seed=seed,
    )
