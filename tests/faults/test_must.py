"""A MUST run killed in the middle of a refresh goes on as if nothing had happened."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from safetensors.numpy import load_file

from tests.faults import harness

WORDS = [
    "agent=must",
    "agent.trunk=must",
    "agent.must.hidden=8",
    "agent.must.latent=8",
    "agent.must.update_interval=4",
    "agent.must.refresh_updates=50",
    "experiment.num_train_steps=320",
]


def test_killed_within_a_refresh(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code, text = harness.run(harness.train_words(whole, *WORDS), tmp_path)
    assert code == 0, text
    for step in (80, 240):
        code, _ = harness.run(harness.train_words(broken, *WORDS), tmp_path, harness.stop_at(step, signal.SIGKILL))
        assert code == -signal.SIGKILL
        checkpoint = broken / "checkpoints" / str(step)
        began = int(load_file(checkpoint / "agent.safetensors")["must.clock"][1])
        updates = json.loads((checkpoint / "counters.json").read_text())["updates"]
        assert began < updates < began + 50, "this kill is not within a refresh"
    code, text = harness.run(["resume", str(broken)], tmp_path)
    assert code == 0, text
    assert "Going on from step 240" in text
    harness.assert_same_run(whole, broken)
