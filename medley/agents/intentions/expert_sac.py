"""What agents have in common that learn from experts: their rows in the batch, and values kept within bounds.

Examples of success have no actions: a ~ pi_k(s*). Each critic sees the examples of its own intention alone, and the
policy none of them, unless experts are `shared`: then all critics and policies see all of them.

VPACE's value penalty (Ablett et al. 2024), for each critic:

    L_Q += lambda (max(Q - Q_max, 0)^2 + max(Q_min - Q, 0)^2)

Q_min and Q_max are what rewards allow; on replay Q_max is the median over the last batches of mean Q_1(s*). In its
place there may be lambda Q^2 (c2f) or lambda (Q(s, pi(s)) - Q(s, a)) (cql).
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from medley.agents.api import Batch, Metrics, Spaces
from medley.agents.intentions.batch import IntentionBatch
from medley.agents.intentions.options import IntentionConfig
from medley.agents.intentions.running_median import RunningMedian
from medley.agents.intentions.sacx import SACX
from medley.gradients.task_loss import Extras
from medley.nn.squashed_gaussian import sample


class ExpertSAC(SACX):
    uses_experts = True

    def __init__(self, options: IntentionConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        self.bound = RunningMedian(len(spaces.tasks), options.penalty.window, device)
        self._replay_rows = 0  # of the batch at hand: known when it is traced

    # ---- what an algorithm provides

    @abstractmethod
    def _rewards(self, batch: IntentionBatch, obs: Tensor, action: Tensor, own: Tensor) -> Tensor:
        """[intentions, rows] for all rows of obs and action: those of replay, then those of experts, of which `own`
        [intentions, experts' rows] says whether they fulfil that intention."""

    @abstractmethod
    def _bounds(self) -> tuple[Tensor, Tensor]:
        """The least and the largest value that rewards allow, [intentions, 1]."""

    # ---- rows

    def _together(self, batch: IntentionBatch, numbers: Iterator[Tensor]) -> IntentionBatch:
        whole, expert, o = super()._together(batch, numbers), batch.expert, self.options
        assert expert is not None
        tasks, self._replay_rows = batch.reward.shape
        obs, next_obs, action = expert.obs, expert.next_obs, expert.action
        if action is None:
            action = self._own_action(obs, next(numbers))
        own = torch.ones_like(obs[..., 0])
        weight = (self.weight * self.expert_weight).expand_as(own)
        if o.expert.shared:
            own = (torch.eye(tasks, device=own.device).unsqueeze(-1) * own).flatten(1)
            obs, next_obs, action = (x.flatten(0, 1).expand(tasks, -1, -1) for x in (obs, next_obs, action))
            weight = (self.weight * self.expert_weight).expand_as(own)
        going_on = torch.full_like(own, o.discount if o.expert.boot else 0.0)
        obs, action = torch.cat([whole.obs, obs], 1), torch.cat([whole.action, action], 1)
        far = whole.far_obs is not None and whole.far_discount is not None
        return dataclasses.replace(
            whole,
            obs=obs,
            action=action,
            reward=self._rewards(batch, obs, action, own),
            discount=torch.cat([whole.discount, going_on], 1),
            next_obs=torch.cat([whole.next_obs, next_obs], 1),
            weight=torch.cat([whole.weight, weight], 1),
            far_obs=torch.cat([whole.far_obs, next_obs], 1) if far else None,  # type: ignore[list-item]
            far_discount=torch.cat([whole.far_discount, torch.ones_like(own)], 1) if far else None,  # type: ignore[list-item]
        )

    def _own_action(self, obs: Tensor, noise: Tensor) -> Tensor:
        """What each intention's policy would do."""
        with torch.no_grad():
            return sample(*self._distribution(self.actor(obs, self._task())), noise, self.action_mask)[0]

    # ---- bounds of values

    def _beside_critic(self, batch: Batch, noise: Tensor) -> tuple[Tensor, ...]:
        """Least and largest value of every row; or what the policies would do there."""
        if self.options.penalty.kind == "cql":
            return (self._own_action(batch.obs, noise),)
        if self.options.penalty.kind != "value":
            return ()
        low, high = self._bounds()
        experts = batch.reward.shape[1] - self._replay_rows
        upper = torch.cat([self.bound.value().expand(-1, self._replay_rows), high.expand(-1, experts)], 1)
        return low.expand_as(upper), upper

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        q = self._q(self.critic, obs, action, self._task())
        losses = ((q - y).square().sum(0) * weight).mean(-1) + self._penalty(q, obs, *beside)
        extras = {"q": q.detach().mean((0, 2)), "expert_q": q.detach()[0, :, self._replay_rows :].mean(-1)}
        return losses * len(self.spaces.tasks), extras

    def _penalty(self, q: Tensor, obs: Tensor, *beside: Tensor) -> Tensor | float:
        p = self.options.penalty
        if p.kind == "value":
            low, high = beside
            return p.weight * (torch.relu(q - high).square() + torch.relu(low - q).square()).sum(0).mean(-1)
        if p.kind == "cql":
            wanted = self._q(self.critic, obs, beside[0], self._task())
            return p.weight * (wanted - q).sum(0).mean(-1)
        return p.weight * q.square().sum(0).mean(-1) if p.kind == "c2f" else 0.0

    def _after_critic(self, extras: Extras) -> Metrics:
        self.bound.push(extras["expert_q"])
        return {"expert_q_per_task": extras["expert_q"], "q_bound_per_task": self.bound.value().squeeze(1)}

    # ---- saving

    def _tensors(self) -> dict[str, Tensor]:
        return {**super()._tensors(), **{f"bound.{key}": value for key, value in self.bound.state().items()}}
