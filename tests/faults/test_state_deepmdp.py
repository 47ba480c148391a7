"""A run that learns a model beside actor and critics goes on where it was killed and where it was stopped."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults import harness

WORDS = [
    "agent.n_step=1",
    "agent.model_dim=16",
    "agent.encoder.feedforward.feature_dim=6",
    "agent.encoder.feedforward.hidden_dim=8",
    "experiment.num_train_steps=200",
]


@pytest.mark.parametrize("agent", ["state_deepmdp", pytest.param("gradnorm_state_deepmdp", marks=pytest.mark.long)])
def test_killed_and_resumed_equals_undisturbed(agent: str, tmp_path: Path) -> None:
    words = [f"agent={agent}", *WORDS]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code, text = harness.run(harness.train_words(whole, *words), tmp_path)
    assert code == 0, text
    assert {"ae_transition_loss", "reward_loss"} <= harness.log_rows(whole / "train.log")[-1].keys()
    for step, number, status in ((80, signal.SIGKILL, -signal.SIGKILL), (160, signal.SIGTERM, 130)):
        code, text = harness.run(harness.train_words(broken, *words), tmp_path, harness.stop_at(step, number))
        assert code == status, text
    code, text = harness.run(["resume", str(broken)], tmp_path)
    assert code == 0, text
    assert "Going on from step 160" in text
    harness.assert_same_run(whole, broken)
