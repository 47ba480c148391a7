"""Several intentions are learnt in one world: from rewards, from examples of success, from demonstrations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medley.cli import main
from tests.learning.test_point import SOLVED, learn

SMALL = [
    *("env=point-aux", "experiment.init_steps=200", "agent.critic_tau=0.005", "agent.discount=0.95"),
    *("agent.actor.hidden_dim=128", "agent.critic.hidden_dim=128", "replay_buffer.batch_size=192"),
    *("agent.optimizers.actor.lr=1e-3", "agent.optimizers.critic.lr=1e-3"),
]


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "point.npz"
    assert main(["demos", "env=point-aux", "examples=50", "demos=20", f"out={path}"]) == 0
    return path.with_name("point-demos.npz")


def test_examples_are_enough(tmp_path: Path) -> None:
    """200 of each intention, made up by the env, and no reward."""
    assert learn(tmp_path, "agent=vpace", *SMALL, "experiment.updates=2", steps=4000) >= 0.85
    row = json.loads((tmp_path / "train.log").read_text().splitlines()[-1])
    assert {"episode_reward_env_index_2", "success_env_index_2", "chosen_env_index_2"} <= row.keys()


def test_demonstrations_are_copied(tmp_path: Path, demos: Path) -> None:
    assert learn(tmp_path, "agent=bc", *SMALL, f"agent.expert.path={demos}", steps=700) >= SOLVED


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent", "least", "words"),
    [
        ("sqil", 0.7, ["experiment.updates=2"]),
        ("rce", 0.5, ["experiment.updates=2"]),
        ("dac", 0.6, ["agent.discriminator.sees_actions=true"]),
        ("lfgp", 0.6, ["agent.discriminator.sees_actions=true", "agent.reward_scale=0.1", "agent.expert.share=0.5"]),
        ("sacx", 0.6, ["agent.scheduler.kind=uniform"]),
    ],
)
def test_all_others_learn(tmp_path: Path, demos: Path, agent: str, least: float, words: list[str]) -> None:
    """An untrained agent hardly ever succeeds: 0 to 0.03."""
    experts = [f"agent.expert.path={demos}"] if agent in ("dac", "lfgp") else []
    assert learn(tmp_path, f"agent={agent}", *SMALL, *experts, *words, steps=4000) >= least
