"""Several intentions are learnt in one world: from rewards, from examples of success, from demonstrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor

from medley.agents.intentions.sqil import SQIL
from medley.cli import main
from medley.config.load import load_config
from medley.training.build import build
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


@pytest.mark.long
def test_examples_are_enough(tmp_path: Path) -> None:
    """200 of each intention, made up by the env, and no reward."""
    assert learn(tmp_path, "agent=vpace", *SMALL, "experiment.updates=2", steps=4000) >= 0.85
    row = json.loads((tmp_path / "train.log").read_text().splitlines()[-1])
    assert {"episode_reward_env_index_2", "success_env_index_2", "chosen_env_index_2"} <= row.keys()


@pytest.mark.parametrize("agent", ["bc", pytest.param("mtbc", marks=pytest.mark.long)])
def test_demonstrations_are_copied(tmp_path: Path, demos: Path, agent: str) -> None:
    assert learn(tmp_path, f"agent={agent}", *SMALL, f"agent.expert.path={demos}", steps=700) >= SOLVED


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent", "least", "words"),
    [
        ("sqil", 0.7, ["experiment.updates=2"]),
        ("rce", 0.25, ["experiment.updates=2"]),  # swings between 0.2 and 0.6
        ("dac", 0.6, ["agent.discriminator.sees_actions=true"]),
        ("lfgp", 0.6, ["agent.discriminator.sees_actions=true", "agent.reward_scale=0.1", "agent.expert.share=0.5"]),
        ("sacx", 0.6, ["agent.scheduler.kind=uniform", "experiment.num_train_steps=5000"]),
        ("sqil", 0.6, ["experiment.updates=2", "agent.rnd.weight=0.02"]),
        ("sacx", 0.8, ["agent.prior.share=0.5"]),  # with demonstrations, as RLPD
        ("sparse", 0.6, ["agent.prior.share=0.5"]),
    ],
)
def test_all_others_learn(tmp_path: Path, demos: Path, agent: str, least: float, words: list[str]) -> None:
    """An untrained agent hardly ever succeeds: 0 to 0.03."""
    experts = [f"agent.expert.path={demos}"] if agent in ("dac", "lfgp") else []
    experts += [f"agent.prior.path={demos}"] if any("prior" in word for word in words) else []
    assert learn(tmp_path, f"agent={agent}", *SMALL, *experts, *words, steps=4000) >= least


def largest_value(folder: Path, agent: str) -> float:
    """On replay, after learning from a point that never moved, and from examples that it never saw."""
    options = [
        *("env=point-aux", "setup.device=cpu", "setup.threads=1", "experiment.learner=eager", "agent.label=0.0"),
        *("agent.actor.hidden_dim=64", "agent.critic.hidden_dim=64", "replay_buffer.batch_size=128"),
        *("agent.critic_tau=0.05", "agent.optimizers.critic.lr=3e-3", "agent.optimizers.actor.lr=3e-3"),
        *("agent.discount=0.95", "agent.init_temperature=1e-4", "agent.learn_temperature=false"),
    ]
    parts = build(load_config([*options, "agent.reward_scale=1.0", f"agent={agent}", f"setup.save_dir={folder}"]))

    def rest(obs: Tensor, noise: Tensor | None) -> Tensor:
        return torch.zeros(*obs.shape[:2], 2)

    for step in parts.collector.collect(rest, 200, "policy", 0)[0]:
        parts.replay.add(step)
    parts.learner.learn(800)
    batch, learnt = parts.replay.sample(600), cast(SQIL, parts.agent)
    with torch.no_grad():
        return float(learnt._q(learnt.critic, batch.obs.expand(3, -1, -1), batch.action.expand(3, -1, -1), None).max())


def test_the_penalty_keeps_values_within_bounds(tmp_path: Path) -> None:
    """No value can be above 1 / (1 - 0.95) = 20. SQIL alone said 26.1 here, with the penalty 16.9."""
    assert largest_value(tmp_path / "a", "sqil") > 22
    assert largest_value(tmp_path / "b", "vpace") <= 20
