"""Agents learn `point` from pictures of 24x24. A policy that does nothing, or acts at random, hardly succeeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import medley

WORLD = [
    "env=point",
    "env.image_size=24",
    "agent.pixels.num_layers=3",
    "agent.pixels.num_filters=16",
    "agent.actor.hidden_dim=64",
    "agent.critic.hidden_dim=64",
    "agent.discount=0.9",
    "replay_buffer.capacity=10000",
    "experiment.init_steps=200",
    "experiment.num_eval_episodes=20",
    "experiment.eval_freq=0",
    "experiment.save_freq=0",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "setup.threads=1",
    "setup.device=cpu",
    "logger.use_tb=false",
    "logger.console=none",
]
SAC = [  # as often and as quickly as a short run needs
    "agent.actor_update_freq=1",
    "agent.critic_target_update_freq=1",
    "agent.optimizers.alpha.lr=3e-3",
    "replay_buffer.batch_size=64",
]
DRQV2 = [
    "agent.optimizers.actor.lr=1e-3",
    "agent.optimizers.critic.lr=1e-3",
    "agent.optimizers.encoder.lr=1e-3",
    "agent.std_steps=1000",
    "agent.pixels.shift=1",
    "experiment.updates=2",
    "replay_buffer.batch_size=64",
]


@pytest.mark.parametrize(
    ("agent", "tasks", "steps", "words"),
    [
        pytest.param("sac_ae", 1, 3000, SAC, marks=pytest.mark.long),
        ("drqv2", 1, 1400, DRQV2),
        pytest.param("sac", 1, 2500, SAC, marks=pytest.mark.long),
        pytest.param("drq", 1, 3500, [*SAC, "agent.pixels.shift=1"], marks=pytest.mark.long),
        pytest.param("deepmdp", 1, 2500, SAC, marks=pytest.mark.long),
        pytest.param("hipbmdp", 2, 2500, SAC, marks=pytest.mark.long),
        pytest.param("pcgrad_sac_ae", 2, 2500, SAC, marks=pytest.mark.long),
    ],
)
def test_learns(agent: str, tasks: int, steps: int, words: list[str], tmp_path: Path) -> None:
    run = [f"agent={agent}", f"env.num_tasks={tasks}", f"experiment.num_train_steps={steps}"]
    result = medley.train(*WORLD, *run, *words, f"setup.save_dir={tmp_path / 'run'}")
    first = json.loads((tmp_path / "run" / "eval.log").read_text().splitlines()[0])
    assert first["step"] == 0
    assert first["success"] <= 0.1
    assert result.success >= 0.8
