"""Run folders as data: one run, all runs below some folders, and runs grouped by what they have in common."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from medley.errors import MedleyError
from medley.files import by_number
from medley.reporting import apart
from medley.reporting.differences import decisive
from medley.reporting.run_files import (
    Evaluation,
    Video,
    find_videos,
    from_log,
    from_results,
    number,
    options_of,
    read_json,
    read_lines,
    read_text,
)

_MARKS = ("run.json", "results.json", "eval.log", "train.log")


@dataclass
class RunData:
    """What one run folder says."""

    path: Path
    info: dict[str, Any]
    tasks: tuple[str, ...]
    evaluations: list[Evaluation]
    train: list[dict[str, Any]]
    videos: list[Video]
    config: str
    problems: list[str] = field(default_factory=list)

    # A folder without run.json still says these by its place: runs/<env>/<config name>/seed_<i>.
    @property
    def env(self) -> str:
        return str(self.info.get("env") or self.path.parent.parent.name)

    @property
    def config_name(self) -> str:
        return str(self.info.get("config_name") or self.path.parent.name)

    @property
    def agent(self) -> str:
        return str(self.info.get("agent") or self.options.get("agent.name") or self.config_name)

    @property
    def seed(self) -> str:
        return str(self.info.get("seed", self.path.name.removeprefix("seed_")))

    @property
    def protocol(self) -> str:
        return str(self.info.get("protocol") or "")

    @property
    def status(self) -> str:
        return str(self.info.get("status") or "unknown")

    @cached_property
    def options(self) -> dict[str, Any]:
        """`agent.trunk` and so on; empty where config.yaml cannot be read."""
        return options_of(self.config)

    def progress(self, key: str) -> float:
        """`step`, `frames`, `updates` or `minutes`: the furthest that any file of the run mentions."""
        known = [number(self.info.get(key))]
        known += [number(row.get(key)) for row in self.train[-1:]]
        known += [number(getattr(e, key, None)) for e in self.evaluations[-1:]]
        return max((value for value in known if not math.isnan(value)), default=math.nan)


@dataclass(frozen=True)
class RunGroup:
    """Runs that are averaged: seeds of one configuration, or whatever was asked to be taken together."""

    label: str
    env: str
    tasks: tuple[str, ...]
    runs: tuple[RunData, ...]
    notes: tuple[str, ...] = ()  # what is apart from them and why, and in what they differ


def find_runs(paths: Iterable[Path]) -> list[RunData]:
    """Every run in `paths`, each a run folder or any folder above some."""
    return [read_run(folder) for folder in run_folders(paths)]


def run_folders(paths: Iterable[Path]) -> list[Path]:
    folders: dict[Path, Path] = {}
    given = [Path(path) for path in paths]
    for path in given:
        if not path.is_dir():
            raise MedleyError(f"There is no folder {path}: give a run folder, or a folder that holds some.")
        for parent, below, files in os.walk(path):
            if any(mark in files for mark in _MARKS):
                folders.setdefault(Path(parent).resolve(), Path(parent))
                below.clear()  # checkpoints, buffer, video: none of them holds another run
            # A run that `--fresh` moved aside is not another seed; named itself, it is still reported.
            below[:] = sorted((name for name in below if ".old-" not in name), key=by_number)
    if not folders:
        places = ", ".join(str(path) for path in given) or "nothing"
        raise MedleyError(f"No run found in {places}: a run folder holds one of {', '.join(_MARKS)}.")
    return list(folders.values())


def group_runs(runs: Sequence[RunData], labels: Mapping[Path, str] | None = None) -> list[RunGroup]:
    """Runs of one name and one protocol are one group.

    The name is that of the configuration, or what `labels` says for a run folder. Runs with the same label are taken
    together even if their options differ, as long as these are not the protocol's (`apart.facts`).
    """
    named = {id(run): (labels or {}).get(run.path.resolve(), run.config_name) for run in runs}
    parts: dict[tuple[str, str, str], list[RunData]] = {}
    for run in runs:
        parts.setdefault((named[id(run)], run.env, apart.key(run)), []).append(run)
    notes = _why_apart(parts)
    one_env = len({run.env for run in runs}) == 1
    found: list[tuple[str, list[RunData], list[str]]] = []
    for key, members in parts.items():
        name, env, _ = key
        alike = [other for other in parts if other[:2] == (name, env)]
        shown = name if one_env or env in name else f"{env} / {name}"
        if len(alike) > 1:
            shown += f" ({apart.suffixes([parts[other] for other in alike])[alike.index(key)]})"
        labelled = all(run.path.resolve() in (labels or {}) for run in members)
        for some, left_out in [_without_copies(members)] if labelled else _folders(members):
            found.append((shown, some, notes.pop(id(members), []) + left_out + apart.pooled(shown, some)))

    names = [shown for shown, _, _ in found]
    groups = []
    for index, (label, members, said) in enumerate(found):
        if names.count(label) > 1:
            label = f"{label} ({names[: index + 1].count(label)}: {members[0].path.parent})"
        members = sorted(members, key=lambda run: (len(run.seed), run.seed))
        groups.append(RunGroup(label, members[0].env, members[0].tasks, tuple(members), tuple(said)))
    return groups


def _why_apart(parts: Mapping[tuple[str, str, str], list[RunData]]) -> dict[int, list[str]]:
    """For every name in several parts a sentence, by the id of the first part that has something to show."""
    said: dict[int, list[str]] = {}

    def say(name: str, some: Sequence[Sequence[RunData]], among: Sequence[list[RunData]]) -> None:
        if len(some) > 1:
            first = next((part for part in among if any(run.evaluations for run in part)), among[0])
            said.setdefault(id(first), []).append(apart.sentence(name, some))

    names: dict[str, dict[str, list[list[RunData]]]] = {}
    for (name, env, _), part in parts.items():
        names.setdefault(name, {}).setdefault(env, []).append(part)
    for name, envs in names.items():
        # Envs are told apart first, then what differs within each of them.
        say(name, [list(chain(*some)) for some in envs.values()], list(chain(*envs.values())))
        for some in envs.values():
            say(name, some, some)
    return said


def _folders(members: list[RunData]) -> list[tuple[list[RunData], list[str]]]:
    """The same seed twice cannot be two seeds: such runs make one group per folder."""
    if len({run.seed for run in members}) == len(members):
        return [(members, [])]
    folders: dict[Path, list[RunData]] = {}
    for run in members:
        folders.setdefault(run.path.resolve().parent, []).append(run)
    return [(some, []) for some in folders.values()]


def _without_copies(members: list[RunData]) -> tuple[list[RunData], list[str]]:
    """The same seed with the same options is the same run once more: the one that is further stays."""
    kept: dict[str, RunData] = {}
    for run in members:
        same = json.dumps([run.seed, decisive(run.options) or run.config_name], sort_keys=True, default=str)
        best = kept.get(same)
        if best is None or _reached(run) > _reached(best):
            kept[same] = run
    stays = [run for run in members if any(run is other for other in kept.values())]
    left = [run for run in members if not any(run is other for other in kept.values())]
    text = "has the options and the seed of another run: it says nothing new and is left out."
    return stays, [f"{run.path} {text}" for run in left]


def _reached(run: RunData) -> int:
    return run.evaluations[-1].step if run.evaluations else -1


def read_run(path: Path) -> RunData:
    """One run folder."""
    problems: list[str] = []
    info = read_json(path / "run.json", problems)
    results = read_json(path / "results.json", problems)
    listed = next((x for x in (info.get("tasks"), results.get("tasks")) if isinstance(x, list)), [])
    tasks = [str(task) for task in listed]
    if "protocol" not in info and results.get("protocol"):
        info["protocol"] = results["protocol"]
    rows = results.get("evaluations")
    found = rows if isinstance(rows, list) else []
    evaluations = [from_results(row) for row in found if isinstance(row, dict)]
    if not evaluations:
        evaluations = [from_log(row, tasks) for row in read_lines(path / "eval.log", problems)]
    for evaluation in evaluations:
        tasks += [task for task in evaluation.per_task if task not in tasks]
    if not evaluations:
        problems.append("it has no evaluation yet")
    return RunData(
        path=path,
        info=info,
        tasks=tuple(tasks),
        evaluations=list({e.step: e for e in sorted(evaluations, key=lambda e: e.step)}.values()),
        train=read_lines(path / "train.log", problems),
        videos=find_videos(path / "video", tasks),
        config=read_text(path / "config.yaml", problems),
        problems=problems,
    )
