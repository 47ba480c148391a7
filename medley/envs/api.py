"""What an environment is to medley: many slots, ordered by task, stepped together, restartable exactly.

A subclass says how some slots are reset and stepped; counting, time limits, autoreset, idle slots and
random streams are here once, for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# Counts by task: episodes cut off by broken physics, worker processes started anew, and episodes cut off because such a
# process could not be brought to where the old one was. They say what this object has seen, not what state it is in.
FAULTS = ("instabilities", "restarts", "lost_episodes")


def stream_seed(seed: int, evaluation: bool) -> int:
    """The seed of an env's random streams: evaluation has one of its own, so that how often a run evaluates
    changes nothing about what it trains on."""
    if not evaluation:
        return seed
    return int(np.random.SeedSequence([seed, 0xE7A1]).generate_state(1)[0])


class StepResult(NamedTuple):
    """What `_step_slots` returns, one row per stepped slot."""

    obs: Array
    reward: Array
    terminated: Mask
    success: Mask
    extra: dict[str, Array]
    truncated: Mask | None = None  # cut off by the env itself, before `horizon`


class MultiTaskEnv(VectorEnv[Any, Any, Any]):
    """A vector env of `len(tasks) * slots_per_task` slots: slot i belongs to task i // slots_per_task.

    Episodes end by `terminated` (a true end) or `truncated` (the time limit `horizon`, or the env's own). In
    Gymnasium's SAME_STEP mode (the default, and what training uses) a slot that ended is reset in the same step:
    `obs` then holds the first observation of the next episode and `info["final_obs"]` the true last one. In
    NEXT_STEP mode `obs` is the last one, and the next call resets the slot, ignoring its action. In `info`:

    - `success` (bool per slot): the task's success flag at this step;
    - `final_obs` (like obs; rows valid where `_final_obs`): the last observation of an episode that ended;
    - `final_info["episode"]` with `r`, `l` and `s` (return, length, success at any step), valid where
      `_final_info`;
    - `rewards` and `successes` [slots, intentions], where there are `intentions`: the step as each of them sees it;
    - whatever the env adds per slot (`extra`).

    Everything random about an episode comes from (seed, slot, episode number): see `episode_rng`.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"], "render_fps": 25}
    render_mode = "rgb_array"
    # Where observations are stacked pictures [frames * frame_channels, height, width]: the channels of one of them.
    frame_channels: int | None = None
    max_reward: float | None = None  # the largest there can be, where it is known
    action_repeat: int = 1  # control steps of the simulator in one step of this env, where it counts them apart
    renderer: str = ""  # what draws, where observations are pictures
    # What may be wanted in one and the same world, the main thing first; an episode may be about several in turn. Such
    # an env has a single task for training, the main one, and one built for evaluation a task per intention.
    intentions: tuple[str, ...] = ()
    # For recordings: parts of an observation by name, as [first, last + 1], and steps per second of the env's own time.
    layout: dict[str, list[int]] = {}
    control_hz: float | None = None

    def __init__(
        self,
        tasks: Sequence[str],
        slots_per_task: int,
        single_observation_space: gym.spaces.Box,
        single_action_space: gym.spaces.Box,
        horizon: int,
        seed: int,
        terminate_on_success: bool = False,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        if autoreset_mode == AutoresetMode.DISABLED:
            raise ValueError("episodes that end are reset in the same step or the next: SAME_STEP or NEXT_STEP")
        self.metadata = {**self.metadata, "autoreset_mode": autoreset_mode}
        self.reset_at_once = autoreset_mode == AutoresetMode.SAME_STEP
        self.tasks = tuple(tasks)
        self.slots_per_task = slots_per_task
        self.num_envs = len(self.tasks) * slots_per_task
        self.task_ids = np.repeat(np.arange(len(self.tasks)), slots_per_task)
        self.single_observation_space = single_observation_space
        self.single_action_space = single_action_space
        self.observation_space = batch_space(single_observation_space, self.num_envs)
        self.action_space = batch_space(single_action_space, self.num_envs)
        self.horizon = horizon
        self.seed = seed
        self.terminate_on_success = terminate_on_success
        # Tasks with fewer action dimensions than the widest one: True where a dimension is real.
        self.action_mask: Mask = np.ones((len(self.tasks), single_action_space.shape[0]), dtype=np.bool_)
        self._obs: Array = np.zeros(
            (self.num_envs, *single_observation_space.shape), dtype=single_observation_space.dtype
        )
        self._episode = np.full(self.num_envs, -1, dtype=np.int64)  # none has begun
        self._elapsed = np.zeros(self.num_envs, dtype=np.int64)
        self._return = np.zeros(self.num_envs, dtype=np.float64)
        self._succeeded = np.zeros(self.num_envs, dtype=np.bool_)
        self.waiting = np.zeros(self.num_envs, dtype=np.bool_)  # ended, to be reset by the next call (NEXT_STEP)
        self._every_slot = np.arange(self.num_envs)
        self._first_of_whole, self._slots_of_whole = 0, slots_per_task
        self.instabilities, self.restarts, self.lost_episodes = np.zeros((3, len(self.tasks)), dtype=np.int64)

    # ---- what a subclass provides

    @abstractmethod
    def _reset_slots(self, slots: Array) -> Array:
        """Start episode `self._episode[slot]` in each of `slots`; returns their first observations."""

    @abstractmethod
    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        """Advance `slots` by one step with `actions` (one row per slot in `slots`)."""

    @abstractmethod
    def _dynamics_state(self) -> dict[str, Array]:
        """All that `_step_slots` depends on beside the counters kept here, as plain arrays."""

    @abstractmethod
    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        """The inverse of `_dynamics_state`."""

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        """A picture of one slot, [height, width, 3]."""
        raise NotImplementedError(f"{type(self).__name__} cannot be rendered")

    def drain(self) -> dict[str, float]:
        """What an env has to say for a training line, beside rewards, of the time since it was last asked."""
        return {}

    def success_examples(self, intention: int, count: int, rng: np.random.Generator) -> Array:
        """Single observations [count, ...] in which an intention is fulfilled, where the env can make them up."""
        raise NotImplementedError(f"{type(self).__name__} knows no examples: record some with `medley demos`")

    def expert_actions(self, obs: Array, wanted: Array) -> Array:
        """What somebody who knows how would do in every slot, within the action space, where there is a script.
        `wanted`: an intention per slot, or its task where the env has no intentions."""
        raise NotImplementedError(f"{type(self).__name__} has no script that acts in it")

    # ---- what everyone calls

    @property
    def at_start(self) -> bool:
        """Whether all slots are at the start of an episode."""
        return not self._elapsed.any()

    def action_range(self) -> tuple[Array, Array]:
        """What an action of -1 and of 1 stands for in every task's own terms: [tasks, dim] each, zero in padding."""
        space = self.single_action_space
        assert isinstance(space, gym.spaces.Box)
        return np.where(self.action_mask, space.low, 0.0), np.where(self.action_mask, space.high, 0.0)

    def env_steps(self, step: int) -> int:
        """What `step` steps of a task, counted over all its slots, are in the simulator's own control steps."""
        return step

    def be_part(self, part: int, parts: int) -> None:
        """From now on these slots are those of part `part` of an env that has `parts` times as many of every task: they
        see the episodes that they would see there. To be said before the first reset."""
        self._first_of_whole, self._slots_of_whole = part * self.slots_per_task, parts * self.slots_per_task

    def speak_for(self, slots_per_task: int) -> None:
        """From now on this says of itself what an env with so many slots of every task would, and is not stepped."""
        self.slots_per_task, self.num_envs = slots_per_task, len(self.tasks) * slots_per_task
        self.task_ids = np.repeat(np.arange(len(self.tasks)), slots_per_task)

    def place(self, slot: int) -> tuple[int, int]:
        """Which of its task's slots it is, and of how many, in the whole env."""
        return self._first_of_whole + int(slot) % self.slots_per_task, self._slots_of_whole

    def episode_rng(self, slot: int) -> np.random.Generator:
        """The random stream of the episode that `slot` starts or is in; the same whenever it is asked for."""
        place, of = self.place(slot)
        key = (int(self.task_ids[slot]) * of + place, int(self._episode[slot]))
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start the next episodes; with a seed, the first ones of that seed. `options`: `reset_mask` (bool per slot:
        only these slots) and `episode` (the number of the episode to start, per slot)."""
        options = options or {}
        if isinstance(seed, list):
            raise ValueError("one seed decides everything: reset(seed=...) takes a single int")
        super().reset(seed=seed)  # Gymnasium's own generator, which nothing here draws from
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        if seed is not None:
            self.seed = int(seed)
            self._episode[mask] = 0
        elif "episode" not in options:
            self._episode[mask] += 1
        if "episode" in options:
            self._episode[mask] = np.asarray(options["episode"])[mask]
        self._start(np.flatnonzero(mask))
        return self._obs.copy(), {}

    def step(self, actions: Array, active: Mask | None = None) -> tuple[Array, Array, Mask, Mask, dict[str, Any]]:
        """Step every slot, or only those `active`; an idle slot keeps its observation and gets reward 0."""
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions have shape {actions.shape}, expected {self.action_space.shape}")
        wanted = active
        if self.waiting.any():
            wanted = ~self.waiting if active is None else np.asarray(active) & ~self.waiting
        result = self._step_some(wanted, actions)
        reward, success = result.reward, result.success
        info: dict[str, Any] = {"success": success, **result.extra}
        terminated = result.terminated | success if self.terminate_on_success else result.terminated
        self._elapsed += 1 if wanted is None else wanted
        self._return += reward
        self._succeeded |= success
        truncated = self._elapsed >= self.horizon
        if result.truncated is not None:
            truncated |= result.truncated
        truncated &= ~terminated
        if wanted is not None:
            truncated &= wanted
        if self.waiting.any():
            self._begin_waiting(active)

        ended = terminated | truncated
        if ended.any():
            episode = {"r": self._return.copy(), "l": self._elapsed.copy(), "s": self._succeeded.copy()}
            final = {key: value.copy() for key, value in info.items()}
            info["final_obs"], info["_final_obs"] = self._obs.copy(), ended
            info["final_info"], info["_final_info"] = {**final, "episode": episode}, ended
            if self.reset_at_once:
                self._episode[ended] += 1
                self._start(np.flatnonzero(ended))
            else:
                self.waiting |= ended
        return self._obs.copy(), reward, terminated, truncated, info

    def _step_some(self, wanted: Mask | None, actions: Array) -> StepResult:
        """Step the slots `wanted` (None: all); one row per slot comes back, zeros for the others."""
        if wanted is None:
            result = self._step_slots(self._every_slot, actions)
            self._obs[...] = result.obs
            return result
        slots = np.flatnonzero(wanted)
        some = self._step_slots(slots, actions[slots])
        self._obs[slots] = some.obs

        def spread(values: Array) -> Array:
            column = np.zeros((self.num_envs, *values.shape[1:]), dtype=values.dtype)
            column[slots] = values
            return column

        return StepResult(
            self._obs,
            spread(some.reward),
            spread(some.terminated),
            spread(some.success),
            {key: spread(values) for key, values in some.extra.items()},
            None if some.truncated is None else spread(some.truncated),
        )

    def _begin_waiting(self, active: Mask | None) -> None:
        """The episodes that NEXT_STEP put off."""
        begin = self.waiting.copy() if active is None else self.waiting & active
        self.waiting &= ~begin
        self._episode[begin] += 1
        self._start(np.flatnonzero(begin))

    def state(self) -> dict[str, Array]:
        """Everything the future of every slot depends on, as arrays."""
        return {
            "seed": np.array(self.seed, dtype=np.int64),
            "obs": self._obs.copy(),
            "episode": self._episode.copy(),
            "elapsed": self._elapsed.copy(),
            "return": self._return.copy(),
            "succeeded": self._succeeded.copy(),
            "waiting": self.waiting.copy(),
            **{f"dynamics.{key}": value for key, value in self._dynamics_state().items()},
        }

    def set_state(self, state: dict[str, Array]) -> None:
        """Continue exactly as the env that gave `state` would have."""
        self.seed = int(state["seed"])
        self._obs = state["obs"].astype(self._obs.dtype).reshape(self._obs.shape)
        self._episode = state["episode"].astype(np.int64)
        self._elapsed = state["elapsed"].astype(np.int64)
        self._return = state["return"].astype(np.float64)
        self._succeeded = state["succeeded"].astype(np.bool_)
        self.waiting = state["waiting"].astype(np.bool_)
        prefix = "dynamics."
        self._set_dynamics_state({k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)})

    def render(self) -> Any:
        """A picture of every slot, as Gymnasium's vector envs give it."""
        return tuple(self.render_slot(slot) for slot in range(self.num_envs))

    def _start(self, slots: Array) -> None:
        self._elapsed[slots] = 0
        self._return[slots] = 0.0
        self._succeeded[slots] = False
        self.waiting[slots] = False
        if slots.size:
            self._obs[slots] = self._reset_slots(slots)
