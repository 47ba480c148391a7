"""The agents with residual blocks: sizes by setup, and what an agent asks of replay and the loop."""

from __future__ import annotations

import pytest

from medley.agents.brc import BRCConfig
from medley.config.load import load_config
from medley.errors import ConfigError


def agent(*words: str) -> BRCConfig:
    options = load_config(words).agent
    assert isinstance(options, BRCConfig)
    return options


def test_sizes_follow_the_setup_and_can_be_given() -> None:
    paper = agent("env=metaworld-mt10", "agent=brc")
    assert (paper.actor.num_layers, paper.actor.hidden_dim) == (1, 256)
    assert (paper.critic.num_layers, paper.critic.hidden_dim) == (2, 4096)
    assert agent("env=metaworld-mt10", "agent=brc", "agent.critic.hidden_dim=512").critic.hidden_dim == 512
    assert agent("env=point", "agent=brc").critic.hidden_dim < 100
    assert agent("env=point", "agent=brc", "agent.critic.hidden_dim=512").critic.hidden_dim == 512
    assert agent("agent=brc", "env=metaworld-quick").critic.hidden_dim == 128
    assert agent("env=metaworld-mt10", "agent=simba_v2").critic.hidden_dim == 512
    assert agent("env=metaworld-mt10", "agent=flashsac").critic.hidden_dim == 256


@pytest.mark.parametrize(("env", "tasks", "batch"), [("mt10", 10, 1020), ("mt25", 25, 1025), ("mt1", 1, 1024)])
def test_batch_replay_and_updates_come_from_the_agent(env: str, tasks: int, batch: int) -> None:
    config = load_config([f"env=metaworld-{env}", "agent=brc"])
    assert config.replay_buffer.batch_size == batch
    assert config.replay_buffer.capacity == 1_000_000 * tasks
    assert config.experiment.updates == 2
    given = ["replay_buffer.batch_size=100", "replay_buffer.capacity=5000", "experiment.updates=7"]
    config = load_config([f"env=metaworld-{env}", "agent=brc", *given])
    assert (config.replay_buffer.batch_size, config.replay_buffer.capacity, config.experiment.updates) == (100, 5000, 7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["agent=flashsac", "agent.gradients=pcgrad"], "mixes the tasks of a batch"),
        (["agent.trunk=flashsac", "agent.gradients=gradnorm"], "mixes the tasks of a batch"),
        (["agent.reward_normalization=return_rang"], "Did you mean 'return_range'"),
        (["agent.reward_normalization=return_range", "agent.discount=1"], "discount below 1"),
        (["agent=brc", "agent.v_max=0"], "v_max"),
        (["agent=brc", "agent.bins=1"], "bins"),
        (["agent=brc", "agent.max_value=9"], "v_max"),
        (["agent.noise_hold=0"], "noise_hold"),
        (["agent.optimizers.actor.weight_decay=-1"], "weight_decay"),
    ],
)
def test_what_cannot_work_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(["env=point", *words])
