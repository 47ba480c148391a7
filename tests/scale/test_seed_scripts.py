"""The seeds' scripts on a real Slurm: 001's run_cluster.sh, a job for every seed, and 003's run_review.sh in a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medley.scale.folder import is_finished
from tests.compat.commands import COMPAT
from tests.compat.sac_ae import FOLDER, TINY
from tests.faults.harness import log_rows, wait_until
from tests.scale.slurm_cluster import Cluster, preempt_and_cancel
from tests.scale.test_slurm import cluster, pytestmark  # noqa: F401

WORDS = ["--encoder_type", "identity", "--decoder_type", "identity", *TINY[TINY.index("--hidden_dim") :]]


def launch(*more: str, folder: Path) -> Any:
    asks = {"SLURM": "--cpus-per-task=1 --time=60", "SEEDS": "1 2", "PYTHON": sys.executable, "CONFIG": "sac_states"}
    words = [*WORDS, "--num_train_steps", "4000", "--eval_freq", "4000", "experiment.save_freq=40", *more]
    return subprocess.run(
        [str(FOLDER / "run_cluster.sh"), "cartpole", "swingup", *words],
        cwd=folder,
        env={**os.environ, **asks},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_seeds_survive_a_cluster(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    done = launch(folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (tmp_path / "runs" / "cartpole_swingup" / "sac_states" / f"seed_{i}" for i in (1, 2))
    assert {"id", "run.sh", "run.slrm"} <= {p.name for p in first.iterdir()}
    assert launch(folder=tmp_path).stdout.count("in the queue already") == 2
    preempt_and_cancel(cluster, first, second)
    assert not is_finished(second)
    assert launch(folder=tmp_path).returncode == 0

    cluster.finish(lambda: is_finished(first) and is_finished(second))
    assert launch(folder=tmp_path).stdout.count(": finished") == 2
    (tmp_path / "alone").mkdir()
    script = (first / "run.sh").read_text().replace(str(first), str(tmp_path / "alone"))
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=False).returncode == 0
    for name in ("train.log", "eval.log"):
        assert log_rows(first / name) == log_rows(tmp_path / "alone" / name)


def test_a_script_is_submitted(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Slurm runs a copy of it; sbatch is called in its folder, or elsewhere in the repository."""
    words = ["3", "50", "0.5", "1e-4", "1", "1", "10", "--print-only"]
    scripts = COMPAT / "must" / "t3s_scripts" / "must" / "mt10"
    out = tmp_path / "out"
    for folder in (scripts, COMPAT.parent):
        script = scripts.relative_to(folder) / "run_review.sh"
        monkeypatch.chdir(folder)
        asks = ["--time=5", f"--export=ALL,PYTHON={sys.executable}", "-o", str(out)]
        assert "Submitted" in cluster.ask("sbatch", "--wait", *asks, str(script), *words)
        wait_until(lambda: out.exists() and "agent.must.pruning_ratio=0.5" in out.read_text(), "nothing was said")
        out.unlink()


def test_a_job_is_left_in_the_queue(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    more = {"SLURM": "--cpus-per-task=1 --time=60 --hold --job-name=mine", "SEEDS": "1 2"}
    command = [str(FOLDER / "run_cluster.sh"), "cartpole", "swingup"]

    def called(**settings: str) -> str:
        env = {**os.environ, **more, **settings}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "in the queue already" not in called()
    assert called().count("in the queue already") == 2
    assert called(ON="local").count("in the queue already") == 2
