"""A small SAC, a batch for it, and what an update changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from medley.agents.api import Batch, Spaces
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig

TASKS, ROWS, OBS, ACT = 3, 8, 4, 2
ENCODER = {"task_input": "encoder"}


def make(mask: Any = None, obs: int = OBS, **changes: Any) -> SAC:
    o = SACConfig(name="sac", builder="sac")
    o.actor.hidden_dim = o.critic.hidden_dim = 8
    o.actor.num_layers = o.critic.num_layers = 2
    for name, value in changes.items():
        setattr(o, name, value)
    mask = np.ones((TASKS, ACT), dtype=bool) if mask is None else np.asarray(mask)
    tasks = tuple(f"t{i}" for i in range(len(mask)))
    return SAC(o, Spaces(tasks, obs, mask.shape[1], mask), torch.device("cpu"), seed=0)


def random_batch(seed: int = 0, tasks: int = TASKS) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g)

    return Batch(
        obs=normal(tasks, ROWS, OBS),
        action=torch.tanh(normal(tasks, ROWS, ACT)),
        reward=normal(tasks, ROWS),
        discount=torch.full((tasks, ROWS), 0.99),
        next_obs=normal(tasks, ROWS, OBS),
        weight=torch.ones(tasks, ROWS),
    )


def noise(seed: int = 5) -> Tensor:
    return torch.randn((TASKS, ROWS, ACT), generator=torch.Generator().manual_seed(seed))


def snapshot(agent: SAC) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in agent.state_dict().items()}


def changed(before: dict[str, Tensor], agent: SAC) -> set[str]:
    """The networks with a tensor that is not what it was."""
    after = agent.state_dict()
    names = {k for k in before if not torch.equal(before[k], after[k])}
    return {".".join(k.split(".")[: 2 if k.startswith("optimizer") else 1]) for k in names} - {"generator"}
