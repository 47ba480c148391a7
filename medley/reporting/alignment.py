"""The seeds of one group brought onto one axis of steps, as arrays ready for statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from medley.reporting.run_files import Evaluation
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.statistics import Band, Floats, bootstrap_band

Steps = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Aligned:
    """`success` and `returns` [seeds, tasks, points] at `steps`; `episodes` per task at the last of them."""

    label: str
    tasks: tuple[str, ...]
    seeds: tuple[str, ...]
    steps: Steps
    success: Floats
    returns: Floats
    episodes: tuple[int | None, ...]
    notes: tuple[str, ...]
    runs: tuple[RunData, ...] = ()  # those that take part, in the order of `seeds`

    @cached_property
    def success_band(self) -> Band:
        return bootstrap_band(self.success)

    @cached_property
    def return_band(self) -> Band:
        return bootstrap_band(self.returns)

    def task_band(self, task: str, returns: bool = False) -> Band:
        """One task's mean over the seeds."""
        index = self.tasks.index(task)
        return bootstrap_band((self.returns if returns else self.success)[:, index : index + 1])


def align(group: RunGroup) -> Aligned | None:
    """The evaluations of all seeds at common steps, or None when no seed has one.

    - The points are the steps at which *every* seed was evaluated; the curve ends where the shortest run
      ends, for a mean over fewer seeds from some step on would jump for no reason of the agent's.
    - Seeds with at most one step in common are interpolated linearly, onto every step any of them was
      evaluated at within the range that all of them cover.
    - Left out, and said in `notes`: a seed without an evaluation, one still running that is not half as far
      as the furthest, and one that shares no range with the others.
    """
    notes = list(group.notes)
    runs = [run for run in group.runs if run.evaluations]
    _leave_out(notes, group, [run for run in group.runs if not run.evaluations], "has no evaluation")
    if not runs:
        return None
    furthest = max(run.evaluations[-1].step for run in runs)
    late = [run for run in runs if run.status == "running" and run.evaluations[-1].step < furthest / 2]
    _leave_out(notes, group, late, f"is running and has not reached half of step {furthest:,}")
    runs = [run for run in runs if run not in late]

    steps = [np.array([evaluation.step for evaluation in run.evaluations]) for run in runs]
    common: Steps = reduce(np.intersect1d, steps)
    if common.size < min(2, max(each.size for each in steps)):
        common = _shared_range(steps)
        if common.size > 1:
            notes.append(f"Seeds of {group.label} were evaluated at different steps: interpolated.")
        elif not common.size:
            longest = max(runs, key=lambda run: run.evaluations[-1].step)
            _leave_out(notes, group, [run for run in runs if run is not longest], "shares no steps with the rest")
            runs, common = [longest], np.array([evaluation.step for evaluation in longest.evaluations])
    short = [run.seed for run in runs if run.evaluations[-1].step < furthest]
    if short:
        notes.append(f"{group.label} is shown up to step {common[-1]:,}, where seed {', '.join(short)} ends.")

    # Where only averages were kept they stand for one task, and nothing per task can be said.
    tasks = group.tasks if any(e.per_task for run in runs for e in run.evaluations) else ("all tasks",)
    table = np.stack([_values(run, tasks, common) for run in runs])
    success, returns = np.moveaxis(table, 1, 0)
    seeds = tuple(run.seed for run in runs)
    episodes = _episodes(runs, tasks, int(common[-1]))
    return Aligned(group.label, tasks, seeds, common, success, returns, episodes, tuple(notes), tuple(runs))


def _leave_out(notes: list[str], group: RunGroup, runs: list[RunData], why: str) -> None:
    notes.extend(f"Seed {run.seed} of {group.label} {why} and is left out." for run in runs)


def _values(run: RunData, tasks: tuple[str, ...], steps: Steps) -> Floats:
    """[success and return, tasks, steps]: exact where the run was evaluated, linear in between."""

    def column(evaluation: Evaluation) -> list[tuple[float, float]]:
        if not evaluation.per_task and len(tasks) == 1:
            return [(evaluation.success, evaluation.ret)]
        scores = [evaluation.per_task.get(task) for task in tasks]
        return [(score.success, score.ret) if score else (np.nan, np.nan) for score in scores]

    own = [evaluation.step for evaluation in run.evaluations]
    table = np.array([column(evaluation) for evaluation in run.evaluations], dtype=np.float64)
    lines = [np.interp(steps, own, table[:, task, kind]) for kind in (0, 1) for task in range(len(tasks))]
    return np.array(lines, dtype=np.float64).reshape(2, len(tasks), len(steps))


def _episodes(runs: list[RunData], tasks: tuple[str, ...], step: int) -> tuple[int | None, ...]:
    """How many episodes, over all seeds, stand behind each task's last value."""
    last = [[e for e in run.evaluations if e.step <= step][-1].per_task for run in runs]
    counts = [[scores[task].episodes if task in scores else None for scores in last] for task in tasks]
    return tuple(None if None in row else sum(count or 0 for count in row) for row in counts)


def _shared_range(steps: list[Steps]) -> Steps:
    every = np.unique(np.concatenate(steps))
    low, high = max(each[0] for each in steps), min(each[-1] for each in steps)
    return np.asarray(every[(every >= low) & (every <= high)])
