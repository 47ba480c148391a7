"""Options of dm_control's envs, checked before anything is built."""

from __future__ import annotations

from dataclasses import dataclass

from medley.config.options import opt
from medley.envs.dmc.names import suite_task
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError, closest

OBSERVATIONS = ("pixels", "states")
PROFILES = ("exact", "fast")


@dataclass
class SuiteConfig(EnvConfig):
    """Options of everything that is made from dm_control's suite."""

    observation: str = opt("pixels", "what is observed: `pixels` (the last pictures, stacked) or `states`")
    action_repeat: int | None = opt(
        None, "control steps that an action is held; null: as the task's benchmark does, 2 for several tasks"
    )
    frame_stack: int = opt(3, "pictures in an observation, the oldest first")
    image_size: int = opt(84, "width and height of a picture")
    camera: int = opt(0, "the model's camera that takes the pictures")
    render_profile: str = opt("exact", "`exact`: dm_control's own picture; `fast`: rougher edges and shadows, sooner")
    action_limit: float | None = opt(None, "the largest action where a task sets no limits (the suite's lqr)")
    workers: int | None = opt(
        None, "processes that step and draw; 0: this process does; null: 0 for one slot, else up to one per core"
    )
    worker_timeout: float = opt(60.0, "seconds a worker may take to step or reset its slots before it is restarted")


@dataclass
class DMCConfig(SuiteConfig):
    """Options of dm_control's suite."""

    name: str = opt("dmc", "name of the environment, the first part of the run folder")
    builder: str = opt("dmc", "which kind of environment this is (see `medley list envs`)")
    tasks: list[str] = opt(["cheetah-run"], "tasks of the suite as `domain-task`, for example [walker-walk,walker-run]")


def dmc_tasks(cfg: DMCConfig) -> list[str]:
    check_options(cfg)
    tasks = [suite_task(name) for name in cfg.tasks]
    if not tasks:
        raise ConfigError("env.tasks is empty; give at least one task, for example env.tasks=[walker-walk]")
    for name in tasks:
        if tasks.count(name) > 1:
            raise ConfigError(f"env.tasks has {name} twice; env.slots_per_task makes copies of a task.")
    return tasks


def check_options(cfg: SuiteConfig) -> None:
    for key, value, known in (
        ("observation", cfg.observation, OBSERVATIONS),
        ("render_profile", cfg.render_profile, PROFILES),
    ):
        if value not in known:
            raise ConfigError(f"env.{key}={value!r} does not exist.{closest(value, known)}")
    for key, number, least in (
        ("action_repeat", cfg.action_repeat, 1),
        ("frame_stack", cfg.frame_stack, 1),
        ("image_size", cfg.image_size, 1),
        ("camera", cfg.camera, 0),
        ("workers", cfg.workers, 0),
    ):
        if number is not None and number < least:
            raise ConfigError(f"env.{key}={number} must be at least {least}.")
    if cfg.worker_timeout <= 0:
        raise ConfigError(f"env.worker_timeout={cfg.worker_timeout} must be positive.")
    if cfg.action_limit is not None and not 0 < cfg.action_limit < float("inf"):
        raise ConfigError(f"env.action_limit={cfg.action_limit} must be positive and finite.")
