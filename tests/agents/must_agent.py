"""A small MUST, and steps to show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from medley.agents.api import Spaces
from medley.agents.must import MUST
from medley.agents.must_options import MustSACConfig
from medley.replay.ring import Step
from tests.agents.sac_agent import ACT, OBS, TASKS

HORIZON = 10


def make(tasks: int = TASKS, slots: int = 1, seed: int = 0, device: str = "cpu", **changes: Any) -> MUST:
    """Changes are of `must` where it has such an option, else of SAC."""
    o = MustSACConfig(name="must", builder="must", trunk="must", alpha_per_task=True)
    o.actor.hidden_dim = o.critic.hidden_dim = 16
    o.actor.num_layers = o.critic.num_layers = 2
    o.must.hidden, o.must.latent, o.must.rank = 12, 6, 2
    o.must.update_interval, o.must.refresh_updates, o.must.stride = 2, 4, 3
    o.must.encoder_interval = 2
    for name, value in changes.items():
        place = o.must if hasattr(o.must, name) else o
        assert hasattr(place, name), name
        setattr(place, name, value)
    names = tuple("abcdefgh"[:tasks])
    spaces = Spaces(names, OBS, ACT, np.ones((tasks, ACT), dtype=bool), HORIZON, slots)
    return MUST(o, spaces, torch.device(device), seed)


def episode(
    seed: int = 0, success: Any = False, length: int = HORIZON, tasks: int = TASKS, slots: int = 1
) -> list[Step]:
    """One episode in every slot; `success` for all tasks or for each."""
    rng = np.random.default_rng(seed)
    offset = np.arange(tasks)[:, None, None]
    won = np.broadcast_to(np.reshape(np.asarray(success), (-1, 1)), (tasks, slots))
    chunk = []
    for k in range(length):
        obs = (rng.normal(size=(tasks, slots, OBS)) + offset).astype(np.float32)
        flags = np.full((tasks, slots), k == length - 1)
        action = np.zeros((tasks, slots, ACT), np.float32)
        reward = np.zeros((tasks, slots), np.float32)
        chunk.append(
            Step(obs, action, reward, obs, np.zeros_like(flags), flags, None, won if k == length - 1 else None)
        )
    return chunk


def trained(before: dict[str, Tensor], agent: MUST) -> set[str]:
    """Which networks, generators and encoders have other weights than before."""
    after = agent._weights()
    names = {k for k, v in after.items() if not torch.equal(v.to(before[k].dtype), before[k]) and "mask" not in k}
    return {".".join(n.split(".")[:3]) if n.startswith("must") else n.split(".")[0] for n in names}


def with_episodes(agent: MUST, success: Any = False, count: int = 2) -> MUST:
    for n in range(count):
        agent.observe(episode(n, success, tasks=agent.makers.tasks), 0)
    return agent


def makers_of(*roles: str, parts: tuple[str, ...] = ("generator", "encoder")) -> set[str]:
    return {f"must.{role}.{part}" for role in roles for part in parts}
