"""A small run on `env=point`, trained once, and a copy of it for every test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    *(
        "agent.actor.hidden_dim=16",
        "agent.critic.hidden_dim=16",
        "setup.device=cpu",
        "experiment.save_video=false",
        "experiment.save_report=false",
    ),
    *("experiment.init_steps=50", "experiment.num_eval_episodes=2", "logger.use_tb=false", "logger.console=none"),
]


def train(folder: Path, *words: str) -> Path:
    place = folder / "run"
    command = [sys.executable, "-m", "medley", "train", *TINY, f"setup.save_dir={place}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ["env=point", "experiment.num_train_steps=900", "experiment.eval_freq=450", "agent.trunk=multi_head"]
    return train(tmp_path_factory.mktemp("point"), *words)


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"
