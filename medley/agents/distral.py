"""Distral: a policy per task, held near a common one that distils them (Teh et al. 2017), by soft actor-critic.

    y    = r + discount * (min_k Qbar_k + c log pi_0(a'|s') - (c + alpha_i) log pi_i(a'|s'))
    L_pi = (c + alpha_i) log pi_i(a~|s) - c log pi_0(a~|s) - min_k Q_k(s, a~)      trains the task policies
    L_0  = -c log pi_0(a~|s), a~ from pi_i                                         trains the common policy

c is `agent.distral.alpha`. The common policy is not told the task.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.actor_critic import steady
from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig, check
from medley.config.options import opt
from medley.errors import ConfigError
from medley.gradients.task_loss import Extras
from medley.nn.optimizer import Optimizer
from medley.nn.squashed_gaussian import log_density, sample
from medley.nn.trunks import SharedTrunk, forward_beside


@dataclass
class DistralOptions:
    alpha: float = opt(1.0, "c: how strongly task policies are held to the common one; 0: not at all")
    act: str = opt("task", "which policy acts: task | common (to evaluate what was distilled)")


@dataclass
class DistralConfig(SACConfig):
    distral: DistralOptions = opt(DistralOptions(), "")


class Distral(SAC):
    options: DistralConfig

    def __init__(self, options: DistralConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        shape = dataclasses.replace(self._actor_shape(spaces), task=0)
        self.common_policy = SharedTrunk(shape, torch.Generator().manual_seed(seed + 2)).to(device)
        self.optimizers["common_policy"] = Optimizer(list(self.common_policy.parameters()), options.optimizers.actor)
        self.networks["common_policy"] = self.common_policy

    def knows_unseen(self) -> bool:
        return False

    def _act(self, seen: Tensor, z: Tensor | None, noise: Tensor | None, mask: Tensor) -> Tensor:
        if self.options.distral.act == "task":
            return super()._act(seen, z, noise, mask)
        mean, log_std = self._distribution(self.common_policy(seen))
        return sample(mean, log_std, torch.zeros_like(mean) if noise is None else noise, mask)[0]

    def policy_tensors(self) -> list[Tensor]:
        return super().policy_tensors() + [p.data for p in self.common_policy.parameters()]

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        c = self.options.distral.alpha
        mean, log_std = self._distribution(steady(self.actor)(batch.next_obs, z))
        action, log_prob = sample(mean, log_std, noise, self.action_mask)
        near = self._common_density(batch.next_obs, mean + log_std.exp() * noise, self.action_mask)
        q = self._target_q(batch, action).amin(0)
        return batch.reward + batch.discount * (q + c * near - (c + self._alpha()) * log_prob)

    def _actor_losses(
        self, obs: Tensor, noise: Tensor, weight: Tensor, alpha: Tensor, mask: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        c, z = self.options.distral.alpha, self._task(detach=True)
        mean, log_std = self._distribution(forward_beside(self.actor, (obs, z), beside))
        action, log_prob = sample(mean, log_std, noise, mask)
        u = mean + log_std.exp() * noise
        near = self._common_density(obs, u, mask)
        losses = (((c + alpha) * log_prob - c * near - self._value(obs, action, z)) * weight).mean(-1)
        return losses, {"log_prob": log_prob.detach(), "u": u.detach(), "near": near.detach()}

    def _after_actor(self, batch: Batch, extras: Extras) -> Metrics:
        near = self._common_density(batch.obs, extras["u"], self.action_mask)
        loss = -(near * batch.weight).mean()
        optimizer = self.optimizers["common_policy"]
        gradients = torch.autograd.grad(self.options.distral.alpha * loss, optimizer.parameters)
        optimizer.step(list(gradients), self.options.grad_clip)
        return {"kl_to_common_per_task": (extras["log_prob"] - extras["near"]).mean(-1)}

    def _common_density(self, obs: Tensor, u: Tensor, mask: Tensor) -> Tensor:
        return log_density(*self._distribution(self.common_policy(obs)), u, mask)


def check_distral(options: DistralConfig, tasks: int) -> None:
    check(options, tasks)
    if options.distral.act not in ("task", "common"):
        raise ConfigError(f"agent.distral.act={options.distral.act!r} must be task or common.")
    if options.distral.alpha < 0:
        raise ConfigError(f"agent.distral.alpha={options.distral.alpha} must be at least 0.")


register_agent("distral", AgentKind(DistralConfig, Distral, check_distral, ("distral.act",)))
