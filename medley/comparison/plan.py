"""What a comparison consists of: every run, checked, and what stands in its folder already."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medley.comparison.methods import Method, Request
from medley.config.load import load_config, to_dict
from medley.config.schema import Config
from medley.errors import ConfigError
from medley.reporting.differences import Difference, protocol_differences
from medley.training.changes import flatten
from medley.training.folder_name import default_path
from medley.training.run import Run
from medley.training.standing import check_source, standing_of


@dataclass(frozen=True)
class Planned:
    """One run of one method."""

    method: str
    config: Config
    path: Path
    standing: str  # new | unfinished | finished
    words: tuple[str, ...]  # what `medley train` would be told

    @property
    def seed(self) -> int:
        return self.config.setup.seed

    def __str__(self) -> str:
        return f"{self.method}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    methods: tuple[str, ...]
    runs: tuple[Planned, ...]  # in the order in which they are trained
    differences: tuple[Difference, ...]  # of the protocol, between methods
    jobs: int = 1  # runs at a time


def make_plan(request: Request, config_dirs: Sequence[str | Path] = (), fresh: bool = False) -> Plan:
    """Refuses, before anything is trained, what any of the runs could not do."""
    labels = [method.label for method in request.methods]
    firsts = [_load(request, method, config_dirs) for method in request.methods]
    folders = [default_path(config).parent for config in firsts]
    _check_folders(labels, folders)
    more = [f"--config-dir={Path(d).resolve()}" for d in config_dirs]
    planned = [
        [
            _planned(method.label, config, folder, seed, fresh, (*request.words(method, seed), *more))
            for seed in request.seeds
        ]
        for method, config, folder in zip(request.methods, firsts, folders, strict=True)
    ]
    differences = protocol_differences([flatten(to_dict(config)) for config in firsts])
    return Plan(tuple(labels), tuple(_ordered(planned)), tuple(differences), request.jobs)


def _load(request: Request, method: Method, config_dirs: Sequence[str | Path]) -> Config:
    try:
        return load_config(request.words(method, request.seeds[0]), config_dirs)
    except ConfigError as e:
        raise ConfigError(f"{method.label}: {e}") from None  # an option that all share may be wrong for one of them


def _planned(label: str, like: Config, folder: Path, seed: int, fresh: bool, words: tuple[str, ...]) -> Planned:
    config = copy.deepcopy(like)  # nothing else follows from the seed, and composing takes a while
    config.setup.seed = seed
    path = folder / f"seed_{seed}"
    if fresh:
        check_source(config)
    return Planned(label, config, path, "new" if fresh else standing_of(config, Run(path)), words)


def _ordered(planned: Sequence[Sequence[Planned]]) -> list[Planned]:
    """A first round of seeds for every method, then the next: stopped early, all have equally many.

    A round is as many seeds as are trained together.
    """
    together = max(row[0].config.experiment.seeds_together for row in planned)
    count = len(planned[0])
    return [run for start in range(0, count, together) for row in planned for run in row[start : start + together]]


def _check_folders(labels: Sequence[str], folders: Sequence[Path]) -> None:
    seen: dict[Path, str] = {}
    for label, folder in zip(labels, folders, strict=True):
        if folder in seen:
            raise ConfigError(
                f"{seen[folder]!r} and {label!r} differ in nothing that is learnt: both would be trained in {folder}."
            )
        seen[folder] = label
