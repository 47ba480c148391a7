"""Behavioural cloning of demonstrations, one policy per intention: L_pi = sum_k w_k mean |tanh(mu_k(s)) - a|^2.

With `by_size` (multi-task BC) w_k is larger for intentions with more demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Batch, Metrics, register_agent
from medley.agents.intentions.batch import IntentionBatch
from medley.agents.intentions.options import IntentionConfig
from medley.agents.intentions.options import check as check_intentions
from medley.agents.intentions.sacx import SACX
from medley.config.options import opt
from medley.errors import ConfigError
from medley.gradients.task_loss import Extras


@dataclass
class BCConfig(IntentionConfig):
    by_size: bool = opt(False, "an intention counts by how much was demonstrated of it")


class BC(SACX):
    """What it collects is never learnt from; its critics and temperatures stay as they are."""

    uses_experts = True
    options: BCConfig

    def phase(self, update: int) -> str:
        return "all"

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        shape = self.combine_actor.random_shape()
        return [] if shape is None else [self._uniform(shape)]

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        assert isinstance(batch, IntentionBatch)
        expert = batch.expert
        assert expert is not None
        if expert.action is None:
            raise ConfigError("agent=bc needs demonstrations with actions: agent.expert.path=..., not examples.")
        noise = self.draw_noise(batch.obs.shape[1], phase) if noise is None else noise
        weight = self.weight
        if self.options.by_size:
            assert expert.size is not None
            weight = weight * expert.size.to(weight.dtype)
        weight = weight.expand(expert.obs.shape[:2])
        mask = self.action_mask
        inputs = (self._seen(expert.obs), expert.action, weight, self._alpha().expand(len(weight), 1), mask)
        done = self.combine_actor(self.actor_loss, inputs, noise[0] if noise else None)
        norm = self._descend("actor", done.gradients)
        return {"actor_loss": done.losses.mean(), "grad_norm_actor": norm, "actor_loss_per_task": done.losses}

    def _actor_losses(
        self, obs: Tensor, noise: Tensor, weight: Tensor, alpha: Tensor, mask: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        """In place of noise come the actions of experts."""
        mean, _ = self._distribution(self.actor(obs, self._task(detach=True)))
        error = ((torch.tanh(mean) * mask - noise) ** 2).sum(-1)
        return (error * weight).mean(-1) * len(self.spaces.tasks), {}


def check(options: BCConfig, intentions: int) -> None:
    check_intentions(options, intentions)
    if options.expert.path is None:
        raise ConfigError("agent=bc learns from demonstrations: record some with `medley demos`, agent.expert.path=...")


register_agent("bc", AgentKind(BCConfig, BC, check))
