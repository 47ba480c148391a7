"""One run as the page's script reads it: its facts, its curves, its options, its videos."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from medley.reporting.quantities import Plan
from medley.reporting.run_files import Video, number
from medley.reporting.runs import RunData
from medley.reporting.statistics import Floats
from medley.reporting.thinning import binned, rounded

Json = dict[str, Any]
Place = Callable[[Video], Json]

EVALUATIONS = 300  # points of one curve


def entry(
    run: RunData,
    tasks: Sequence[str],
    steps: Sequence[int],
    chosen: Plan,
    own: Mapping[str, str | None],
    place: Place,
) -> Json:
    """One run. `tasks` and `steps` are its group's; `place` says where a video is to be had."""
    last = run.evaluations[-1] if run.evaluations else None
    facts = {key: run.info[key] for key in ("commit", "started", "versions", "machine") if key in run.info}
    evaluations, training = _evaluations(run, tasks, steps), _training(run, chosen)
    # A run under way writes its own count only now and then.
    known = [run.progress("minutes"), *training.get("minute", [])[-1:]]
    return {
        "env": run.env,
        "config_name": run.config_name,
        "seed": run.seed,
        "status": run.status,
        "path": str(run.path),
        "command": str(run.info.get("command") or ""),
        "facts": facts,
        "problems": run.problems,
        "step": _one(run.progress("step")),
        "minutes": _one(max((m for m in known if math.isfinite(m)), default=math.nan)),
        "success": _one(last.success if last else math.nan),
        "return": _one(last.ret if last else math.nan),
        "own": dict(own),
        "config": "" if run.options else run.config,
        "eval": evaluations,
        "train": training,
        "videos": [{"task": v.task, "step": v.step, **place(v)} for v in reversed(run.videos)],
    }


def _one(value: float) -> Any:
    return rounded([value])[0]


def _evaluations(run: RunData, tasks: Sequence[str], steps: Sequence[int]) -> Json:
    found = run.evaluations
    if len(found) > EVALUATIONS:
        wanted = {*steps, found[-1].step}
        found = [evaluation for evaluation in found if evaluation.step in wanted]
    table = np.full((2, len(tasks), len(found)), np.nan)
    for point, evaluation in enumerate(found):
        if not evaluation.per_task and len(tasks) == 1:
            table[:, 0, point] = evaluation.success, evaluation.ret
        for index, task in enumerate(tasks):
            score = evaluation.per_task.get(task)
            if score:
                table[:, index, point] = score.success, score.ret
    own = np.array([evaluation.step for evaluation in found], dtype=np.float64)
    axes = _axes(run, own, np.array([evaluation.frames for evaluation in found]))
    return {**axes, "success": rounded(table[0]), "return": rounded(table[1])}


def _training(run: RunData, chosen: Plan) -> Json:
    steps, values = binned(run, ["frames", *chosen.keys], chosen.points)
    columns = dict(zip(["frames", *chosen.keys], values.T, strict=True))
    shown = _axes(run, steps, columns["frames"])
    for key in chosen.scalars:
        if np.isfinite(columns[key]).any():
            shown[f"train:{key}"] = rounded(columns[key], 4)
    for name, keys in chosen.by_task:
        table = np.array([columns[key] for key in keys[: len(run.tasks)]])
        if np.isfinite(table).any():
            shown[f"task:{name}"] = rounded(table, 4)
    return shown


def _axes(run: RunData, steps: Floats, frames: Floats) -> Json:
    """Steps, frames and minutes of training at the same points; the last two where they are known."""
    axes: Json = {"step": rounded(steps, 9)}
    if len(steps) and np.isfinite(frames).all():
        factor = float(frames[-1] / steps[-1]) if steps[-1] else 1.0
        # Nearly always so many frames to a step: one number instead of a list.
        axes["frame"] = _one(factor) if np.allclose(frames, factor * steps) else rounded(frames, 9)
    seconds = [number(row.get("duration")) for row in run.train]
    if seconds and np.isfinite(seconds).all():
        at = np.array([0.0, *(number(row["step"]) for row in run.train)])
        axes["minute"] = rounded(np.interp(steps, at, np.cumsum([0.0, *seconds]) / 60), 4)
    return axes
