"""Run folders as data: one run, all runs below some folders, and runs grouped by what they have in common."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medley.errors import MedleyError
from medley.reporting.run_files import (
    Evaluation,
    Video,
    find_videos,
    from_log,
    from_results,
    number,
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
    def seed(self) -> str:
        return str(self.info.get("seed", self.path.name.removeprefix("seed_")))

    @property
    def protocol(self) -> str:
        return str(self.info.get("protocol") or "")

    @property
    def status(self) -> str:
        return str(self.info.get("status") or "unknown")

    def progress(self, key: str) -> float:
        """`step`, `frames`, `updates` or `minutes`: the furthest that any file of the run mentions."""
        known = [number(self.info.get(key))]
        known += [number(row.get(key)) for row in self.train[-1:]]
        known += [number(getattr(e, key, None)) for e in self.evaluations[-1:]]
        return max((value for value in known if not math.isnan(value)), default=math.nan)


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in their seed only."""

    label: str
    env: str
    tasks: tuple[str, ...]
    runs: tuple[RunData, ...]


def find_runs(paths: Iterable[Path]) -> list[RunData]:
    """Every run in `paths`, each a run folder or any folder above some."""
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
            below[:] = sorted(name for name in below if ".old-" not in name)
    if not folders:
        places = ", ".join(str(path) for path in given) or "nothing"
        raise MedleyError(f"No run found in {places}: a run folder holds one of {', '.join(_MARKS)}.")
    return [read_run(folder) for folder in folders.values()]


def group_runs(runs: Sequence[RunData], labels: Mapping[Path, str] | None = None) -> list[RunGroup]:
    """Runs of the same env, config, tasks and protocol are the seeds of one group.

    `labels` says what the configs of some run folders are called, where that is not in the folders themselves.
    The same seed twice cannot be two seeds: such runs make one group per folder.
    """
    names = {id(run): (labels or {}).get(run.path.resolve(), run.config_name) for run in runs}
    groups: dict[tuple[object, ...], list[RunData]] = {}
    for run in runs:
        groups.setdefault((run.env, names[id(run)], run.tasks, run.protocol), []).append(run)
    split: list[list[RunData]] = []
    for members in groups.values():
        if len({run.seed for run in members}) == len(members):
            split.append(members)
            continue
        folders: dict[Path, list[RunData]] = {}
        for run in members:
            folders.setdefault(run.path.resolve().parent, []).append(run)
        split.extend(folders.values())

    one_env = len({run.env for run in runs}) == 1
    found = [names[id(members[0])] for members in split]
    shown = [name if one_env else f"{members[0].env} / {name}" for name, members in zip(found, split, strict=True)]
    named = []
    for index, (label, members) in enumerate(zip(shown, split, strict=True)):
        if shown.count(label) > 1:
            label = f"{label} ({shown[: index + 1].count(label)}: {members[0].path.parent})"
        members = sorted(members, key=lambda run: (len(run.seed), run.seed))
        named.append(RunGroup(label, members[0].env, members[0].tasks, tuple(members)))
    return named


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
