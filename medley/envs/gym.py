"""Any Gymnasium envs as tasks, if their observations are flat and their actions continuous.

Narrower tasks are padded with zeros to the widest. These envs cannot give their state, so a restart resets with the
episode's seed, replays its actions and checks that this leads to the same observation and return exactly. A worker
process that died or hung is replaced in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array, MultiTaskEnv, StepResult, stream_seed
from medley.envs.gym_ids import GymConfig, Recipe, gym_tasks, recipes
from medley.envs.slots import RESET, STEP, Broken, Description, Layout, LocalSlots, Slots
from medley.errors import DamagedError, MedleyError

_NO_LIMIT = 2**31 - 1
_ATTEMPTS = 3


class GymEnv(MultiTaskEnv):
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
        self.slots = _slots([task for task in tasks for _ in range(slots_per_task)], workers, worker_timeout)
        described = self.slots.descriptions
        action_dim = max(d.action.shape[0] for d in described)
        super().__init__(
            [task.task for task in tasks],
            slots_per_task,
            _padded_space(described),
            gym.spaces.Box(-1.0, 1.0, (action_dim,), np.float32),
            # Each env's own time limit cuts its episodes; this one must never come earlier.
            max(d.limit or _NO_LIMIT for d in described),
            seed,
            terminate_on_success,
        )
        self._low, self._range = np.zeros((2, self.num_envs, action_dim))
        for slot, d in enumerate(described):
            width = d.action.low.size
            self._low[slot, :width], self._range[slot, :width] = d.action.low, d.action.high - d.action.low
            self.action_mask[self.task_ids[slot]] = np.arange(action_dim) < width
        self._reset_seeds = np.zeros(self.num_envs, dtype=np.int64)
        self._length = np.zeros(self.num_envs, dtype=np.int64)  # actions taken in this episode
        self._actions = np.zeros((self.num_envs, 64, action_dim))  # grows with the longest episode
        self._lost = np.zeros(self.num_envs, dtype=np.bool_)  # a replay led elsewhere: the episode is over

    # ---- what MultiTaskEnv asks for

    def _reset_slots(self, slots: Array) -> Array:
        self._reset_seeds[slots] = [self.episode_rng(slot).integers(2**31) for slot in slots]
        self._length[slots] = 0
        self._lost[slots] = False
        self._run(RESET, slots)
        return self.slots.block.obs[slots]

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        block = self.slots.block
        share = (np.clip(actions.astype(np.float64), -1.0, 1.0) + 1.0) / 2.0
        taken = self._low[slots] + share * self._range[slots]
        self._run(STEP, slots, taken)
        if int(self._length.max()) == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[slots, self._length[slots]] = taken
        self._length[slots] += 1
        obs, reward, flags = block.obs[slots], block.reward[slots], block.flags[slots].astype(np.bool_)
        if (lost := self._lost[slots]).any():
            obs[lost], reward[lost], flags[lost] = self._obs[slots[lost]], 0.0, (False, True, False)
            np.add.at(self.lost_episodes, self.task_ids[slots[lost]], 1)
        terminated, truncated, success = flags.T.copy()
        return StepResult(obs, reward, terminated, success, {}, truncated)

    def _dynamics_state(self) -> dict[str, Array]:
        actions = self._actions[:, : int(self._length.max())].copy()
        actions[np.arange(actions.shape[1]) >= self._length[:, None]] = 0.0  # left over from earlier episodes
        return {"reset_seed": self._reset_seeds.copy(), "length": self._length.copy(), "actions": actions}

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        self._reset_seeds = state["reset_seed"].astype(np.int64)
        self._length = state["length"].astype(np.int64)
        self._actions = np.concatenate([state["actions"], np.zeros_like(self._actions[:, :64])], axis=1)
        self._lost[:] = False
        for slot in self._replay(self._every_slot):
            raise DamagedError(
                f"replaying the {self._length[slot]} actions of slot {slot} ({self.tasks[self.task_ids[slot]]}) did "
                "not lead to the saved observation and return: this env is not decided by its reset seed and actions, "
                "or its version has changed, so the run cannot be continued exactly"
            )

    # ---- processes that die

    def _run(self, command: bytes, slots: Array, actions: Array | None = None) -> None:
        """RESET or STEP, whatever happens to the processes that do it."""
        for _ in range(_ATTEMPTS):
            going = ~self._lost[slots]
            self.slots.block.seed[slots] = self._reset_seeds[slots]
            if actions is not None:
                self.slots.block.action[slots] = actions
            broken = self._counted(self.slots.run(command, slots[going]))
            if not broken:
                return
            # A fresh process knows nothing: take its slots to where they were, and ask again for what it owes.
            blank = np.concatenate([b.slots for b in broken])
            begun = blank[self._episode[blank] >= 0]
            self._lost[self._replay(np.setdiff1d(begun, slots) if command == RESET else begun)] = True
            again = going & np.isin(slots, blank)
            slots, actions = slots[again], None if actions is None else actions[again]
        raise self._hopeless(broken[0])

    def _replay(self, slots: Array) -> Array:
        """Begin the episodes of `slots` anew and take the actions they have had; returns those that ended elsewhere."""
        block = self.slots.block
        for _ in range(_ATTEMPTS):
            returns = np.zeros(self.num_envs)
            block.seed[slots] = self._reset_seeds[slots]
            broken = self._counted(self.slots.run(RESET, slots))
            for k in range(int(self._length[slots].max(initial=0))):
                if broken:
                    break
                some = slots[self._length[slots] > k]
                block.action[some] = self._actions[some, k]
                broken = self._counted(self.slots.run(STEP, some))
                returns[some] += block.reward[some]
            if not broken:
                obs, before = block.obs[slots], self._obs[slots]
                same = ((obs == before) | (np.isnan(obs) & np.isnan(before))).all(axis=1)
                elsewhere: Array = slots[~same | (returns[slots] != self._return[slots])]
                return elsewhere
        raise self._hopeless(broken[0])

    def _counted(self, broken: list[Broken]) -> list[Broken]:
        for b in broken:
            self.restarts[self.task_ids[b.at]] += 1
        return broken

    def _hopeless(self, broken: Broken) -> MedleyError:
        task = self.tasks[self.task_ids[broken.at]]
        return MedleyError(
            f"{task} (slot {broken.at}): its worker process was lost {_ATTEMPTS} times in a row ({broken.why}). "
            "env.workers=0 runs the env in this process and shows what it does; env.worker_timeout allows more time."
        )

    # ---- pictures and the end

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        if not self.slots.descriptions[slot].renders:
            raise NotImplementedError(f"{self.tasks[self.task_ids[slot]]} cannot be rendered as a picture")
        picture = self.slots.render(slot)
        if isinstance(picture, Broken):
            raise self._hopeless(picture)
        # Gymnasium's envs choose their own size: take the nearest pixels.
        rows = np.arange(height) * picture.shape[0] // height
        columns = np.arange(width) * picture.shape[1] // width
        resized: npt.NDArray[np.uint8] = picture[rows[:, None], columns[None, :]]
        return resized

    def close_extras(self, **kwargs: Any) -> None:
        self.slots.close()


def _slots(tasks: Sequence[Recipe], workers: int, timeout: float) -> Slots:
    if workers == 0:
        return LocalSlots(tasks)
    from medley.envs.workers import WorkerSlots

    return WorkerSlots(tasks, workers, timeout)


def _padded_space(described: Sequence[Description]) -> gym.spaces.Box:
    """The smallest box around all tasks' observations; padding is zero."""
    layout = Layout.of(described)
    low, high = np.zeros((2, layout.slots, layout.obs_dim))
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
