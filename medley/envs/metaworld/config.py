"""Meta-World's options, apart from the env so that reading a config does not load a simulator."""

from __future__ import annotations

from dataclasses import dataclass

from medley.config.options import opt
from medley.envs.metaworld.names import reward_version, select_tasks
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError, closest

GOAL_CHOICES = ("fixed", "order", "single", "fresh")
CAMERAS = ("topview", "corner", "corner2", "corner3", "corner4", "behindGripper", "gripperPOV")


@dataclass
class MetaworldConfig(EnvConfig):
    """Options of Meta-World."""

    name: str = opt("metaworld-mt10", "name of the environment, the first part of the run folder")
    builder: str = opt("metaworld", "which kind of environment this is (see `medley list envs`)")
    benchmark: str = opt("mt10", "which tasks: mt1, mt10, mt25, mt50 or custom")
    task: str | None = opt(None, "the task of mt1, for example reach or reach-v2")
    tasks: list[str] = opt([], "any tasks by name; overrides the benchmark, each with its mt1 goals")
    first: int | None = opt(None, "only the first n of these tasks; null: all")
    reward_version: str | None = opt(None, "v1 or v2; null: v2, and v1 for names that end in -v1")
    goals: str = opt("fixed", "fixed: one of the 50 at random; order: in turn; single: the first; fresh: new ones")
    goal_seed: int | None = opt(None, "the benchmark seed that decides the 50 goals; null: the run's seed")
    partially_observable: bool = opt(False, "hide the goal's position from the observation (zeros)")
    threads: int | None = opt(None, "threads that step the simulation; null: one per core")
    camera: str = opt("corner2", "camera of pictures and videos, for example corner2 or topview")


def check_camera(name: str) -> None:
    if name not in CAMERAS:
        raise ConfigError(f"Meta-World has no camera {name!r}.{closest(name, CAMERAS)}")


def check_config(cfg: MetaworldConfig) -> tuple[list[str], list[str]]:
    """The tasks asked for and the reward version of each; refuses what does not exist."""
    if cfg.goals not in GOAL_CHOICES:
        raise ConfigError(f"env.goals cannot be {cfg.goals!r}.{closest(cfg.goals, GOAL_CHOICES)}")
    check_camera(cfg.camera)
    if cfg.threads is not None and cfg.threads < 1:
        raise ConfigError(f"env.threads must be at least 1, not {cfg.threads}")
    if cfg.horizon is not None and cfg.horizon < 1:
        raise ConfigError(f"env.horizon must be at least 1, not {cfg.horizon}")
    names, versions = select_tasks(cfg.benchmark, cfg.task, cfg.tasks)
    if cfg.first is not None:
        if not 1 <= cfg.first <= len(names):
            raise ConfigError(f"env.first={cfg.first} must lie between 1 and the number of tasks, {len(names)}.")
        names, versions = names[: cfg.first], versions[: cfg.first]
    return names, reward_version(cfg.reward_version, versions)


def metaworld_tasks(cfg: MetaworldConfig) -> list[str]:
    return check_config(cfg)[0]
