"""Which kinds of environment exist: a builder's name, its options, and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from medley.config.options import opt
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError, closest


@dataclass
class EnvConfig:
    """Options every environment has. An env's own options extend this class, beside the env."""

    name: str = opt("", "name of the environment, the first part of the run folder")
    folder: str | None = opt(None, "first part of the run folder; null: the name")
    builder: str = opt("", "which kind of environment this is (see `medley list envs`)")
    setup: str = opt("", "the setup that suits this env when none is asked for")
    missing: str | None = opt(None, "set on names that this version does not have yet: what they need")
    num_envs: int | None = opt(None, "number of tasks; checked against the env if given")
    slots_per_task: int = opt(1, "copies of every task stepped together while training")
    horizon: int | None = opt(None, "steps after which an episode is cut off (truncated); null: the env's own")
    train_horizon: int | None = opt(None, "the same while training, where it is to be shorter; null: as long")
    terminate_on_success: bool = opt(False, "end an episode at its first success")


@dataclass(frozen=True)
class EnvKind:
    options: type[EnvConfig]
    # (options, slots_per_task, seed, evaluation) -> env; evaluation envs walk through their goals in order
    build: Callable[[Any, int, int, bool], MultiTaskEnv]
    # task names without building anything, so that bad input is refused before any work
    tasks: Callable[[Any], list[str]]
    # whether observations are pictures
    shows_pictures: Callable[[Any], bool] = lambda options: False
    # options of other envs that an agent is scored on beside its own tasks, by the name of the set
    evaluation_sets: Callable[[Any], dict[str, Any]] = lambda options: {}
    # names of what may be wanted in one world, the main thing first (see MultiTaskEnv), and how an env with a task for
    # each of them is built: (options, slots_per_task, seed) -> env, for evaluation
    intentions: Callable[[Any], list[str]] = lambda options: []
    build_each: Callable[[Any, int, int], MultiTaskEnv] | None = None


_KINDS: dict[str, EnvKind] = {}


def register_env(builder: str, kind: EnvKind) -> None:
    """Make `env.builder=<builder>` available. Packages call this from their `medley.plugins` entry point."""
    _KINDS[builder] = kind


def env_kind(builder: str) -> EnvKind:
    if builder not in _KINDS:
        raise ConfigError(f"there is no env builder {builder!r}.{closest(builder, _KINDS)}")
    return _KINDS[builder]


def env_kinds() -> dict[str, EnvKind]:
    return dict(_KINDS)
