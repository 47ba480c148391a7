"""Options of the Adroit hand, apart from the env so that reading a config does not load a simulator."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from medley.config.options import opt
from medley.envs.registry import EnvConfig
from medley.errors import ConfigError, closest

HORIZON = 200
SCENES = ("door", "hammer", "relocate")
REWARDS = ("dense", "sparse")


@dataclass
class AdroitConfig(EnvConfig):
    """Options of one scene of the hand."""

    name: str = opt("adroit-door", "name of the environment, the first part of the run folder")
    builder: str = opt("adroit-door", "which kind of environment this is (see `medley list envs`)")
    scene: str = opt("door", "what there is beside the hand: door | hammer | relocate")
    grasp: bool = opt(True, "whether grasping is an auxiliary task, beside reaching")
    reward: str = opt("dense", "reward of the main task: dense | sparse (10 on success, else -0.1)")


def adroit_intentions(cfg: AdroitConfig) -> list[str]:
    """The main task first; refuses what does not exist."""
    for key, value, known in (("scene", cfg.scene, SCENES), ("reward", cfg.reward, REWARDS)):
        if value not in known:
            raise ConfigError(f"env.{key}={value!r} does not exist.{closest(value, known)}")
    return ["main", "reach", "grasp"] if cfg.grasp else ["main", "reach"]


def adroit_tasks(cfg: AdroitConfig) -> list[str]:
    return adroit_intentions(cfg)[:1]


def model_file(scene: str) -> Path:
    spec = importlib.util.find_spec("gymnasium_robotics")  # finds the package without importing it
    folders = [] if spec is None else [Path(f) for f in spec.submodule_search_locations or []]
    for folder in folders:
        if (path := folder / "envs" / "assets" / "adroit_hand" / f"adroit_{scene}.xml").is_file():
            return path
    raise ConfigError("the Adroit hand needs the models in gymnasium-robotics: pip install 'medley[adroit]'.")
