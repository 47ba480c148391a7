"""A run on dm_control, from states: its folder, and the same numbers after an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import medley
from medley.training.run import Run

SMALL = [
    "env=dmc-cartpole-swingup",
    "env.observation=states",
    "env.horizon=15",
    "env.slots_per_task=2",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.batch_size=8",
    "experiment.init_steps=10",
    "experiment.eval_freq=24",
    "experiment.num_eval_episodes=2",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "logger.console=none",
]


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Stopped within an episode."""
    words = [*SMALL, "env.workers=0", f"setup.base_path={tmp_path}"]
    whole = medley.train(*words, "setup.id=whole", "experiment.num_train_steps=48")
    medley.train(*words, "setup.id=parts", "experiment.num_train_steps=24")
    parts = medley.train(*words, "setup.id=parts", "experiment.num_train_steps=48")
    assert Path(whole.path).parts[-4:-1] == ("runs", "cartpole_swingup", "whole")
    assert Run(Path(parts.path)).info()["step"] == 48
    returns = [
        json.loads((Path(path) / "eval.log").read_text().splitlines()[-1])["episode_reward"]
        for path in (whole.path, parts.path)
    ]
    assert np.isfinite(returns[0])
    assert returns[0] == returns[1] != 0
