"""What an action and an update take, and the memory they need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medley.cli import main

SMALL = ["agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "replay_buffer.batch_size=24", "setup.threads=1"]


def test_options_and_a_run_are_probed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["env=point-aux", "agent=vpace", "replay_buffer.capacity=1000", *SMALL]
    assert main(["probe", *words, "--seconds", "0.1", "--json"]) == 0
    said = capsys.readouterr().out
    result = json.loads(said.splitlines()[-1])
    cpu = result["devices"][0]
    assert 0 < cpu["action_ms"]["p50"] <= cpu["action_ms"]["p95"] <= cpu["action_ms"]["p99"]
    assert cpu["update_ms"]["p50"] > 0
    # obs 4 + 4, action 2, rewards 3, in 4 bytes each; an intention in 2; three flags
    assert cpu["replay_mb"] == pytest.approx(1000 * (13 * 4 + 2 + 3) / 1e6)
    assert "acts soonest on" in said

    run = [*words, "experiment.num_train_steps=60", "experiment.init_steps=20", "experiment.num_eval_episodes=1"]
    quiet = [
        "experiment.save_video=false",
        "experiment.save_report=false",
        "logger.console=none",
        "logger.use_tb=false",
        "setup.device=cpu",
    ]
    assert main(["train", *run, *quiet, f"setup.save_dir={tmp_path / 'run'}"]) == 0
    before = sorted(tmp_path.rglob("*"))
    assert main(["probe", str(tmp_path / "run"), "--seconds", "0.1"]) == 0
    assert sorted(tmp_path.rglob("*")) == before  # nothing is left behind
