"""`gymnasium.make_vec("medley/MT10", ...)` with the keywords of `gymnasium.make_vec("Meta-World/MT10", ...)`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from medley.envs.api import Array
from medley.envs.metaworld.config import MetaworldConfig, metaworld_tasks
from medley.envs.metaworld.env import MetaworldEnv
from medley.errors import ConfigError, closest

# The package's keyword -> ours.
_RENAMED = {
    "env_name": "task",
    "envs_list": "tasks",
    "max_episode_steps": "horizon",
    "reward_function_version": "reward_version",
    "camera_name": "camera",
}
_TASK_SELECT = {"random": "fixed", "pseudorandom": "order"}
_METHODS = ("gymnasium", "exponential")


def make_vec(
    benchmark: str,
    num_envs: int = 1,
    seed: int | None = None,
    evaluation: bool = False,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    use_one_hot: bool = False,
    task_select: str = "random",
    reward_normalization_method: str | None = None,
    reward_alpha: float = 0.001,
    vector_strategy: str | None = None,  # accepted and without meaning: all slots are stepped by one call
    render_mode: str | None = None,  # the same: pictures can be had at any time
    **options: Any,
) -> VectorEnv[Any, Any, Any]:
    """`num_envs` is a multiple of the number of tasks; what is not named here is an option of `medley list options
    env=metaworld-mt10`, or the package's name for one."""
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"render_mode can be 'rgb_array', not {render_mode!r}")
    if task_select not in _TASK_SELECT:
        raise ConfigError(f"task_select cannot be {task_select!r}.{closest(task_select, _TASK_SELECT)}")
    method = reward_normalization_method
    if method is not None and method not in _METHODS:
        raise ConfigError(f"reward_normalization_method cannot be {method!r}.{closest(method, _METHODS)}")
    options = {_RENAMED.get(name, name): value for name, value in options.items()}
    options.setdefault("goals", _TASK_SELECT[task_select])
    known = MetaworldConfig.__dataclass_fields__
    for name in options:
        if name not in known:
            raise ConfigError(f"Meta-World has no option {name!r}.{closest(name, [*known, *_RENAMED])}")
    cfg = MetaworldConfig(benchmark=benchmark, **options)
    tasks = len(metaworld_tasks(cfg))
    # make_vec says 1 when the caller says nothing: one slot per task.
    if num_envs != 1 and num_envs % tasks:
        raise ConfigError(f"num_envs must be a multiple of the {tasks} tasks, not {num_envs}")
    slots = max(1, num_envs // tasks)
    env: VectorEnv[Any, Any, Any] = MetaworldEnv(cfg, slots, seed or 0, evaluation, AutoresetMode(autoreset_mode))
    if use_one_hot:
        env = OneHotObservation(env)
    if method is not None:
        env = NormalizedReward(env, method, reward_alpha)
    return env


class _Wrapper(VectorWrapper[Any, Any, Any, Any, Any]):
    """Passes on what Gymnasium's own wrappers of vector envs do not."""

    def get_attr(self, name: str) -> tuple[Any, ...]:
        values: tuple[Any, ...] = self.env.get_attr(name)  # type: ignore[attr-defined]
        return values

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        values: tuple[Any, ...] = self.env.call(name, *args, **kwargs)  # type: ignore[attr-defined]
        return values

    def state(self) -> dict[str, Array]:
        return self._base.state()

    def set_state(self, state: dict[str, Array]) -> None:
        self._base.set_state(state)

    def render_slot(self, slot: int, *args: Any, **kwargs: Any) -> Array:
        return self._base.render_slot(slot, *args, **kwargs)

    @property
    def _base(self) -> MetaworldEnv:
        base = self.unwrapped
        assert isinstance(base, MetaworldEnv)
        return base


class OneHotObservation(_Wrapper):
    """Appends the task as a one-hot vector to every observation."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        base = self._base
        self._codes = np.eye(len(base.tasks))[base.task_ids]
        low, high = env.single_observation_space.low, env.single_observation_space.high  # type: ignore[attr-defined]
        count = len(base.tasks)
        self.single_observation_space = gym.spaces.Box(
            np.concatenate([low, np.zeros(count)]), np.concatenate([high, np.ones(count)]), dtype=np.float64
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def _label(self, obs: Array) -> Array:
        return np.concatenate([obs, self._codes], axis=1)

    def reset(self, **kwargs: Any) -> tuple[Array, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        return self._label(obs), info

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            info["final_obs"] = self._label(info["final_obs"])
        return self._label(obs), reward, terminated, truncated, info

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        values = super().call(name, *args, **kwargs)
        if name == "sample_tasks":
            return tuple(
                (np.concatenate([row, code]), info) for (row, info), code in zip(values, self._codes, strict=True)
            )
        return values


class NormalizedReward(_Wrapper):
    """Rewards divided by a running standard deviation, one for each slot, as the package's wrappers give them.

    `gymnasium`: of the discounted return, all steps weighing the same. `exponential`: of the reward, moments moving
    by `alpha` twice a step (the package calls its update twice).
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], method: str, alpha: float = 0.001) -> None:
        super().__init__(env)
        self.method, self.alpha = method, alpha
        self._mean, self._variance = np.zeros(self.num_envs), np.ones(self.num_envs)
        self._count, self._discounted = np.full(self.num_envs, 1e-4), np.zeros(self.num_envs)
        self._return = np.zeros(self.num_envs)  # of the episode, normalised

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        mask = (kwargs.get("options") or {}).get("reset_mask", slice(None))
        self._return[mask] = 0.0
        return self.env.reset(**kwargs)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        stepped = ~self._base.waiting  # with NEXT_STEP, slots that ended are only reset by this call
        obs, reward, terminated, truncated, info = self.env.step(actions)
        scaled = np.zeros_like(reward)
        scaled[stepped] = self._scale(stepped, reward[stepped], terminated[stepped])
        self._return += scaled
        if "final_info" in info:
            ended = info["_final_info"]
            info["final_info"]["episode"]["r"] = self._return.copy()
            self._return[ended] = 0.0
        return obs, scaled, terminated, truncated, info

    def _scale(self, at: Array, reward: Array, terminated: Array) -> Array:
        mean, variance = self._mean[at], self._variance[at]
        if self.method == "exponential":
            for _ in range(2):
                mean = mean + self.alpha * (reward - mean)
                variance = variance + self.alpha * (np.square(reward - mean) - variance)
            self._mean[at], self._variance[at] = mean, variance
            return np.asarray(reward / (np.sqrt(variance) + 1e-8))
        discounted = self._discounted[at] * 0.99 * (1 - terminated) + reward
        # The moments of a growing sample, one number at a time.
        count = self._count[at]
        difference = discounted - mean
        variance = (variance * count + np.square(difference) * count / (count + 1)) / (count + 1)
        self._discounted[at], self._count[at] = discounted, count + 1
        self._mean[at], self._variance[at] = mean + difference / (count + 1), variance
        return np.asarray(reward / np.sqrt(variance + 1e-8))
