"""Sweeps on this machine: what is started, skipped, started again, and given up."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from medley.errors import ConfigError
from medley.scale.folder import noted
from medley.scale.launch import summary
from medley.scale.slurm import minutes
from medley.scale.status import standings, table
from medley.scale.sweep import plan, read
from medley.scale.worker import Worker
from tests.faults.harness import assert_same_run, came, wait_until

TINY = [
    *("env=point", "agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "replay_buffer.batch_size=18"),
    *("replay_buffer.capacity=400", "experiment.num_train_steps=200", "experiment.init_steps=20", "setup.threads=1"),
    *("experiment.eval_freq=100", "experiment.save_freq=40", "experiment.num_eval_episodes=1", "setup.device=cpu"),
    *("experiment.save_video=false", "experiment.save_report=false", "logger.use_tb=false"),
]
NAMED = [*TINY, "setup.id=tiny"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sweep_is_every_combination(here: Path) -> None:
    request = read([*TINY, "seeds=3", "agent=state_sac,care", "on=slurm", "resources.gpus=1", "resources.time=2:00:00"])
    jobs = plan(request)
    assert len(jobs) == 6
    assert {job.folder.parent.parent.name for job in jobs} == {"point"}
    assert {job.folder.name for job in jobs} == {"seed_1", "seed_2", "seed_3"}
    assert all(job.standing == "new" for job in jobs)
    assert (request.on, request.resources.gpus, request.resources.time) == ("slurm", 1.0, "2:00:00")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("on=slrum", "Did you mean 'slurm'"),
        ("resources.gpu=1", "Did you mean 'gpus'"),
        ("resources.cpus=many", "should be a number"),
        ("jobs=0", "whole number"),
        ("setup.seed=3", "seeds= says which"),
        ("sedes=3", "Did you mean 'seeds'"),
        ("experiment.num_train_stesp=3", "num_train_steps"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_starts(here: Path, word: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(read([*TINY, word]))
    assert not (here / "runs").exists()


def test_times_are_minutes() -> None:
    """As sbatch reads them."""
    assert [minutes(text) for text in ("90", "2:00:00", "1-12:00:00", "0:10:30")] == [90, 120, 2160, 11]
    assert [minutes(text) for text in ("30:00", "1:30", "1-12", "1-12:30")] == [30, 2, 2160, 2190]
    for wrong in ("soon", "x-2:00:00", "-5", "0", "1:2:3:4", "1-", "2:"):
        with pytest.raises(ConfigError, match="like 24:00:00"):
            minutes(wrong)


def test_launched_runs_are_those_of_medley_train(here: Path, capsys: Any) -> None:
    assert main(["launch", "jobs=2", "seeds=2", *NAMED, "experiment.save_report=true"]) == 0
    assert "2 finished" in capsys.readouterr().out
    runs = here / "runs" / "point" / "tiny"
    for seed in (1, 2):
        run = runs / f"seed_{seed}"
        assert {"id", "stdout", "stderr", "run.sh", "train.log", "eval.log", "report.html"} <= {
            p.name for p in run.iterdir()
        }
        assert "| eval | S: 200 |" in (run / "stdout").read_text()
    assert main(["train", *NAMED, f"setup.save_dir={here / 'alone'}"]) == 0
    assert_same_run(runs / "seed_1", here / "alone")
    (runs / "seed_2" / "report.html").unlink()  # as if it had been interrupted while it wrote that
    assert Worker([runs / "seed_2"], 0, "local")() == {str(runs / "seed_2"): "finished"}
    assert (runs / "seed_2" / "report.html").exists()
    capsys.readouterr()
    assert main(["launch", "seeds=3", *NAMED, "--dry-run"]) == 0
    assert "2 finished, 1 to do" in capsys.readouterr().out
    rows = standings([here / "runs"])
    assert [row.state for row in rows] == ["finished", "finished"]
    assert main(["status", str(here / "runs")]) == 0
    assert "200 of 200" in capsys.readouterr().out


def test_a_run_that_fails_is_tried_again_and_then_reported(here: Path, capsys: Any) -> None:
    words = ["launch", "retries=1", *NAMED]
    assert main([*words, "--dry-run"]) == 0
    folder = here / "runs" / "point" / "tiny" / "seed_1"
    broken = ["resources.before=echo trying >&2; [ -e gone ] || { echo no such disk >&2; exit 3; }"]
    assert main([*words, *broken]) == 1
    said = capsys.readouterr().out
    assert "failed 2 times" in said
    assert "no such disk" in said
    assert (folder / "stderr").read_text().count("trying") == 2
    assert standings([here / "runs"])[0].state == "failed"
    assert "no such disk" in table(standings([here / "runs"]))
    (here / "gone").touch()  # mended
    assert main([*words, *broken]) == 0


def test_what_the_launcher_itself_meets_is_a_failure_too(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["launch", "retries=0", *NAMED]
    assert main(words) == 0
    folder = here / "runs" / "point" / "tiny" / "seed_1"
    (folder / "run.json").write_text("{ torn")
    capsys.readouterr()
    assert Worker([folder], 0, "local")() == {str(folder): "failed"}
    assert "run.json is not readable JSON" in capsys.readouterr().err
    assert "run.json is not readable JSON" in noted(folder)["error"]
    (folder / "launch.json").write_text("{ torn")  # what launching knew is not worth a run
    assert noted(folder) == {}
    # A disk that is full by the time that a run has been started: it does not go on by itself.
    (folder / "run.sh").write_text("exec sleep 1000\n")
    (folder / "run.json").unlink()
    children: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: (children.append(popen(*a, **k)), children[-1])[1])

    def full(*args: Any, **changes: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("medley.scale.worker.note", full)
    ends = Worker([folder], 0, "local")()
    assert ends == {str(folder): "failed"}
    assert summary(ends, print) == 1
    assert [child.returncode for child in children] == [-signal.SIGTERM]


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "medley", "launch", *words], stdout=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    wait_until(lambda: came(path), f"{path} never came")


@pytest.mark.long
def test_a_killed_launcher_loses_nothing(here: Path) -> None:
    """Its run goes on; the same command waits for it and does the rest."""
    words = [*NAMED, "experiment.num_train_steps=6000", "seeds=2"]
    first = start(*words)
    folder = here / "runs" / "point" / "tiny"
    wait_for(folder / "seed_1" / "checkpoints" / "80")
    first.kill()
    first.wait()
    child = int((folder / "seed_1" / "id").read_text())
    os.kill(child, 0)  # still there
    again = start(*words)
    assert again.communicate(timeout=120)[0].count("finished") >= 2
    assert again.returncode == 0
    assert (folder / "seed_1" / "stdout").read_text().count("Run folder:") == 1


def test_asked_to_stop_runs_save_themselves_at_the_same_time(here: Path) -> None:
    first = start(*NAMED, "experiment.num_train_steps=1000000", "seeds=2", "jobs=2")
    folders = [here / "runs" / "point" / "tiny" / f"seed_{seed}" for seed in (1, 2)]
    for folder in folders:
        wait_for(folder / "checkpoints" / "80")
    slow = int((folders[0] / "id").read_text())
    os.killpg(slow, signal.SIGSTOP)
    first.send_signal(signal.SIGINT)
    wait_until(
        lambda: json.loads((folders[1] / "run.json").read_text())["status"] == "stopped", "it waits for the first"
    )
    os.killpg(slow, signal.SIGCONT)
    assert "2 stopped" in first.communicate(timeout=60)[0]
    assert first.returncode == 130
    assert json.loads((folders[0] / "run.json").read_text())["status"] == "stopped"
    assert [(row.state, row.of) for row in standings(folders)] == [("stopped", 1_000_000)] * 2
