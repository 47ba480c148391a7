"""SAC-X: one world, several intentions, each with a policy, critics and a temperature (Riedmiller et al. 2018).

Every row of replay trains all intentions k, whoever wanted what when it was collected:

    y_k  = c r_k + discount * (min_j Qbar_jk(s', a'_k) - alpha_k log pi_k(a'_k|s'))
    L_Q  = mean_rows sum_k w_k sum_j (Q_jk(s, a) - y_k)^2
    L_pi = mean_rows sum_k w_k (alpha_k log pi_k - min_j Q_jk)

with w_main = m w and w = T / (T - 1 + m). It is SAC with a batch that is the same for all tasks: trunks (`disjoint`:
nothing is shared) and gradient combiners go with it. Subclasses add rows of experts, other rewards, other targets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.intentions.batch import IntentionBatch, expert_rows
from medley.agents.intentions.options import ExampleConfig, IntentionConfig
from medley.agents.intentions.options import check as check_intentions
from medley.agents.sac import ACTOR_TOO, SAC
from medley.config.options import opt
from medley.errors import ConfigError
from medley.gradients.task_loss import Extras
from medley.nn.squashed_gaussian import sample


@dataclass
class SACXConfig(ExampleConfig):
    rewards: str = opt("env", "what is learnt from: env (its rewards) | success (1 for it, agent.label for all else)")


class SACX(SAC):
    has_intentions = True
    uses_experts = False
    options: IntentionConfig

    def __init__(self, options: IntentionConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        tasks, m = len(spaces.tasks), options.main_weight
        self.weight = torch.full((tasks, 1), tasks / (tasks - 1 + m), device=device)
        self.weight[0] *= m
        self.expert_weight = torch.ones((), device=device)  # falls by `expert.decay` with every update

    # ---- one update

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        tasks, _, dims = self.action_mask.shape
        experts = expert_rows(per_task, tasks, self.options.expert.share) if self.uses_experts else 0
        own = per_task - tasks * experts  # of replay
        beside = tasks * experts if self.options.expert.shared else experts
        actor_too = phase in ACTOR_TOO
        noise = [self._noise((tasks, own + beside, dims))]
        if actor_too:
            noise.append(self._noise((tasks, own + beside * self.options.expert.shared, dims)))
        combiners = [self.combine_critic, self.combine_actor] if actor_too else [self.combine_critic]
        noise += [self._uniform(shape) for c in combiners if (shape := c.random_shape()) is not None]
        return [*noise, *self._more_noise(own, experts, dims)]

    def _more_noise(self, rows: int, experts: int, dims: int) -> list[Tensor]:
        """What else an algorithm draws: for the actions that policies would take in examples, by default."""
        return [self._noise((len(self.spaces.tasks), experts, dims))] if experts else []

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        assert isinstance(batch, IntentionBatch)
        rows = batch.obs.shape[1] + (batch.expert.obs.shape[1] * len(self.spaces.tasks) if batch.expert else 0)
        noise = self.draw_noise(rows, phase) if noise is None else noise
        numbers, actor_too = iter(noise), phase in ACTOR_TOO
        for_critic = next(numbers)
        for_actor = next(numbers) if actor_too else None
        combiners = [self.combine_critic, self.combine_actor] if actor_too else [self.combine_critic]
        orders = [None if c.random_shape() is None else next(numbers) for c in combiners]

        seen = self._looked_at(batch)
        before = self._learn_first(seen, numbers)
        whole = self._together(seen, numbers)
        metrics = before | self.update_critic(whole, for_critic, orders[0])
        if for_actor is not None:
            acted = whole if self.options.expert.shared else self._first(whole, seen.obs.shape[1])
            metrics |= self.update_actor(acted, for_actor, orders[1])
        if phase in ("all", "critic_target"):
            self.update_target()
        with torch.no_grad():
            self.expert_weight.mul_(self.options.expert.decay)
        return metrics

    def _looked_at(self, batch: IntentionBatch) -> IntentionBatch:
        """The same with observations as networks see them."""
        if self.obs_norm is None:
            return batch
        expert = batch.expert
        if expert is not None:
            expert = dataclasses.replace(expert, obs=self._seen(expert.obs), next_obs=self._seen(expert.next_obs))
        far = None if batch.far_obs is None else self._seen(batch.far_obs)
        return dataclasses.replace(
            batch, obs=self._seen(batch.obs), next_obs=self._seen(batch.next_obs), far_obs=far, expert=expert
        )

    def _together(self, batch: IntentionBatch, numbers: Iterator[Tensor]) -> IntentionBatch:
        """Rows [intentions, b, ...] for the critics: those of replay, and then those of experts."""
        tasks, rows = batch.reward.shape

        def each(x: Tensor) -> Tensor:
            return x.expand(tasks, *x.shape[1:])

        return dataclasses.replace(
            batch,
            obs=each(batch.obs),
            action=each(batch.action),
            next_obs=each(batch.next_obs),
            discount=each(batch.discount),
            weight=self.weight.expand(tasks, rows),
            far_obs=None if batch.far_obs is None else each(batch.far_obs),
            far_discount=None if batch.far_discount is None else each(batch.far_discount),
        )

    def _first(self, batch: IntentionBatch, rows: int) -> Batch:
        """The rows of replay alone."""
        fields = {f.name: getattr(batch, f.name)[:, :rows] for f in dataclasses.fields(Batch)}
        return Batch(**fields)

    def _learn_first(self, batch: IntentionBatch, numbers: Iterator[Tensor]) -> Metrics:
        """What is learnt before the critics."""
        return {}

    # ---- losses

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        q = self._q(self.critic, obs, action, self._task())
        losses = ((q - y).square().sum(0) * weight).mean(-1)
        return losses * len(self.spaces.tasks), {"q": q.detach().mean((0, 2))}  # the mean becomes a sum over intentions

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        return batch.reward + batch.discount * self._value_ahead(batch, z, noise)

    def _value_ahead(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        """After the step; with n steps the mean of that and of what is left of the value n steps later."""
        assert isinstance(batch, IntentionBatch)
        value = self._next_value(batch.next_obs, z, noise)
        if batch.far_obs is None:
            return value
        assert batch.far_discount is not None
        return (value + batch.far_discount * self._next_value(batch.far_obs, z, noise)) / 2

    def _next_value(self, obs: Tensor, z: Tensor | None, noise: Tensor) -> Tensor:
        action, log_prob = sample(*self._distribution(self.actor(obs, z)), noise, self.action_mask)
        q = self._q(self.target, obs, action, self.target_task()).amin(0)
        return q - self._alpha() * log_prob if self.options.entropy_in_target else q

    # ---- saving

    def _tensors(self) -> dict[str, Tensor]:
        return {**super()._tensors(), "expert_weight": self.expert_weight}


def check(options: SACXConfig, intentions: int) -> None:
    check_intentions(options, intentions)
    if options.rewards not in ("env", "success"):
        raise ConfigError(f"agent.rewards={options.rewards!r} does not exist: env or success.")


register_agent("sacx", AgentKind(SACXConfig, SACX, check))
