"""Values stay within what can be earned."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from medley.agents.sac_options import SACConfig, max_value
from medley.config.load import load_config
from medley.training.build import build, spaces_of
from tests.agents.sac_agent import make, random_batch

SPACES = make().spaces
QUICK = ["env.tasks=[reach-v3,push-v3]", "agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "setup.device=cpu"]


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, 1000.0),
        ({"discount": 0.95, "reward_scale": 0.5}, 100.0),
        ({"reward_scale": -1.0}, 1000.0),
        ({"reward_scale": 0.0}, math.inf),
        ({"discount": 1.0}, math.inf),
        ({"reward_normalization": "ema_std"}, math.inf),
        ({"learn_temperature": False}, math.inf),  # entropy may be worth more than rewards, for ever
        ({"max_value": 70.0}, 70.0),
        ({"max_value": 0.0}, math.inf),
    ],
    ids=str,
)
def test_the_bound_follows_from_the_largest_reward(changes: dict[str, float], bound: float) -> None:
    options = dataclasses.replace(SACConfig(), **changes)  # type: ignore[arg-type]
    assert max_value(options, dataclasses.replace(SPACES, max_reward=10.0)) == pytest.approx(bound)
    asked = options.max_value or math.inf  # without a word from the env, only what is asked for
    assert max_value(options, SPACES) == asked


def test_targets_are_cut_at_the_bound() -> None:
    batch = random_batch()
    batch.reward[:, 0], batch.reward[:, 1] = 50.0, -50.0
    agent = make(max_value=3.0)
    noise = agent.draw_noise(batch.obs.shape[1], "critic")[0]
    y = agent._targets(batch, agent._task(), noise)
    assert float(y.max()) > 40
    bounded = agent._bounded(y)
    assert bounded[:, 0].tolist() == [3.0] * 3
    assert bounded[:, 1].tolist() == [-3.0] * 3
    inside = y.abs() < 3
    assert torch.equal(bounded[inside], y[inside])
    assert torch.equal(make()._bounded(y), y)


@pytest.mark.parametrize(
    ("words", "bound"),
    [
        (["agent=soft_modules"], 1000.0),
        (["agent=must"], 1000.0),
        (["agent=state_sac", "env.reward_version=v1"], math.inf),  # rewards without a common scale
        (["agent=state_sac", "agent.max_value=0"], math.inf),
    ],
    ids=str,
)
def test_meta_world_says_what_its_largest_reward_is(words: list[str], bound: float) -> None:
    parts = build(load_config(["env=metaworld-mt10", *QUICK, *words]))
    assert parts.agent.max_value == pytest.approx(bound)  # type: ignore[attr-defined]
    assert spaces_of(parts.env).max_reward == parts.env.max_reward
    parts.env.close()
