"""RCE: a classifier of whether success will follow, from examples of it (Eysenbach et al. 2021).

C = sigmoid(logit);  w = V / (1 - V),  V = min_j Cbar_j(s', a') in [1e-7, 1 - 1e-7]
replay:    BCE(logit, discount w / (1 + discount w)),  weight 1 + discount w
examples:  BCE(logit, 1),                              weight 1 - discount
the actor maximises C; its temperature is fixed, and no entropy is in the target
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from medley.agents.api import AgentKind, Batch, register_agent
from medley.agents.intentions.batch import IntentionBatch
from medley.agents.intentions.expert_sac import ExpertSAC
from medley.agents.intentions.options import IntentionConfig
from medley.agents.intentions.options import check as check_intentions
from medley.errors import ConfigError
from medley.gradients.task_loss import Extras
from medley.nn.squashed_gaussian import sample

LEAST = 1e-7  # so far a classifier stays from being sure


class RCE(ExpertSAC):
    def _rewards(self, batch: IntentionBatch, obs: Tensor, action: Tensor, own: Tensor) -> Tensor:
        """1 where success is certain."""
        return torch.cat([torch.zeros_like(batch.reward), own], 1)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(self.weight), torch.ones_like(self.weight)

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        value = self._value_ahead(batch, z, noise).amin(0).clamp(LEAST, 1 - LEAST)
        w = batch.discount * value / (1 - value)
        y = w / (1 + w)
        return torch.cat([y[:, : self._replay_rows], batch.reward[:, self._replay_rows :]], 1)

    def _next_value(self, obs: Tensor, z: Tensor | None, noise: Tensor) -> Tensor:
        """Of each critic, [2, intentions, rows]."""
        action, _ = sample(*self._distribution(self.actor(obs, z)), noise, self.action_mask)
        return torch.sigmoid(self._q(self.target, obs, action, self.target_task()))

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        logit = self._q(self.critic, obs, action, self._task())
        n = self._replay_rows
        # 1 + discount w is 1 / (1 - y) on replay.
        sure = torch.cat([1 / (1 - y[:, :n]), torch.full_like(y[:, n:], 1 - self.options.discount)], 1)
        error = binary_cross_entropy_with_logits(logit, y.expand_as(logit), reduction="none").sum(0)
        q = torch.sigmoid(logit.detach())
        extras = {"q": q.mean((0, 2)), "expert_q": q[0, :, n:].mean(-1)}
        return (error * sure * weight).mean(-1) * len(self.spaces.tasks), extras

    def _value(self, obs: Tensor, action: Tensor, z: Tensor | None) -> Tensor:
        return torch.sigmoid(self._q(self._frozen_critic(), obs, action, z)).amin(0)


def check(options: IntentionConfig, intentions: int) -> None:
    check_intentions(options, intentions)
    if options.penalty.kind != "none":
        raise ConfigError("agent.penalty: a classifier of success lies between 0 and 1 anyway; use none.")
    if options.expert.shared:
        raise ConfigError("agent.expert.shared=true: an example of one intention says nothing of success in another.")


register_agent("rce", AgentKind(IntentionConfig, RCE, check))
