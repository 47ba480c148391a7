"""Runs from pictures, killed and resumed: pictures drawn by OpenGL, frames in replay, decoder and all."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults import harness

SMALL = [
    "setup.threads=1",
    "setup.device=cpu",
    "agent.pixels.num_layers=2",
    "agent.pixels.num_filters=8",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.batch_size=4",
    "replay_buffer.capacity=100",  # wraps around
    "experiment.num_train_steps=160",
    "experiment.init_steps=20",
    "experiment.eval_freq=80",
    "experiment.save_freq=40",
    "experiment.num_eval_episodes=1",
    "experiment.save_video=false",
    "logger.use_tb=false",
    "logger.console=lines",
]

RUNS = {
    "sac_ae on dm_control": [
        "env=dmc-cartpole-swingup",
        "env.render_profile=fast",
        "env.image_size=20",
        "agent=sac_ae",
    ],
    "drqv2 on point": ["env=point", "env.num_tasks=2", "env.image_size=16", "agent=drqv2", "agent.std_steps=100"],
}


@pytest.mark.parametrize("name", RUNS)
def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, name: str) -> None:
    words = ["train", *RUNS[name], *SMALL]
    code, text = harness.run([*words, f"setup.save_dir={tmp_path / 'a'}"], tmp_path)
    assert code == 0, text
    for number, at in ((signal.SIGKILL, 80), (signal.SIGTERM, 120)):
        code, text = harness.run([*words, f"setup.save_dir={tmp_path / 'b'}"], tmp_path, harness.stop_at(at, number))
        assert code in (-signal.SIGKILL, 130), text
    code, text = harness.run(["resume", str(tmp_path / "b")], tmp_path)
    assert code == 0, text
    assert "Going on from step 120" in text
    harness.assert_same_run(tmp_path / "a", tmp_path / "b", harness.replay_samples)
