"""Ten seeds on a real Slurm: one is preempted, one cancelled and launched again, and all end as if nothing had been."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from medley.scale.folder import is_finished, noted
from medley.scale.status import standings
from tests.faults.harness import assert_same_run
from tests.scale.slurm_cluster import Cluster, missing
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


def wait_until(true: Callable[[], object], what: str, seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.1)


def steps(run: Path) -> int:
    return max((int(p.name) for p in (run / "checkpoints").glob("*") if p.name.isdigit()), default=0)


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

    # Somebody more important needs the whole node for a moment.
    first, second = runs[0], runs[1]
    wait_until(lambda: steps(first) >= 80 and steps(second) >= 80, "they did not start")
    cluster.ask("sbatch", "-p", "high", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1")
    wait_until(lambda: (first / "stdout").read_text().count("Stopped and saved") == 1, "it was not preempted")

    # Another is cancelled once it is under way again, and launched again.
    def back() -> bool:
        cluster.start_now()
        return (second / "stdout").read_text().count("Going on from step") == 1

    wait_until(back, "it was not requeued")
    cluster.ask("scancel", str(noted(second)["id"]))
    wait_until(lambda: (second / "stdout").read_text().count("Stopped and saved") == 2, "it was not cancelled")
    wait_until(lambda: not cluster.ask("squeue", "-h", "-j", str(noted(second)["id"])).strip(), "it is still there", 60)
    assert not is_finished(second)
    assert main(words) == 0

    def over() -> bool:
        cluster.start_now()
        return all(map(is_finished, runs))

    wait_until(over, "they do not end", 600)
    assert {row.state for row in standings([tmp_path / "runs"])} == {"finished"}
    capsys.readouterr()
    assert main(words) == 0
    assert f"{seeds} finished, 0 to do" in capsys.readouterr().out
    for i, run in enumerate(runs):
        alone = tmp_path / f"alone_{i + 1}"
        assert main(["train", *LONGER, f"setup.seed={i + 1}", f"setup.save_dir={alone}"]) == 0
        assert_same_run(run, alone)
