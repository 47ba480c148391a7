"""What a launched run has in its folder beside what every run has: `run.sh`, `run.slrm`, `id`, `stdout`, `stderr`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from medley.errors import DamagedError
from medley.files import read_json, write_json
from medley.scale.resources import Resources
from medley.scale.sweep import Job
from medley.training.run import Run

STOPPED = 130  # a run that was asked to stop, and is saved


def write_script(job: Job, resources: Resources) -> Path:
    """`run.sh` begins the run or goes on with it, from wherever it is started."""
    job.folder.mkdir(parents=True, exist_ok=True)
    # Inside a container this Python does not exist, and what it imports is not meant.
    container = shlex.split(resources.container)
    python = [*container, "python3"] if container else [sys.executable]
    command = shlex.join([*python, "-u", "-m", "medley", "train", *job.words, "logger.console=lines"])
    path = os.environ.get("PYTHONPATH")
    lines = ["#!/usr/bin/env bash", f"cd {shlex.quote(str(Path.cwd()))}"]
    lines += [f"export PYTHONPATH={shlex.quote(path)}"] if path and not container else []
    lines += [resources.before] if resources.before else []
    script = job.folder / "run.sh"
    script.write_text("\n".join([*lines, f"exec {command}", ""]), encoding="utf-8")
    script.chmod(0o755)
    return script


def note(folder: Path, **changes: Any) -> None:
    """What launching knows of a run: the engine, attempts, the last error."""
    path = folder / "launch.json"
    write_json(path, {**noted(folder), **changes})
    if "id" in changes:
        (folder / "id").write_text(f"{changes['id']}\n", encoding="utf-8")


def noted(folder: Path) -> dict[str, Any]:
    path = folder / "launch.json"
    try:
        return dict(read_json(path)) if path.is_file() else {}
    except (DamagedError, TypeError, ValueError):  # not worth a run: whether that is finished, it says itself
        return {}


def is_finished(folder: Path) -> bool:
    return bool(Run(folder).info().get("status") == "finished")


def last_error(folder: Path) -> str:
    path = folder / "stderr"
    lines = path.read_text(errors="replace").strip().splitlines() if path.is_file() else []
    return lines[-1] if lines else "it said nothing"
