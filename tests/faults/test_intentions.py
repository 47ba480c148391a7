"""Runs with several intentions, killed and resumed: schedulers, experts, medians and all."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults import harness
from tests.faults.test_pixels import run

SMALL = [
    *("env=point-aux", "env.slots_per_task=2", "setup.threads=1", "setup.device=cpu", "agent.scheduler.period=7"),
    *("agent.actor.hidden_dim=16", "agent.critic.hidden_dim=16", "replay_buffer.batch_size=24"),
    *("replay_buffer.capacity=200", "experiment.num_train_steps=480", "experiment.init_steps=60"),
    *("experiment.eval_freq=240", "experiment.save_freq=120", "experiment.num_eval_episodes=1"),
    *("experiment.save_video=false", "logger.use_tb=false", "logger.console=lines"),
]
RUNS = {
    "vpace": ["agent=vpace", "agent.scheduler.lists=[[1,0],[2,1,0]]", "agent.expert.decay=0.999"],
    "rce": ["agent=rce", "agent.n_step=5"],
    "lfgp": ["agent=lfgp", "agent.penalty.kind=value", "agent.expert.share=0.25", "agent.discriminator.hidden_dim=16"],
    "sacx": ["agent=sacx", "agent.scheduler.kind=q_table"],
}


@pytest.mark.parametrize(
    "name", [name if name == "vpace" else pytest.param(name, marks=pytest.mark.long) for name in RUNS]
)
def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, name: str) -> None:
    words = ["train", *SMALL, *RUNS[name]]
    code, text = run([*words, f"setup.save_dir={tmp_path / 'a'}"])
    assert code == 0, text
    broken = tmp_path / "b"
    for number, at in ((signal.SIGKILL, 120), (signal.SIGTERM, 240)):
        code, text = run([*words, f"setup.save_dir={broken}"], broken / "checkpoints" / str(at), number)
        assert code in (-signal.SIGKILL, 130), text
    code, text = run(["resume", str(broken)])
    assert code == 0, text
    assert "Going on from step" in text
    harness.assert_same_run(tmp_path / "a", broken, harness.replay_samples)
