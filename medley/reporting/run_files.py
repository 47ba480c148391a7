"""The files of a run folder, read with tolerance: of a run under way, killed, or from a stranger.

Nothing here fails on a damaged file; what could not be read is added to `problems`. Only JSON and text are
read, never a format that can run code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medley.training.changes import flatten


@dataclass(frozen=True)
class TaskScore:
    """One task in one evaluation; NaN where the file does not say."""

    success: float
    ret: float
    episodes: int | None


@dataclass(frozen=True)
class Evaluation:
    """All tasks at one step."""

    step: int
    frames: float
    updates: float
    success: float
    ret: float
    per_task: dict[str, TaskScore]
    env_step: float = math.nan  # control steps of the simulator: more than `step` where actions are repeated


@dataclass(frozen=True)
class Video:
    """One episode of one task, as `video/<step>_<task>.mp4`, or `video/<step>.mp4` where there is one task."""

    path: Path
    step: int
    task: str


def number(value: object) -> float:
    """`value` as a float, NaN when it is no number."""
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.nan


def file_name(task: str) -> str:
    """A task's name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", task).strip(".-") or "task"


def read_text(path: Path, problems: list[str]) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
    except OSError as error:
        problems.append(f"{path.name} cannot be read ({error.strerror})")
    return ""


def read_json(path: Path, problems: list[str]) -> dict[str, Any]:
    text = read_text(path, problems)
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        problems.append(f"{path.name} is damaged")
        return {}
    return value


def read_lines(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """The rows of a log, in order of `step`; a line that is not whole is left out and said."""
    rows: list[dict[str, Any]] = []
    damaged = 0
    for line in read_text(path, problems).splitlines():
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not math.isfinite(number(row.get("step"))):
            damaged += 1
            continue
        # A resumed run repeats the steps after its checkpoint: the later writing is the one that counts.
        while rows and rows[-1]["step"] > row["step"]:
            rows.pop()
        rows.append(row)
    if damaged:
        problems.append(f"{path.name} has {damaged} line{'s' if damaged > 1 else ''} that cannot be read")
    return rows


def options_of(config: str) -> dict[str, Any]:
    """`agent.trunk` and so on from the text of a config.yaml; nothing where it cannot be read."""
    try:
        tree = yaml.safe_load(config)
        return flatten(tree) if isinstance(tree, dict) else {}
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):  # not YAML, or not of options
        return {}


def from_results(row: dict[str, Any]) -> Evaluation:
    per_task: dict[str, TaskScore] = {}
    scores = row.get("per_task")
    for task, score in scores.items() if isinstance(scores, dict) else ():
        if isinstance(score, dict):
            episodes = number(score.get("episodes"))
            count = int(episodes) if math.isfinite(episodes) else None
            per_task[str(task)] = TaskScore(number(score.get("success")), number(score.get("return")), count)
    return _evaluation(row, row.get("return"), per_task)


def from_log(row: dict[str, Any], tasks: Sequence[str]) -> Evaluation:
    per_task: dict[str, TaskScore] = {}
    for key in row:
        found = re.fullmatch(r"(?:success|episode_reward)_env_index_(\d{1,6})", key)
        if found:
            index = int(found[1])
            task = tasks[index] if index < len(tasks) else f"task {index}"
            success = number(row.get(f"success_env_index_{index}"))
            per_task[task] = TaskScore(success, number(row.get(f"episode_reward_env_index_{index}")), None)
    return _evaluation(row, row.get("episode_reward"), per_task)


def _evaluation(row: dict[str, Any], ret: object, per_task: dict[str, TaskScore]) -> Evaluation:
    step = number(row.get("step"))
    return Evaluation(
        step=int(step) if math.isfinite(step) else 0,
        frames=number(row.get("frames")),
        updates=number(row.get("updates")),
        success=number(row.get("success")),
        ret=number(ret),
        per_task=per_task,
        env_step=number(row.get("env_step")),
    )


def video_name(step: int, task: str, tasks: Sequence[str]) -> str:
    return f"{step}.mp4" if len(tasks) == 1 else f"{step}_{file_name(task)}.mp4"


def find_videos(folder: Path, tasks: Sequence[str]) -> list[Video]:
    named = {file_name(task): task for task in tasks}
    videos = []
    for path in sorted(folder.glob("*.mp4")) if folder.is_dir() else []:
        found = re.fullmatch(r"(\d{1,15})(?:_(.+))?", path.stem)
        if found and path.is_file():
            task = named.get(found[2], found[2]) if found[2] else tasks[0] if tasks else path.stem
            videos.append(Video(path, int(found[1]), task))
    return sorted(videos, key=lambda video: video.step)
