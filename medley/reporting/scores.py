"""What is counted as a score: a number per run, task and evaluation of which 1 is as good as it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medley.reporting.alignment import Aligned
from medley.reporting.run_files import number
from medley.reporting.runs import RunData, RunGroup
from medley.reporting.statistics import Floats

CONTROL_STEPS = 1000  # of an episode of dm_control's suite; none of them is rewarded with more than 1


@dataclass(frozen=True)
class Scored:
    """A group's scores, [runs, tasks, points], and what they are."""

    group: RunGroup
    aligned: Aligned
    measure: str
    values: Floats

    @property
    def label(self) -> str:
        return self.aligned.label

    @property
    def final(self) -> Floats:
        """[runs, tasks]"""
        return self.values[..., -1]

    @property
    def step(self) -> int:
        return int(self.aligned.steps[-1])

    @property
    def env_steps(self) -> Floats:
        """The simulator's control steps per task at every point, as far as they are known."""
        run = self.aligned.runs[0]
        at, own = np.array([(e.step, e.env_step) for e in run.evaluations], dtype=np.float64).T
        steps = self.aligned.steps.astype(np.float64)
        return np.interp(steps, at, own) if np.isfinite(own).all() else steps

    @property
    def minutes(self) -> Floats | None:
        """Of training, [runs, points]; None where a log does not say."""
        rows = [minutes_at(run, self.aligned.steps.astype(np.float64)) for run in self.aligned.runs]
        known = [row for row in rows if row is not None]
        return np.stack(known) if len(known) == len(rows) else None


def scored(found: Sequence[tuple[RunGroup, Aligned]]) -> tuple[list[Scored], list[str]]:
    """The groups that have scores, and a sentence for every one that has none."""
    groups, reasons = [], []
    for group, aligned in found:
        top = highest_return(aligned.runs[0])
        if top is not None:
            groups.append(Scored(group, aligned, f"return / {top}", aligned.returns / top))
        elif not np.isfinite(aligned.success).any():
            reasons.append(f"{aligned.label} has no success rate, and there is no known range of returns.")
        elif aligned.runs[0].options.get("env.builder") == "gym" and not np.nan_to_num(aligned.success).any():
            # Most of Gymnasium's envs know no success: nothing would say that all methods are equally bad.
            reasons.append(
                f"{aligned.label} never had a success, which env={group.env} may not report at all, and there is no "
                "known range of its returns."
            )
        else:
            groups.append(Scored(group, aligned, "success", aligned.success))
    return groups, reasons


def highest_return(run: RunData) -> int | None:
    """Of an episode, where success does not say how good it was."""
    builder = run.options.get("env.builder") or run.env.partition("-")[0]
    if builder not in ("dmc", "hipbmdp"):
        return None
    steps = number(run.options.get("env.horizon")) * number(run.options.get("env.action_repeat"))
    return int(min(CONTROL_STEPS, steps)) if steps > 0 else CONTROL_STEPS


def minutes_at(run: RunData, steps: Floats) -> Floats | None:
    """How long training had taken at these steps; None where the log does not say."""
    rows = [(number(row["step"]), number(row.get("duration"))) for row in run.train]
    if not rows or not np.isfinite(rows).all() or rows[-1][0] < 0.9 * steps[-1]:
        return None
    at, seconds = np.array(rows, dtype=np.float64).T
    minutes: Floats = np.interp(steps, [0.0, *at], [0.0, *np.cumsum(seconds) / 60])
    return minutes
