"""Several intentions are learnt in one world: from rewards, from examples, from discriminators of examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.learning.test_point import SOLVED, learn

SMALL = [
    *("env=point-aux", "experiment.init_steps=200", "agent.critic_tau=0.01", "replay_buffer.batch_size=192"),
    *("agent.actor.hidden_dim=64", "agent.critic.hidden_dim=64", "agent.optimizers.alpha.lr=1e-3"),
    *("agent.optimizers.actor.lr=1e-3", "agent.optimizers.critic.lr=1e-3"),
]


@pytest.mark.parametrize("agent", ["vpace", pytest.param("sqil", marks=pytest.mark.long)])
def test_examples_are_enough(tmp_path: Path, agent: str) -> None:
    assert learn(tmp_path, f"agent={agent}", *SMALL, steps=5000) >= SOLVED
    row = json.loads((tmp_path / "train.log").read_text().splitlines()[-1])
    assert row["success_env_index_0"] > 0  # measured while training, for every intention
    assert {"episode_reward_env_index_2", "success_env_index_2", "chosen_env_index_2"} <= row.keys()
