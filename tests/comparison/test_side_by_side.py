"""`medley compare jobs=2`: processes side by side, and the same runs as one after the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medley.cli import main
from tests.comparison.test_compare import AGENTS, SMALL
from tests.faults.harness import assert_same_run, came, wait_until


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def test_the_same_runs_as_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = tmp_path / "alone"
    assert main(["compare", AGENTS, "seeds=4,", *SMALL, f"setup.base_path={alone}"]) == 0
    capsys.readouterr()
    # One that fails once it has begun: the weights that it is to start from are of another size.
    other = f"agent.critic.hidden_dim=8+experiment.init_from={alone}/runs/point/plain/seed_4+setup.id=other"
    words = ["compare", f"{AGENTS},state_sac+{other}", "seeds=4,", "jobs=2", *SMALL]
    assert main([*words, f"setup.base_path={tmp_path / 'beside'}"]) == 1
    said = capsys.readouterr()
    assert "Report over 2 runs" in said.out
    assert "other, seed 4 failed and is left out" in said.err
    assert "the network sizes differ" in said.err
    for name in ("plain", "heads"):
        assert_same_run(*(tmp_path / where / "runs/point" / name / "seed_4" for where in ("beside", "alone")))
    # Finished ones stay as they are, unless all begin anew.
    capsys.readouterr()
    words = ["compare", AGENTS, "seeds=4,", "jobs=2", *SMALL, f"setup.base_path={tmp_path / 'beside'}"]
    assert main(words) == 0
    assert capsys.readouterr().out.count("finished already") == 2
    assert main([*words, "--fresh"]) == 0
    assert (tmp_path / "beside/runs/point/plain/seed_4.old-1/results.json").is_file()


@pytest.mark.long
def test_stopped_and_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = [*SMALL, "experiment.num_train_steps=60000", "experiment.eval_freq=4000"]
    words = ["compare", AGENTS, "seeds=1", "jobs=2", *long, f"setup.base_path={tmp_path}"]
    child = subprocess.Popen([sys.executable, "-m", "medley", *words], stdout=subprocess.PIPE, text=True)
    runs = [tmp_path / "runs/point" / name / "seed_1" for name in ("plain", "heads")]
    wait_until(lambda: all(came(run / "checkpoints/4000") for run in runs), "they did not start", 100)
    os.kill(child.pid, signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "The same command goes on with the comparison." in said
    assert main(words) == 0
    assert [json.loads((run / "run.json").read_text())["step"] for run in runs] == [60000, 60000]
    assert all("Going on from step" in (run / "stdout").read_text() for run in runs)


@pytest.mark.parametrize("jobs", ["0", "two", "-1"])
def test_how_many(jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", AGENTS, f"jobs={jobs}", *SMALL, f"setup.base_path={tmp_path}"]) == 2
    assert "how many runs at a time" in capsys.readouterr().err
