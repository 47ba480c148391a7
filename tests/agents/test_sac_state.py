"""What an agent keeps: where its tensors are, and what is loaded into them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from medley.agents.api import Spaces
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.errors import ConfigError
from tests.agents.sac_agent import ACT, ENCODER, OBS, TASKS, changed, make, random_batch, snapshot


def test_tensors_stay_where_they_are() -> None:
    agent = make(trunk="multi_head", **ENCODER)
    places = {k: v.data_ptr() for k, v in agent._tensors().items()}
    agent.update(random_batch(), "all")
    agent.load_state_dict(snapshot(agent))
    agent.load_weights(snapshot(agent))
    agent.update(random_batch(), "all")
    assert {k: v.data_ptr() for k, v in agent._tensors().items()} == places


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_a_loaded_agent_goes_on_bit_for_bit(trunk: str) -> None:
    options = {"trunk": trunk, "alpha_per_task": True, **ENCODER}
    a = make(**options)
    for n in range(3):
        a.update(random_batch(n), "all")
    saved = snapshot(a)
    b = make(**options)
    b.update(random_batch(9), "all")
    b.load_state_dict(saved)
    for n in range(3, 6):
        a.update(random_batch(n), "all")
        b.update(random_batch(n), "all")
    for name, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[name]), name


def test_load_weights_takes_parameters_and_leaves_moments() -> None:
    a, b = make(), make()
    a.update(random_batch(), "all")
    b.load_weights(snapshot(a))
    before = make().state_dict()
    for name, value in b.state_dict().items():
        wanted = before if name.startswith(("optimizer", "generator")) else a.state_dict()
        assert torch.equal(value, wanted[name]), name


def test_loading_another_network_is_refused_and_changes_nothing() -> None:
    agent = make()
    before = snapshot(agent)
    with pytest.raises(ConfigError, match="another kind of network"):
        agent.load_state_dict(make(trunk="multi_head").state_dict())
    with pytest.raises(ConfigError, match="the tasks or the network sizes differ"):
        agent.load_weights(make(obs=OBS + 1).state_dict())
    assert changed(before, agent) == set()


def test_the_seed_decides_the_start() -> None:
    assert changed(snapshot(make()), make()) == set()
    spaces = Spaces(("a", "b"), OBS, ACT, np.ones((2, ACT), dtype=bool))
    one, two = (SAC(SACConfig(), spaces, torch.device("cpu"), seed) for seed in (0, 1))
    assert {"actor", "critic", "target"} <= changed(snapshot(one), two)


def test_one_hot_is_left_out_where_it_says_nothing() -> None:
    first = "critic.hidden.0.weight"
    inputs = OBS + TASKS + ACT
    assert make().state_dict()[first].shape[-2] == inputs + -inputs % 4
    assert make(trunk="disjoint").state_dict()[first].shape[-2] == OBS + ACT
    assert make(mask=np.ones((1, ACT), dtype=bool)).state_dict()[first].shape[-2] == OBS + ACT
    assert make(trunk="disjoint", **ENCODER).state_dict()[first].shape[-2] == OBS + 50 + ACT


def test_an_agent_saved_before_targets_had_labels_begins_with_the_critics() -> None:
    a, b = make(**ENCODER), make(**ENCODER)
    for n in range(3):
        a.update(random_batch(n), "all")
    saved = {name: value for name, value in snapshot(a).items() if not name.startswith("target_task.")}
    for load in (b.load_state_dict, b.load_weights):
        b.update(random_batch(9), "all")
        load(saved)
        assert torch.equal(b.state_dict()["target_task.embedding"], saved["task.embedding"])
    assert not torch.equal(snapshot(a)["target_task.embedding"], saved["task.embedding"])
