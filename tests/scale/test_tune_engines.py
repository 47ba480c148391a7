"""Trials of a search as jobs of a real Slurm and of a real Ray."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from medley.scale.folder import noted
from tests.scale.slurm_cluster import Cluster, missing
from tests.scale.test_sweep import TINY

pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")

WORDS = [*TINY, "agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-1))", "objective=return", "setup.id=a"]


def check(folder: Path, engine: str, trials: int) -> None:
    with (folder / "trials.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert [row["state"] for row in rows] == ["complete"] * trials
    assert all(noted(folder / row["folder"] / "seed_1")["engine"] == engine for row in rows)


@pytest.mark.long
@pytest.mark.skipif(bool(missing()), reason=f"needs Slurm and munge: {', '.join(missing())} missing")
@pytest.mark.skipif(os.geteuid() != 0, reason="a cluster of one's own needs root")
def test_on_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two trials side by side."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm").mkdir()
    with Cluster(tmp_path / "slurm") as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.env["SLURM_CONF"])
        words = ["tune", *WORDS, "on=slurm", "jobs=2", "n_trials=2", "resources.time=10"]
        assert main(words) == 0
    folder = tmp_path / "tune/point/a"
    check(folder, "slurm", 2)
    assert all((folder / f"trial_00{i}" / "seed_1" / "run.slrm").exists() for i in (0, 1))
    assert "Best of 2: trial" in capsys.readouterr().out


@pytest.mark.long
def test_on_ray(ray: Any, tmp_path: Path) -> None:
    assert main(["tune", *WORDS, "on=ray", "n_trials=1"]) == 0
    check(tmp_path / "tune/point/a", "ray", 1)
