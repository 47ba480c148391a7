"""The words of `medley launch`: where, which runs, and what each of them may use."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medley.comparison.methods import seeds_of
from medley.config.load import expand_sweeps, load_config
from medley.errors import ConfigError, closest
from medley.scale.resources import Resources
from medley.training.folder_name import default_path
from medley.training.run import Run
from medley.training.standing import how_long, standing_of

ENGINES = ("local", "slurm", "ray")
_OWN = ("on", "jobs", "seeds", "retries")


@dataclass
class Request:
    on: str = "local"
    jobs: int = 1  # on this machine: runs at once
    retries: int = 2  # how often a run that failed is started again
    seeds: tuple[int, ...] = (1,)
    resources: Resources = field(default_factory=Resources)
    words: list[str] = field(default_factory=list)  # options of the runs; several values stand for several runs


@dataclass(frozen=True)
class Job:
    """One run of a sweep: what `medley train` is told, and its folder."""

    words: tuple[str, ...]
    folder: Path
    standing: str  # new | unfinished | finished
    length: str = ""  # of one that is finished: how long it is, where that is not what is asked for


def read(words: Sequence[str]) -> Request:
    """`on=slurm seeds=10 env=... agent=a,b resources.gpus=1 ...`"""
    asked = Request()
    for word in words:
        key, _, value = word.partition("=")
        if key == "on":
            if value not in ENGINES:
                raise ConfigError(f"on={value} does not exist.{closest(value, ENGINES)}")
            asked.on = value
        elif key == "seeds":
            asked.seeds = seeds_of(value)
        elif key in ("jobs", "retries"):
            if not value.isdigit() or (key == "jobs" and value == "0"):
                raise ConfigError(f"{word}: that should be a whole number.")
            setattr(asked, key, int(value))
        elif key.startswith("resources."):
            asked.resources = asked.resources.changed(key.removeprefix("resources."), value)
        elif key in ("setup.seed", "setup.save_dir"):
            raise ConfigError(f"{word}: seeds= says which seeds, and every run has a folder of its own.")
        elif "." not in key and key not in ("agent", "env", "setup", "metrics"):
            raise ConfigError(f"`medley launch` does not know {word!r}.{closest(key, _OWN)}")
        else:
            asked.words.append(word)
    return asked


def plan(request: Request, config_dirs: Sequence[str | Path] = ()) -> list[Job]:
    """Every run, checked: agents x envs x options x seeds. What is wrong is refused before anything starts."""
    jobs: dict[Path, Job] = {}
    for words in expand_sweeps(request.words):
        like = load_config([*words, f"setup.seed={request.seeds[0]}"], config_dirs)
        for seed in request.seeds:
            config = copy.deepcopy(like)
            config.setup.seed = seed
            folder = default_path(config).resolve()
            if folder in jobs:
                how = "leave out setup.id" if config.setup.id else "give them names, setup.id=NAME"
                raise ConfigError(f"two runs of this sweep would share {folder}: {how}.")
            more = [f"--config-dir={Path(d).resolve()}" for d in config_dirs]
            standing = standing_of(config, Run(folder))
            length = how_long(Run(folder), config) if standing == "finished" else ""
            told = (*words, f"setup.seed={seed}", f"setup.save_dir={folder}", *more)
            jobs[folder] = Job(told, folder, standing, length)
    return list(jobs.values())
