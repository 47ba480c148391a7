"""Small agents and replay for tests of the ways to do updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from medley.agents.api import Spaces, agent_kind
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.replay.ring import Replay, Step
from medley.training.rewards import RewardScale
from medley.training.seed import Seed

TASKS, ROWS, OBS, ACT = 3, 8, 5, 2
PHASES = ("all", "critic", "no_target", "critic_target")


def make_agent(device: str = "cpu", seed: int = 0, layers: int = 2, **changes: Any) -> SAC:
    kind = agent_kind(changes.pop("builder", "sac"))
    options = kind.options(name="agent")
    assert isinstance(options, SACConfig)
    options.actor.hidden_dim = options.critic.hidden_dim = 16
    options.actor.num_layers = options.critic.num_layers = layers
    for name, value in {"alpha_per_task": True, "trunk": "multi_head", **changes}.items():
        assert hasattr(options, name), name
        setattr(options, name, value)
    spaces = Spaces(tuple("abc"), OBS, ACT, np.ones((TASKS, ACT), dtype=bool))
    kind.check(options, TASKS)
    agent = kind.build(options, spaces, torch.device(device), seed)
    assert isinstance(agent, SAC)
    return agent


def steps(obs: np.ndarray) -> list[Step]:
    """Steps of which only the observations [steps, tasks, slots, dim] matter."""
    none = np.zeros(obs.shape[1:3])
    return [Step(obs=one, action=none, reward=none, next_obs=one, terminated=none, ended=none) for one in obs]


def make_replay(device: str = "cpu", seed: int = 3, uniform: bool = False, n_step: int = 1) -> Replay:
    replay = Replay(TASKS, 1, 50, OBS, ACT, torch.device(device), seed, n_step, uniform=uniform)
    fill = torch.Generator().manual_seed(seed + 1)
    for value in replay.rows.values():
        if value.is_floating_point():
            value.copy_(torch.randn(value.shape, generator=fill))
    replay.rows["ended"][:, ::7] = True
    replay.rows["terminated"][:, ::14] = True
    replay.set_written(50)
    return replay


def make_seed(
    device: str = "cpu", seed: int = 0, rows: int = ROWS, uniform: bool = False, n_step: int = 1, **changes: Any
) -> Seed:
    replay = make_replay(device, seed + 3, uniform, n_step)
    return Seed(
        make_agent(device, seed, **changes), replay, RewardScale(TASKS, 0.5, "none", torch.device(device)), rows
    )


def largest_gap(a: Seed, b: Seed) -> float:
    """Between the parameters, moments and gathered metrics of two seeds."""
    one, two = {**a.agent.state_dict(), **a.sums}, {**b.agent.state_dict(), **b.sums}
    assert one.keys() == two.keys()
    return max(float((one[k] - two[k]).abs().max()) for k in one if one[k].is_floating_point())
