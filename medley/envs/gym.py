"""Any Gymnasium envs as tasks, if their observations are flat and their actions continuous.

Narrower tasks are padded with zeros to the widest. These envs cannot give their state, so a restart resets
with the episode's seed, replays its actions and checks that the last observation is the saved one exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from medley.config.options import opt
from medley.envs.api import Array, Mask, MultiTaskEnv, StepResult, stream_seed
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError, DamagedError, closest

_NO_LIMIT = 2**31 - 1


@dataclass
class GymConfig(EnvConfig):
    """Options of Gymnasium envs."""

    name: str = opt("gym", "name of the environment, the first part of the run folder")
    builder: str = opt("gym", "which kind of environment this is (see `medley list envs`)")
    ids: list[str] = opt(["Pendulum-v1"], "Gymnasium ids, one task each; an id may appear more than once")
    kwargs: dict[str, Any] = opt({}, "arguments passed on to gymnasium.make for every id")


def gym_tasks(cfg: GymConfig) -> list[str]:
    """`Pendulum-v1`, and `Pendulum-v1#2` where an id comes a second time."""
    if not cfg.ids:
        raise ConfigError("env.ids is empty; give at least one Gymnasium id, for example env.ids=[Pendulum-v1]")
    for name in cfg.ids:
        try:
            gym.spec(name)
        except (gym.error.Error, ImportError) as error:
            known = closest(name, gym.registry)
            raise ConfigError(f"Gymnasium does not know {name!r} ({error}).{known}") from error
    seen = [cfg.ids[: i + 1].count(name) for i, name in enumerate(cfg.ids)]
    return [name if count == 1 else f"{name}#{count}" for name, count in zip(cfg.ids, seen, strict=True)]


def _make(name: str, horizon: int | None, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    env = gym.make(name, max_episode_steps=horizon, render_mode="rgb_array" if _renders(name) else None, **kwargs)
    obs, action = env.observation_space, env.action_space
    if not isinstance(obs, gym.spaces.Box) or len(obs.shape) != 1:
        raise ConfigError(f"{name} observes {obs}; only flat Box observations are supported")
    if not isinstance(action, gym.spaces.Box) or len(action.shape) != 1:
        raise ConfigError(f"{name} takes actions from {action}; only a flat, continuous Box is supported")
    if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise ConfigError(f"{name} has unbounded actions ({action}); bounds are needed to scale [-1, 1] to them")
    return env


def _renders(name: str) -> bool:
    spec = gym.spec(name)
    if not isinstance(spec.entry_point, str):
        return "rgb_array" in getattr(spec.entry_point, "metadata", {}).get("render_modes", [])
    creator = gym.envs.registration.load_env_creator(spec.entry_point)
    return "rgb_array" in getattr(creator, "metadata", {}).get("render_modes", [])


class GymEnv(MultiTaskEnv):
    """One Gymnasium env per slot, stepped one after another."""

    def __init__(
        self,
        ids: Sequence[str],
        slots_per_task: int = 1,
        horizon: int | None = None,
        seed: int = 0,
        terminate_on_success: bool = False,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        names = gym_tasks(GymConfig(ids=list(ids)))
        slots = [name for name in ids for _ in range(slots_per_task)]
        self.envs = [_make(name, horizon, kwargs or {}) for name in slots]
        spaces = [(env.observation_space, env.action_space) for env in self.envs]
        self._obs_dims = [space.shape[0] for space, _ in spaces if space.shape]
        self._action_dims = [space.shape[0] for _, space in spaces if space.shape]
        self._bounds = [(np.asarray(a.low), np.asarray(a.high)) for _, a in spaces if isinstance(a, gym.spaces.Box)]
        limits = [env.spec.max_episode_steps if env.spec else None for env in self.envs]
        super().__init__(
            names,
            slots_per_task,
            _padded_space([space for space, _ in spaces], max(self._obs_dims)),
            gym.spaces.Box(-1.0, 1.0, (max(self._action_dims),), np.float32),
            # Each env's own time limit cuts its episodes; this one must never come earlier.
            max(limit or _NO_LIMIT for limit in limits),
            seed,
            terminate_on_success,
        )
        for task in range(len(names)):
            self.action_mask[task] = np.arange(max(self._action_dims)) < self._action_dims[task * slots_per_task]
        self._actions: list[list[Array]] = [[] for _ in self.envs]
        self._reset_seeds = np.zeros(self.num_envs, dtype=np.int64)

    def _pad(self, slot: int, obs: Any) -> Array:
        padded = np.zeros(self._obs.shape[1], dtype=self._obs.dtype)
        padded[: self._obs_dims[slot]] = obs
        return padded

    def _scaled(self, slot: int, action: Array) -> Array:
        low, high = self._bounds[slot]
        share = (np.clip(action[: self._action_dims[slot]].astype(np.float64), -1.0, 1.0) + 1.0) / 2.0
        return np.asarray(low + share * (high - low), dtype=low.dtype)

    def _reset_slots(self, slots: Array) -> Array:
        first = np.empty((len(slots), self._obs.shape[1]), dtype=self._obs.dtype)
        for row, slot in enumerate(slots):
            self._reset_seeds[slot] = self.episode_rng(slot).integers(2**31)
            self._actions[slot] = []
            first[row] = self._pad(slot, self.envs[slot].reset(seed=int(self._reset_seeds[slot]))[0])
        return first

    def _step_slots(self, slots: Array, actions: Array) -> StepResult:
        obs = np.empty((len(slots), self._obs.shape[1]), dtype=self._obs.dtype)
        reward = np.zeros(len(slots))
        flags: Mask = np.zeros((3, len(slots)), dtype=np.bool_)
        for row, slot in enumerate(slots):
            action = self._scaled(slot, actions[row])
            self._actions[slot].append(action)
            raw, reward[row], flags[0, row], flags[1, row], info = self.envs[slot].step(action)
            obs[row] = self._pad(slot, raw)
            flags[2, row] = bool(info.get("success", info.get("is_success", False)))
        terminated, truncated, success = flags
        return StepResult(obs, reward, terminated, success, {}, truncated)

    def _dynamics_state(self) -> dict[str, Array]:
        lengths = np.array([len(actions) for actions in self._actions], dtype=np.int64)
        replay = np.zeros((self.num_envs, int(lengths.max()), max(self._action_dims)), dtype=np.float64)
        for slot, actions in enumerate(self._actions):
            if actions:
                replay[slot, : len(actions), : self._action_dims[slot]] = actions
        return {"reset_seed": self._reset_seeds.copy(), "length": lengths, "actions": replay}

    def _set_dynamics_state(self, state: dict[str, Array]) -> None:
        self._reset_seeds = state["reset_seed"].astype(np.int64)
        for slot, env in enumerate(self.envs):
            low = self._bounds[slot][0]
            taken = state["actions"][slot, : int(state["length"][slot]), : self._action_dims[slot]]
            self._actions[slot] = list(taken.astype(low.dtype))
            obs = env.reset(seed=int(self._reset_seeds[slot]))[0]
            for action in self._actions[slot]:
                obs = env.step(action)[0]
            if not np.array_equal(self._pad(slot, obs), self._obs[slot], equal_nan=True):
                task = self.tasks[self.task_ids[slot]]
                raise DamagedError(
                    f"replaying the {len(taken)} actions of slot {slot} ({task}) did not lead to the saved "
                    "observation: this env is not decided by its reset seed and actions, or its version has "
                    "changed, so the run cannot be continued exactly"
                )

    def render_slot(self, slot: int, width: int = 320, height: int = 240) -> npt.NDArray[np.uint8]:
        env = self.envs[slot]
        if env.render_mode != "rgb_array":
            raise NotImplementedError(f"{self.tasks[self.task_ids[slot]]} cannot be rendered as a picture")
        picture: npt.NDArray[np.uint8] = np.asarray(env.render(), dtype=np.uint8)
        # Gymnasium's envs choose their own size: take the nearest pixels.
        rows = np.arange(height) * picture.shape[0] // height
        columns = np.arange(width) * picture.shape[1] // width
        resized: npt.NDArray[np.uint8] = picture[rows[:, None], columns[None, :]]
        return resized

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()


def _padded_space(spaces: Sequence[gym.Space[Any]], width: int) -> gym.spaces.Box:
    """The smallest box around all tasks' observations; padding is zero."""
    low, high = np.zeros((2, len(spaces), width))
    for row, space in enumerate(spaces):
        if isinstance(space, gym.spaces.Box):
            low[row, : space.low.size], high[row, : space.high.size] = space.low, space.high
    dtype = np.result_type(np.float32, *(space.dtype for space in spaces if space.dtype is not None))
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
    )
