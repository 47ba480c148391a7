"""Envs that cannot give their state: a restart resets with the episode's seed, replays its actions and checks that
this leads to the same place and return exactly. A worker process that died or hung is replaced in the same way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array, MultiTaskEnv, StepResult
from medley.envs.slots import RESET, STEP, Broken, LocalSlots, Recipe, Slots
from medley.errors import DamagedError, MedleyError

_ATTEMPTS = 3


class ReplayedEnv(MultiTaskEnv):
    """One single env per slot: stepped one after another, or in worker processes."""

    def __init__(
        self,
        slots: Slots,
        tasks: Sequence[str],
        slots_per_task: int,
        observation_space: gym.spaces.Box,
        horizon: int,
        seed: int,
        terminate_on_success: bool,
    ) -> None:
        self.slots = slots
        action_dim = max(d.action.shape[0] for d in slots.descriptions)
        actions = gym.spaces.Box(-1.0, 1.0, (action_dim,), np.float32)
        super().__init__(tasks, slots_per_task, observation_space, actions, horizon, seed, terminate_on_success)
        self._low, self._high = np.zeros((2, self.num_envs, action_dim))
        for slot, d in enumerate(slots.descriptions):
            width = d.action.low.size
            self._low[slot, :width], self._high[slot, :width] = d.action.low, d.action.high
            self.action_mask[self.task_ids[slot]] = np.arange(action_dim) < width
        self._reset_seeds = np.zeros(self.num_envs, dtype=np.int64)
        self._length = np.zeros(self.num_envs, dtype=np.int64)  # actions taken in this episode
        self._actions = np.zeros((self.num_envs, 64, action_dim))  # grows with the longest episode
        self._lost = np.zeros(self.num_envs, dtype=np.bool_)  # a replay led elsewhere: the episode is over

    # ---- what a subclass provides

    @abstractmethod
    def _observed(self, slots: Array, first: bool = False) -> Array:
        """What the slots observe now that they were stepped, or, at the `first` of an episode, reset."""

    @abstractmethod
    def _arrived(self, slots: Array) -> Array:
        """Whether the slots stand, after a replay, where they stood before; a bool for each."""

    def _taken(self, slots: Array, actions: Array) -> Array:
        """Actions in [-1, 1] on the scale of the slots' own bounds."""
        taken: Array = self._low[slots] + (actions + 1.0) / 2.0 * (self._high[slots] - self._low[slots])
        return taken

    def action_range(self) -> tuple[Array, Array]:
        first = slice(None, None, self.slots_per_task)  # all slots of a task have the same
        return self._low[first], self._high[first]

    # ---- what MultiTaskEnv asks for

    def _reset_slots(self, slots: Array) -> Array:
        self._reset_seeds[slots] = [self.episode_rng(slot).integers(2**31) for slot in slots]
        self._length[slots] = 0
        self._lost[slots] = False
        self._run(RESET, slots)
        return self._observed(slots, first=True)

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        block = self.slots.block
        taken = self._taken(slots, np.clip(actions.astype(np.float64), -1.0, 1.0))
        self._run(STEP, slots, taken)
        if int(self._length.max()) == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[slots, self._length[slots]] = taken
        self._length[slots] += 1
        obs, reward, flags = self._observed(slots), block.reward[slots], block.flags[slots].astype(np.bool_)
        if (lost := self._lost[slots]).any():
            obs[lost], reward[lost], flags[lost] = self._obs[slots[lost]], 0.0, (False, True, False, False)
            np.add.at(self.lost_episodes, self.task_ids[slots[lost]], 1)
        terminated, truncated, success, unstable = flags.T.copy()
        np.add.at(self.instabilities, self.task_ids[slots[unstable]], 1)
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
        for slot in self._replay(np.flatnonzero(self._episode >= 0)):
            raise DamagedError(
                f"replaying the {self._length[slot]} actions of slot {slot} ({self.tasks[self.task_ids[slot]]}) did "
                "not lead to where they led before: this env is not decided by its reset seed and actions, "
                "or its version has changed, so the run cannot be continued exactly"
            )

    # ---- processes that die

    def _run(self, command: bytes, slots: Array, actions: Array | None = None) -> None:
        """RESET or STEP, whatever happens to the processes that do it."""
        for _ in range(_ATTEMPTS):
            going = ~self._lost[slots]
            self.slots.block.seed[slots] = self._reset_seeds[slots]
            self.slots.block.draw[slots] = 1
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

    def _picture(self, slot: int, width: int, height: int) -> npt.NDArray[np.uint8]:
        for _ in range(_ATTEMPTS):
            picture = self.slots.render(slot, width, height)
            if not isinstance(picture, Broken):
                return picture
            broken = picture
            self._counted([broken])
            self._lost[self._replay(broken.slots[self._episode[broken.slots] >= 0])] = True
        raise self._hopeless(broken)

    def _replay(self, slots: Array) -> Array:
        """Begin the episodes of `slots` anew and take the actions they have had; returns those that ended elsewhere."""
        block = self.slots.block
        for _ in range(_ATTEMPTS):
            returns = np.zeros(self.num_envs)
            block.seed[slots] = self._reset_seeds[slots]
            block.draw[slots] = 0
            broken = self._counted(self.slots.run(RESET, slots))
            for k in range(int(self._length[slots].max(initial=0))):
                if broken:
                    break
                some = slots[self._length[slots] > k]
                block.action[some] = self._actions[some, k]
                broken = self._counted(self.slots.run(STEP, some))
                returns[some] += block.reward[some]
            if not broken:
                elsewhere: Array = slots[~self._arrived(slots) | (returns[slots] != self._return[slots])]
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

    def close_extras(self, **kwargs: Any) -> None:
        self.slots.close()


def open_slots(recipes: Sequence[Recipe], workers: int, timeout: float) -> Slots:
    """In this process where there are no `workers`."""
    if workers == 0:
        return LocalSlots(recipes)
    from medley.envs.workers import WorkerSlots

    return WorkerSlots(recipes, workers, timeout)
