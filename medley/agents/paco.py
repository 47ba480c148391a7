"""SAC with PaCo's mixed networks, and its way with tasks whose loss explodes (Sun et al. 2022, section 3.4).

A task whose critic loss is above the limit sits out this update, and its mixing vector becomes the mean of those of
the tasks that are well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Metrics, register_agent
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig, check
from medley.errors import ConfigError
from medley.gradients.task_loss import Extras


class PaCo(SAC):
    def _critic_losses(self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Extras]:
        losses, extras = super()._critic_losses(obs, action, y, weight)
        well = losses.detach() <= self.options.paco.loss_limit
        return torch.where(well, losses, 0.0), {**extras, "sits_out": (~well).float()}

    def _after_critic(self, extras: Extras) -> Metrics:
        out = extras["sits_out"]
        w: Tensor = self.critic.w  # type: ignore[assignment]
        optimizer = self.optimizers["common"]
        with torch.no_grad():
            well = 1 - out
            mean = (well.unsqueeze(-1) * w).sum(1, keepdim=True) / well.sum().clamp(min=1)
            resets = (out * (well.sum() > 0)).view(1, -1, 1) > 0  # with nobody to learn from, w stays
            w.copy_(torch.where(resets, mean, w))
            for moments in (*optimizer.means, *optimizer.squares):
                moments.mul_(~resets)
        return {"tasks_sitting_out": out.sum()}


def check_paco(options: SACConfig, tasks: int) -> None:
    check(options, tasks)
    if options.trunk != "paco":
        raise ConfigError(f"agent=paco needs agent.trunk=paco, not {options.trunk}.")


register_agent("paco", AgentKind(SACConfig, PaCo, check_paco))
