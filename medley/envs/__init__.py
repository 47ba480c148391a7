"""What is acted on: the kinds of environment medley brings, reachable by builder's name and by Gymnasium.

Simulators are imported when an env is built, never here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from medley.envs.adroit.config import SCENES as ADROIT_SCENES
from medley.envs.adroit.config import AdroitConfig, adroit_intentions, adroit_tasks
from medley.envs.api import MultiTaskEnv
from medley.envs.dmc.config import DMCConfig, SuiteConfig, dmc_tasks
from medley.envs.dmc.families import FamilyConfig, evaluation_sets, family_tasks
from medley.envs.gym import build_gym
from medley.envs.gym_ids import GymConfig, gym_tasks
from medley.envs.metaworld.aux_config import MetaworldAuxConfig, aux_intentions, aux_task
from medley.envs.metaworld.config import MetaworldConfig, metaworld_tasks
from medley.envs.panda.config import PandaConfig, panda_intentions, panda_tasks
from medley.envs.point import PointConfig, PointEnv, build_point, point_tasks
from medley.envs.point_aux import PointAuxConfig, build_point_aux, build_point_each, main_task
from medley.envs.registry import EnvConfig, EnvKind, env_kind, env_kinds, register_env
from medley.errors import ConfigError

__all__ = ["EnvConfig", "EnvKind", "MultiTaskEnv", "build", "env_kind", "env_kinds", "register_env"]


def _build_metaworld(cfg: MetaworldConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    from medley.envs.metaworld.env import build_metaworld

    return build_metaworld(cfg, slots_per_task, seed, evaluation)


def _build_metaworld_aux(cfg: MetaworldAuxConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    from medley.envs.metaworld.auxiliary import MetaworldAuxEnv

    return MetaworldAuxEnv(cfg, slots_per_task, seed, evaluation)


def _build_metaworld_each(cfg: MetaworldAuxConfig, slots_per_task: int, seed: int) -> MultiTaskEnv:
    from medley.envs.metaworld.auxiliary import MetaworldAuxEnv

    return MetaworldAuxEnv(cfg, slots_per_task, seed, evaluation=True, each=True)


def _build_dmc(cfg: DMCConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    from medley.envs.dmc.env import build_dmc

    return build_dmc(cfg, slots_per_task, seed, evaluation)


def _build_family(cfg: FamilyConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    from medley.envs.dmc.env import build_family

    return build_family(cfg, slots_per_task, seed, evaluation)


def _build_panda(cfg: PandaConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    from medley.envs.panda.env import build_panda

    return build_panda(cfg, slots_per_task, seed, evaluation)


def _build_panda_each(cfg: PandaConfig, slots_per_task: int, seed: int) -> MultiTaskEnv:
    from medley.envs.panda.env import build_panda_each

    return build_panda_each(cfg, slots_per_task, seed)


def _build_adroit(cfg: AdroitConfig, slots_per_task: int, seed: int, evaluation: bool) -> MultiTaskEnv:
    from medley.envs.adroit.env import build_adroit

    return build_adroit(cfg, slots_per_task, seed, evaluation)


def _build_adroit_each(cfg: AdroitConfig, slots_per_task: int, seed: int) -> MultiTaskEnv:
    from medley.envs.adroit.env import build_adroit_each

    return build_adroit_each(cfg, slots_per_task, seed)


def _sees_pixels(cfg: SuiteConfig) -> bool:
    return cfg.observation == "pixels"


register_env("point", EnvKind(PointConfig, build_point, point_tasks, lambda cfg: cfg.image_size is not None))
register_env(
    "point-aux",
    EnvKind(PointAuxConfig, build_point_aux, main_task, intentions=point_tasks, build_each=build_point_each),
)
register_env(
    "panda",
    EnvKind(PandaConfig, _build_panda, panda_tasks, intentions=panda_intentions, build_each=_build_panda_each),
)
register_env("metaworld", EnvKind(MetaworldConfig, _build_metaworld, metaworld_tasks))
register_env(
    "metaworld-aux",
    EnvKind(
        MetaworldAuxConfig,
        _build_metaworld_aux,
        aux_task,
        intentions=aux_intentions,
        build_each=_build_metaworld_each,
    ),
)
for _scene in ADROIT_SCENES:
    register_env(
        f"adroit-{_scene}",
        EnvKind(AdroitConfig, _build_adroit, adroit_tasks, intentions=adroit_intentions, build_each=_build_adroit_each),
    )
register_env("gym", EnvKind(GymConfig, build_gym, gym_tasks))
register_env("dmc", EnvKind(DMCConfig, _build_dmc, dmc_tasks, _sees_pixels))
register_env("hipbmdp", EnvKind(FamilyConfig, _build_family, family_tasks, _sees_pixels, evaluation_sets))


def build(cfg: Any, slots_per_task: int, seed: int, evaluation: bool = False) -> MultiTaskEnv:
    """The env that `cfg.builder` names; `cfg.num_envs`, if given, must be its number of tasks."""
    kind = env_kind(cfg.builder)
    tasks = kind.tasks(cfg)
    if cfg.num_envs is not None and cfg.num_envs != len(tasks):
        raise ConfigError(f"env.num_envs is {cfg.num_envs}, but {cfg.name or cfg.builder} has {len(tasks)} tasks")
    return kind.build(cfg, slots_per_task, seed, evaluation)


def make_metaworld_vec(benchmark: str, **options: Any) -> VectorEnv[Any, Any, Any]:
    """`gymnasium.make_vec("medley/MT10", num_envs=20, seed=1, reward_version="v1", ...)`."""
    from medley.envs.metaworld.dropin import make_vec

    return make_vec(benchmark, **options)


def make_point_vec(num_envs: int = 1, seed: int = 0, num_tasks: int = 3, **options: Any) -> PointEnv:
    """`gymnasium.make_vec("medley/Point", num_envs=6, num_tasks=3)`."""
    # make_vec says 1 when the caller says nothing: one slot per task.
    if num_envs != 1 and num_envs % num_tasks:
        raise ConfigError(f"num_envs must be a multiple of the {num_tasks} tasks, not {num_envs}")
    return PointEnv(num_tasks, max(1, num_envs // num_tasks), seed=seed, **options)


def make_dmc_vec(tasks: Sequence[str], num_envs: int = 1, seed: int = 0, **options: Any) -> MultiTaskEnv:
    """`gymnasium.make_vec("medley/DMC", tasks=["walker-walk"], num_envs=4, observation="states")`: options as in
    `env=dmc-walker-walk`."""
    if num_envs != 1 and num_envs % len(tasks):
        raise ConfigError(f"num_envs must be a multiple of the {len(tasks)} tasks, not {num_envs}")
    return build(DMCConfig(tasks=list(tasks), **options), max(1, num_envs // len(tasks)), seed)


for _benchmark in ("mt1", "mt10", "mt25", "mt50"):
    gymnasium.register(
        id=f"medley/{_benchmark.upper()}",
        vector_entry_point="medley.envs:make_metaworld_vec",
        kwargs={"benchmark": _benchmark},
    )
gymnasium.register(id="medley/DMC", vector_entry_point="medley.envs:make_dmc_vec")
gymnasium.register(id="medley/Point", vector_entry_point="medley.envs:make_point_vec")
