"""Seed 001's run_cluster.sh on a real Slurm: a job for every seed, preempted and cancelled like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medley.scale.folder import is_finished
from tests.compat.sac_ae import FOLDER, TINY
from tests.faults.harness import log_rows
from tests.scale.slurm_cluster import Cluster, preempt_and_cancel
from tests.scale.test_slurm import cluster, pytestmark  # noqa: F401

pytestmark = [*pytestmark, pytest.mark.long]
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
