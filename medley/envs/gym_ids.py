"""Which Gymnasium envs are the tasks: options, names, and the recipe by which any process can make one."""

from __future__ import annotations

import importlib
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

from medley.config.options import opt
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError, closest

if TYPE_CHECKING:
    from medley.envs.gym_slot import GymSlot


@dataclass
class GymConfig(EnvConfig):
    """Options of Gymnasium envs."""

    name: str = opt("gym", "name of the environment, the first part of the run folder")
    builder: str = opt("gym", "which kind of environment this is (see `medley list envs`)")
    ids: list[Any] = opt(
        ["Pendulum-v1"],
        "Gymnasium ids, one task each; an id may appear more than once. `module:id` imports the module first; "
        "`{id: X, a: 1}` passes on an argument for this task alone",
    )
    kwargs: dict[str, Any] = opt({}, "arguments passed on to gymnasium.make for every id")
    workers: int = opt(0, "processes that step the envs; 0: this process does. Results do not depend on it")
    worker_timeout: float = opt(60.0, "seconds a worker may take to step or reset its slots before it is restarted")


@dataclass(frozen=True)
class Recipe:
    """How to make the env of a task, wherever it is to run."""

    task: str
    spec: EnvSpec
    kwargs: dict[str, Any]
    seed: int  # for envs that draw something once, when they are made

    def open(self) -> GymSlot:
        from medley.envs.gym_slot import GymSlot

        return GymSlot(self.make())

    def make(self) -> gym.Env[Any, Any]:
        with seeded(self.seed):
            env: gym.Env[Any, Any] = gym.make(self.spec, **self.kwargs)
        obs, action = env.observation_space, env.action_space
        if not isinstance(obs, gym.spaces.Box) or len(obs.shape) != 1:
            raise ConfigError(f"{self.task} observes {obs}; only flat Box observations are supported")
        if not isinstance(action, gym.spaces.Box) or len(action.shape) != 1:
            raise ConfigError(f"{self.task} takes actions from {action}; only a flat, continuous Box is supported")
        if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
            raise ConfigError(
                f"{self.task} has unbounded actions ({action}); bounds are needed to scale [-1, 1] to them"
            )
        return env


def gym_tasks(cfg: GymConfig) -> list[str]:
    """`Pendulum-v1`, `Pendulum-v1#2` where it comes a second time, `Meta-World/MT1:reach-v3` with arguments."""
    if not cfg.ids:
        raise ConfigError("env.ids is empty; give at least one Gymnasium id, for example env.ids=[Pendulum-v1]")
    if cfg.workers < 0:
        raise ConfigError(f"env.workers={cfg.workers} must be at least 0.")
    if cfg.worker_timeout <= 0:
        raise ConfigError(f"env.worker_timeout={cfg.worker_timeout} must be positive.")
    return _names(cfg.ids)


def _names(ids: Sequence[Any]) -> list[str]:
    names = []
    for entry in ids:
        name, own = _parse(entry)
        names.append(":".join([_spec(name).id, *([",".join(map(str, own.values()))] if own else [])]))
    seen = [names[: i + 1].count(name) for i, name in enumerate(names)]
    return [name if count == 1 else f"{name}#{count}" for name, count in zip(names, seen, strict=True)]


def recipes(ids: Sequence[Any], kwargs: dict[str, Any], horizon: int | None, seed: int) -> list[Recipe]:
    """One per task. The same `seed` makes the same envs."""
    made = []
    for index, (task, entry) in enumerate(zip(_names(ids), ids, strict=True)):
        name, own = _parse(entry)
        spec = _spec(name)
        given = {**({"render_mode": "rgb_array"} if _renders(spec) else {}), **kwargs, **own}
        if horizon is not None:
            given["max_episode_steps"] = horizon
        made.append(Recipe(task, spec, given, int(np.random.SeedSequence([seed, index]).generate_state(1)[0])))
    return made


def _parse(entry: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, dict) and isinstance(entry.get("id"), str):
        return entry["id"], {key: value for key, value in entry.items() if key != "id"}
    example = "{id: Pendulum-v1, g: 9.0}"
    raise ConfigError(f"env.ids: {entry!r} is neither a Gymnasium id nor one with arguments, like {example}")


def _spec(name: str) -> EnvSpec:
    module, _, bare = name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        return gym.spec(bare)
    except (gym.error.Error, ImportError) as error:
        raise ConfigError(f"Gymnasium does not know {name!r} ({error}).{closest(bare, gym.registry)}") from error


def _renders(spec: EnvSpec) -> bool:
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return "rgb_array" in getattr(creator, "metadata", {}).get("render_modes", [])


_GLOBAL_GENERATORS = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's and NumPy's global generators start from `seed` inside and are as before afterwards: some envs draw
    from them, and what they draw must not depend on what else this process does."""
    with _GLOBAL_GENERATORS:
        before = random.getstate(), np.random.get_state()  # noqa: NPY002
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
