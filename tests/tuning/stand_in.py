"""Trials that take no time: what a run would leave behind, with results that follow from its options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from medley.config.load import load_config
from medley.config.schema import Config
from medley.files import write_json
from medley.training.run import Run
from medley.tuning.launcher import Attempt, TrialLauncher

Score = Callable[[Config], float]
WORDS = ["env=point", "setup.device=cpu"]
RATE = "agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-1))"


def near_a_hundredth(config: Config) -> float:
    """1 at a learning rate of 0.01, and less for every magnitude away from it; seeds are a little apart."""
    distance = abs(math.log10(config.agent.optimizers.actor.lr) + 2)  # type: ignore[attr-defined]
    return 1 - distance / 3 + 0.01 * config.setup.seed


def leave_results(folder: Path, config: Config, score: Score, steps: Sequence[int] = (100, 200)) -> None:
    run = Run(folder)
    run.create(config)
    made = [{"step": step, "success": score(config) * step / 200, "return": -score(config)} for step in steps]
    write_json(folder / "results.json", {"evaluations": made})
    run.write_info(status="finished", step=steps[-1])


def stand_in(monkeypatch: pytest.MonkeyPatch, score: Score, killed_at: Sequence[int] = ()) -> list[int]:
    """From now on trials end at once; with `killed_at`, at some trials the search itself does. Those that were carried
    out are listed."""
    carried_out: list[int] = []
    left = list(killed_at)

    def carry_out(self: TrialLauncher, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt.trial.number in left:
                left.remove(attempt.trial.number)
                raise SystemExit("killed")
            carried_out.append(attempt.trial.number)
            for job in attempt.jobs:
                leave_results(job.folder, load_config([w for w in job.words if "config-dir" not in w]), score)

    monkeypatch.setattr(TrialLauncher, "_carry_out", carry_out)
    return carried_out
