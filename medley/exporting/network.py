"""An agent's policy as one network of rows: observations and the numbers of their tasks in, actions out."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from medley.agents.actor_critic import ActorCritic
from medley.agents.api import Agent


class PolicyNetwork(nn.Module):
    """What the agent does when it does not explore, on the scale of the env's own actions.

    Agents are task-major: every task says what it would do in every row, and the row's own task is heard. Pictures are
    looked at once. Routing rows to their tasks would need shapes that depend on values, which few runtimes are good at.
    """

    def __init__(self, agent: Agent, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
        """`low` and `high` [tasks, dim]: what -1 and 1 stand for; both are zero where an action is padding."""
        super().__init__()
        self.agent, self.tasks = agent, len(low)
        # A trace refuses modules that it cannot reach from here.
        self.parts = nn.ModuleDict({k: v for k, v in vars(agent).items() if isinstance(v, nn.Module)})
        self.is_plain = bool((((low == -1) & (high == 1)) | ((low == 0) & (high == 0))).all())
        self.middle = torch.as_tensor((high + low) / 2, dtype=torch.float32).unsqueeze(1)
        self.reach = torch.as_tensor((high - low) / 2, dtype=torch.float32).unsqueeze(1)

    def forward(self, observation: Tensor, task: Tensor | None = None) -> Tensor:
        every = self.scaled(self._every_task(observation))
        if task is None:
            return every[0]
        wanted = task.reshape(1, -1, 1).expand(1, -1, every.shape[-1])
        return every.gather(0, wanted).squeeze(0)

    def scaled(self, actions: Tensor) -> Tensor:
        """[tasks, rows, dim] from [-1, 1] to the env's own range."""
        return actions if self.is_plain else self.middle + self.reach * actions

    def _every_task(self, observation: Tensor) -> Tensor:
        """[tasks, rows, dim]"""
        agent, rows = self.agent, observation.unsqueeze(0)
        if not isinstance(agent, ActorCritic):
            return agent.act(rows.expand(self.tasks, *observation.shape), None)
        seen = agent._seen(rows)
        return agent._act(seen.expand(self.tasks, -1, -1), agent._task(), None, agent.action_mask)
