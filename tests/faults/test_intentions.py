"""Runs with several intentions, killed and resumed: schedulers, experts, medians and all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.test_pixels import assert_survives

SMALL = [
    *("env=point-aux", "env.slots_per_task=2", "setup.threads=1", "setup.device=cpu", "agent.scheduler.period=7"),
    *("agent.actor.hidden_dim=16", "agent.critic.hidden_dim=16", "replay_buffer.batch_size=24"),
    *("replay_buffer.capacity=200", "experiment.num_train_steps=480", "experiment.init_steps=60"),
    *("experiment.eval_freq=240", "experiment.save_freq=120", "experiment.num_eval_episodes=1"),
    *("experiment.save_video=false", "experiment.save_report=false", "logger.use_tb=false", "logger.console=lines"),
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
    assert_survives(tmp_path, ["train", *SMALL, *RUNS[name]], kill_at=120, stop_at=240)
