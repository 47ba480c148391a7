"""What a comparison consists of: every run, checked, and what stands in its folder already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medley.comparison.methods import Request
from medley.config.load import load_config, to_dict
from medley.config.schema import Config
from medley.errors import ConfigError
from medley.reporting.differences import Difference, protocol_differences
from medley.training.run import Run, changed_options, default_path, flatten
from medley.training.start import check_unfinished


@dataclass(frozen=True)
class Planned:
    """One run of one method."""

    method: str
    config: Config
    standing: str  # new | unfinished | finished

    @property
    def seed(self) -> int:
        return self.config.setup.seed

    @property
    def path(self) -> Path:
        return default_path(self.config)

    def __str__(self) -> str:
        return f"{self.method}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    methods: tuple[str, ...]
    runs: tuple[Planned, ...]  # in the order in which they are trained
    differences: tuple[Difference, ...]  # of the protocol, between methods


def make_plan(request: Request, config_dirs: Sequence[str | Path] = (), fresh: bool = False) -> Plan:
    """Refuses, before anything is trained, what any of the runs could not do."""
    configs = [
        [load_config(request.words(method, seed), config_dirs) for seed in request.seeds] for method in request.methods
    ]
    labels = [method.label for method in request.methods]
    _check_folders(labels, [row[0] for row in configs])
    planned = [
        [Planned(label, config, "new" if fresh else _standing(config)) for config in row]
        for label, row in zip(labels, configs, strict=True)
    ]
    first = [flatten(to_dict(row[0])) for row in configs]
    return Plan(tuple(labels), tuple(_ordered(planned)), tuple(protocol_differences(first)))


def _ordered(planned: Sequence[Sequence[Planned]]) -> list[Planned]:
    """A first round of seeds for every method, then the next: stopped early, all have equally many.

    A round is as many seeds as are trained together.
    """
    together = max(row[0].config.experiment.seeds_together for row in planned)
    count = len(planned[0])
    return [run for start in range(0, count, together) for row in planned for run in row[start : start + together]]


def _check_folders(labels: Sequence[str], configs: Sequence[Config]) -> None:
    seen: dict[Path, str] = {}
    for label, config in zip(labels, configs, strict=True):
        path = default_path(config)
        if path in seen:
            raise ConfigError(
                f"{seen[path]!r} and {label!r} differ in nothing that is learnt: both would be trained in {path}."
            )
        seen[path] = label


def _standing(config: Config) -> str:
    run = Run(default_path(config))
    if not run.exists():
        return "new"
    saved = run.config()
    is_longest = saved.experiment.num_train_steps >= config.experiment.num_train_steps
    if run.info().get("status") == "finished" and is_longest and not changed_options(saved, config)[1]:
        return "finished"
    check_unfinished(config, run, override=False)
    return "unfinished"
