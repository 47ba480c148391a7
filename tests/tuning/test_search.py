"""The search itself, with Optuna and Hydra's sweeper for real and trials that take no time."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from medley.config.load import load_config
from medley.config.schema import Config
from medley.training.run import Run
from medley.tuning.launcher import Attempt, TrialLauncher
from medley.tuning.study import Tried, best_of
from tests.tuning.stand_in import RATE, WORDS, leave_results, near_a_hundredth, stand_in

pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as f:
        return list(csv.DictReader(f))


Tune = Callable[..., list[dict[str, str]]]


@pytest.fixture
def tune(here: Path) -> Tune:
    def run(name: str, *words: str, code: int = 0) -> list[dict[str, str]]:
        assert main(["tune", *WORDS, f"setup.id={name}", *words]) == code
        return rows(here / "tune/point" / name)

    return run


def test_finds_what_is_good(tune: Tune, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, near_a_hundredth)
    found = tune("a", RATE, "agent.actor.num_layers=range(1,3)", "n_trials=18")
    values = [float(row["success"]) for row in found]
    assert len(values) == 18
    assert max(values) > 0.95
    assert sum(values[10:]) / 8 > sum(values[:10]) / 10  # ten are drawn at random
    assert {row["agent.actor.num_layers"] for row in found} == {"1", "2", "3"}  # both ends belong to it
    said = capsys.readouterr().out
    best = max(found, key=lambda row: float(row["success"]))
    assert f"Best of 18: trial {best['trial']}, success" in said
    command = next(line for line in said.splitlines() if line.startswith("Train it: "))
    assert command.startswith("Train it: medley train env=point setup.device=cpu agent.")
    assert f"agent.actor.num_layers={best['agent.actor.num_layers']}" in command


def test_a_killed_search_goes_on_as_if_it_had_not_been(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [RATE, "agent.trunk=shared,disjoint,multi_head", "n_trials=9", "jobs=2", "sampler.n_startup_trials=4"]
    stand_in(monkeypatch, near_a_hundredth)
    whole = tune("whole", *words)
    carried_out = stand_in(monkeypatch, near_a_hundredth, killed_at=[0, 5, 8])
    for _ in range(3):
        with pytest.raises(SystemExit, match="killed"):
            tune("killed", *words)
    assert tune("killed", *words) == whole
    assert sorted(set(carried_out)) == list(range(9))


@pytest.mark.long
def test_more_trials_are_added_to_those_there_are(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    carried_out = stand_in(monkeypatch, near_a_hundredth)
    few = tune("a", RATE, "n_trials=3")
    assert tune("a", RATE, "n_trials=5")[:3] == few
    assert carried_out == [0, 1, 2, 3, 4]
    capsys.readouterr()
    tune("a", RATE, "n_trials=5")
    assert "5 of 5 trials are done" in capsys.readouterr().out
    assert len(carried_out) == 5
    tune("b", RATE, "n_trials=3", "sampler.seed=2")
    assert main(["tune", *WORDS, "setup.id=a", RATE, "objective=return"]) == 2
    assert "holds another search" in capsys.readouterr().err


def test_seeds_are_averaged(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, near_a_hundredth)
    (row,) = tune("a", RATE, "n_trials=1", "seeds=2,6")
    assert float(row["seed_6"]) - float(row["seed_2"]) == pytest.approx(0.04, abs=1e-5)
    assert float(row["success"]) == pytest.approx((float(row["seed_2"]) + float(row["seed_6"])) / 2, abs=1e-5)


@pytest.mark.long
def test_return_is_an_objective_too(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, near_a_hundredth)
    found = tune("a", RATE, "n_trials=8", "objective=return")
    best = max(found, key=lambda row: float(row["return"]))
    rate = float(best["agent.optimizers.actor.lr"])
    assert rate < 3e-4 or rate > 3e-2  # far from where success is largest


def test_a_grid_is_every_point_once(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, near_a_hundredth)
    words = ["agent.trunk=shared,disjoint", "agent.grad_clip=1.0,2.0", "sampler=grid"]
    tune("a", *words, "n_trials=3")
    found = tune("a", *words)  # twenty are asked for; there are four
    points = {(row["agent.trunk"], row["agent.grad_clip"]) for row in found}
    assert len(found) == 4
    assert len(points) == 4


@pytest.mark.long
def test_nothing_can_be_a_choice(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def score(config: Config) -> float:
        seen.append(config.agent.grad_clip)  # type: ignore[attr-defined]
        return 0.0

    stand_in(monkeypatch, score)
    tune("a", "agent.grad_clip=null,1.0", "n_trials=8")
    assert set(seen) == {None, 1.0}


@pytest.mark.long
def test_trials_that_fail(tune: Tune, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One does not stop the others; three in a row do, and the third is tried again."""
    broken = {1, 4, 5, 6}

    def carry_out(self: TrialLauncher, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt.trial.number in broken:
                attempt.error = "no such disk"
            else:
                for job in attempt.jobs:
                    leave_results(job.folder, load_config(job.words), near_a_hundredth)

    monkeypatch.setattr(TrialLauncher, "_carry_out", carry_out)
    words = ["tune", *WORDS, "setup.id=a", RATE, "n_trials=9"]
    assert main(words) == 2
    said = capsys.readouterr()
    assert "trial 1: failed: no such disk" in said.out
    assert "3 trials in a row failed, the last with: no such disk" in said.err
    broken.clear()
    found = tune("a", RATE, "n_trials=9")
    assert [row["state"] for row in found] == ["failed" if i in (1, 4, 5) else "complete" for i in range(9)]


def test_nobody_else_works_in_the_folder(tune: Tune, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = here / "tune/point/a"
    folder.mkdir(parents=True)
    held = Run(folder)
    held.lock()
    assert main(["tune", *WORDS, "setup.id=a", RATE]) == 2
    assert "another process is working in" in capsys.readouterr().err
    held.unlock()


def test_a_damaged_study_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = here / "tune/point/a"
    folder.mkdir(parents=True)
    (folder / "study.db").write_bytes(b"not a database" * 100)
    assert main(["tune", *WORDS, "setup.id=a", RATE]) == 2
    assert "study.db cannot be used" in capsys.readouterr().err


@pytest.mark.long
def test_trials_below_the_median_are_given_up(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By Optuna's own pruner, as evaluations come in: from the sixth trial on."""

    def carry_out(self: TrialLauncher, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            worth = 0.2 if attempt.trial.number == 6 else 0.8 + 0.01 * attempt.trial.number
            for steps in ([50], [50, 100], [50, 100, 200]):
                for job in attempt.jobs[: 1 if steps == [50] else 2]:  # the second seed is behind
                    leave_results(job.folder, load_config(job.words), lambda c, w=worth: w, steps)
                if self._look(attempts):
                    assert steps == [50, 100]
                    break

    monkeypatch.setattr(TrialLauncher, "_carry_out", carry_out)
    found = tune("a", RATE, "n_trials=8", "pruning=true", "seeds=2")
    assert [row["state"] for row in found] == ["complete"] * 6 + ["pruned", "complete"]
    assert float(found[6]["success"]) == pytest.approx(0.2 * 50 / 200)  # at the first evaluation that both had
    said = capsys.readouterr().out
    assert "trial 6: success 0.05 (given up early); best 0.85 by trial 5" in said
    assert "Best of 8: trial 7" in said


def test_what_was_given_up_is_never_the_best() -> None:
    made = [
        Tried(i, state, value, {}, {}, Path())
        for i, (state, value) in enumerate([("complete", 0.3), ("pruned", 0.9), ("failed", None), ("complete", 0.3)])
    ]
    assert best_of(made) == made[0]
    assert best_of(made[1:3]) is None
