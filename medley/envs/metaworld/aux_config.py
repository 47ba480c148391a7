"""Options of `metaworld-aux`, apart from the env so that reading a config does not load a simulator."""

from __future__ import annotations

from dataclasses import dataclass

from medley.config.options import opt
from medley.envs.metaworld.config import MetaworldConfig, check_config
from medley.envs.metaworld.intentions import thing_of
from medley.errors import ConfigError


@dataclass
class MetaworldAuxConfig(MetaworldConfig):
    """Options of a Meta-World task with auxiliary ones."""

    name: str = opt("metaworld-aux", "name of the environment, the first part of the run folder")
    builder: str = opt("metaworld-aux", "which kind of environment this is (see `medley list envs`)")
    benchmark: str = opt("mt1", "always mt1: there is one task")
    task: str | None = opt("drawer-open", "the main task, for example drawer-open, push or pick-place")
    horizon: int | None = opt(200, "steps after which an episode is cut off (truncated)")
    grasp: bool | None = opt(None, "whether grasping is an auxiliary task; null: where there is something to grasp")


def aux_intentions(cfg: MetaworldAuxConfig) -> list[str]:
    """The main task first; refuses what does not exist."""
    if cfg.tasks or cfg.benchmark != "mt1":
        raise ConfigError("metaworld-aux has one main task: set env.task, and neither env.tasks nor env.benchmark.")
    thing = thing_of(check_config(cfg)[0][0])
    if cfg.grasp and not thing.grasp:
        raise ConfigError(f"env.grasp=true: in {cfg.task} there is nothing to grasp.")
    grasp = thing.grasp if cfg.grasp is None else cfg.grasp
    return ["main", "reach", "grasp"] if grasp else ["main", "reach"]


def aux_task(cfg: MetaworldAuxConfig) -> list[str]:
    return aux_intentions(cfg)[:1]
