"""Whole searches: real trials on `env=point`, killed and stopped in the middle."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medley.cli import main
from medley.scale import local
from medley.scale.launch import prepare
from medley.scale.sweep import Job, Request
from medley.training.checkpoints import Checkpoints
from tests.faults.harness import came, wait_until
from tests.scale.test_sweep import TINY

optuna = pytest.importorskip("optuna")
pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")

ROOT = Path(__file__).resolve().parents[2]
LONGER = [*TINY, "experiment.num_train_steps=1200", "experiment.eval_freq=600"]
SEARCH = ["agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-1))", "objective=return", "n_trials=2", "setup.id=a"]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "medley", "tune", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(run: Path, seconds: float = 60) -> None:
    """Until it has begun to learn."""
    wait_until(lambda: max(Checkpoints(run, 1).steps(), default=0) >= 80, f"{run} did not start", seconds)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "tune/point/a/trials.csv").open() as f:
        return list(csv.DictReader(f))


@pytest.mark.long
def test_killed_in_the_middle_it_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    words = [*LONGER, *SEARCH, "experiment.num_train_steps=6000", "experiment.eval_freq=3000"]
    reference = start(whole, *words)
    first = start(killed, *words)
    under_way = killed / "tune/point/a/trial_001/seed_1"
    wait_for(under_way, 300)  # a whole trial comes before, beside another search
    first.kill()  # SIGKILL
    os.kill(int((under_way / "id").read_text()), signal.SIGKILL)  # and the run, which would go on by itself
    first.wait()
    assert json.loads((under_way / "run.json").read_text())["status"] == "running"
    said, _ = start(killed, *words).communicate(timeout=300)
    assert "1 of 2 trials are done, 1 to go on with" in said
    assert "goes on" in said
    assert "Going on from step" in (under_way / "stdout").read_text()
    assert reference.wait(300) == 0
    assert table(killed) == table(whole)
    assert [row["state"] for row in table(whole)] == ["complete", "complete"]
    assert table(whole)[0]["return"] != table(whole)[1]["return"]

    # What it leaves behind, and what it says in the end.
    folder = killed / "tune/point/a"
    assert (folder / "trials.png").read_bytes().startswith(b"\x89PNG")
    study = optuna.load_study(study_name="medley", storage=f"sqlite:///{folder / 'study.db'}")
    last = json.loads((under_way / "results.json").read_text())["evaluations"][-1]
    assert (study.trials[1].value, last["step"]) == (pytest.approx(last["return"]), 6000)
    assert f"Best of 2: trial {study.best_trial.number}, return" in said
    assert f"agent.optimizers.actor.lr={study.best_params['agent.optimizers.actor.lr']}" in said


@pytest.mark.long
def test_asked_to_stop_it_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = [*LONGER, *SEARCH, "jobs=2", "experiment.num_train_steps=1000000", "seeds=2"]
    first = start(tmp_path, *more)
    runs = [tmp_path / "tune/point/a/trial_000" / f"seed_{seed}" for seed in (1, 2)]
    for run in runs:
        wait_for(run)
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "The same command goes on." in said
    assert [json.loads((run / "run.json").read_text())["status"] for run in runs] == ["stopped", "stopped"]
    monkeypatch.chdir(tmp_path)
    assert main(["status", "tune"]) == 0


def test_a_run_that_nobody_wants_is_stopped_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    jobs = []
    for seed, steps in ((1, 1200), (2, 1_000_000)):  # the second would never end by itself
        folder = tmp_path / str(seed)
        own = (f"experiment.num_train_steps={steps}", f"setup.seed={seed}", f"setup.save_dir={folder}")
        jobs.append(Job((*LONGER, *own), folder, "new"))
    request = Request(jobs=2)
    prepare(request, jobs)
    unwanted = jobs[1].folder

    def look() -> tuple[Path, ...]:
        return (unwanted,) if came(unwanted / "checkpoints" / "80") else ()

    assert local.carry_out([job.folder for job in jobs], request, print, look) == 130
    ends = [json.loads((job.folder / "run.json").read_text())["status"] for job in jobs]
    assert ends == ["finished", "stopped"]
