"""kill -9 on a GPU: a resumed run ends as if nothing had happened, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.faults import harness

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

OPTIONS = ["setup.device=cuda", "experiment.num_train_steps=1200", "experiment.save_freq=100"]


def words(folder: Path, *more: str) -> list[str]:
    kept = [
        w for w in harness.OPTIONS if not w.startswith(("setup.device", "experiment.num_tr", "experiment.save_freq"))
    ]
    return [sys.executable, "-m", "medley", "train", *kept, *OPTIONS, f"setup.save_dir={folder}", *more]


def finish(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "more", [["setup.deterministic=true"], ["setup.deterministic=true", "experiment.learner=graph"]]
)
def test_killed_and_resumed(tmp_path: Path, more: list[str]) -> None:
    smooth, run = tmp_path / "smooth", tmp_path / "run"
    finish(words(smooth, *more))
    assert json.loads((smooth / "run.json").read_text())["updates"] >= 1000
    for step in (200, 700):
        child = subprocess.Popen(words(run, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        at = run / "checkpoints" / str(step)
        harness.wait_until(
            lambda at=at, child=child: harness.came(at) or child.poll() is not None, "it hangs", 300, 0.002
        )
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert json.loads((run / "run.json").read_text())["status"] == "running"
    finish(words(run, *more))
    harness.assert_same_run(smooth, run)
