"""Ten seeds on a real Slurm: one is preempted, one cancelled and launched again, and all end as if nothing had been."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from medley.scale.folder import is_finished
from medley.scale.status import standings
from tests.faults.harness import assert_same_run, wait_until
from tests.scale.slurm_cluster import PATIENCE, Cluster, missing, preempt_and_cancel, steps
from tests.scale.test_sweep import NAMED

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"needs Slurm and munge: {', '.join(missing())} missing"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a cluster of one's own needs root"),
]
LONGER = [*NAMED, "experiment.num_train_steps=5000", "experiment.eval_freq=2500"]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm").mkdir()
    with Cluster(tmp_path / "slurm") as made:
        monkeypatch.setenv("SLURM_CONF", made.env["SLURM_CONF"])
        yield made


@pytest.mark.parametrize("seeds", [3, pytest.param(10, marks=pytest.mark.long)])
def test_seeds_survive_a_cluster(cluster: Cluster, tmp_path: Path, seeds: int, capsys: Any) -> None:
    words = ["launch", "on=slurm", f"seeds={seeds}", "resources.time=1:00:00", *LONGER]
    assert main(words) == 0
    runs = [tmp_path / "runs" / "point" / "tiny" / f"seed_{i + 1}" for i in range(seeds)]
    assert all((run / name).exists() for run in runs for name in ("id", "run.sh", "run.slrm"))
    assert "#SBATCH --array=0-" in (runs[0] / "run.slrm").read_text()

    # Launched again while all are in the queue: nobody is submitted twice.
    capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().out.count("already") == seeds

    second = runs[1]
    preempt_and_cancel(cluster, runs[0], second)
    assert not is_finished(second)
    assert main(words) == 0

    cluster.finish(lambda: all(map(is_finished, runs)))
    assert {row.state for row in standings([tmp_path / "runs"])} == {"finished"}
    capsys.readouterr()
    assert main(words) == 0
    assert f"{seeds} finished, 0 to do" in capsys.readouterr().out
    for seed in range(1, seeds + 1) if seeds > 3 else (2,):  # the one that was disturbed most, at least
        alone = tmp_path / f"alone_{seed}"
        assert main(["train", *LONGER, f"setup.seed={seed}", f"setup.save_dir={alone}"]) == 0
        assert_same_run(runs[seed - 1], alone)


@pytest.mark.long
def test_a_time_limit(cluster: Cluster, tmp_path: Path) -> None:
    """Two runs share the only GPU in one job of two minutes, of which the last is for saving; then they go on."""
    options = [*NAMED, "experiment.eval_freq=0", "experiment.save_freq=5000"]
    words = ["launch", "on=slurm", "seeds=2", "resources.time=2", "resources.gpus=1", "resources.per_job=2", *options]
    assert main([*words, "experiment.num_train_steps=1000000000"]) == 0  # no machine does that within a minute
    runs = [tmp_path / "runs" / "point" / "tiny" / f"seed_{i + 1}" for i in range(2)]

    def stopped(times: int) -> bool:
        return all((run / "stdout").read_text().count("Stopped and saved") == times for run in runs)

    def went_on(run: Path) -> bool:
        cluster.start_now()
        found = re.search(r"Going on from step (\d+)", (run / "stdout").read_text())
        return found is not None and steps(run) > int(found[1])

    other = cluster.ask("sbatch", "--gres=gpu:1", "-o", "/dev/null", "--wrap", "true").split()[-1]  # behind them
    reason = ["squeue", "-h", "-j", other, "-o", "%r"]
    wait_until(lambda: "Resources" in cluster.ask(*reason), "there are two GPUs", PATIENCE)
    wait_until(lambda: all(steps(run) for run in runs), "they did not start together", PATIENCE)
    wait_until(lambda: stopped(1), "no limit came", PATIENCE)
    wait_until(lambda: all(map(went_on, runs)), "they did not go on", PATIENCE)
    cluster.ask("scancel", (runs[0] / "id").read_text().strip())
    wait_until(lambda: stopped(2), "they were not cancelled", PATIENCE)

    step = steps(runs[0])
    assert main(["train", *options, f"experiment.num_train_steps={step}", f"setup.save_dir={tmp_path / 'alone'}"]) == 0
    agents = [run / "checkpoints" / str(step) / "agent.safetensors" for run in (runs[0], tmp_path / "alone")]
    assert agents[0].read_bytes() == agents[1].read_bytes()
