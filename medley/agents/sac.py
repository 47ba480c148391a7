"""Soft actor-critic on one task or many (Haarnoja et al. 2018, arXiv 1812.05905).

Every tensor is ordered by task: obs [T, b, D], Q [2, T, b]. The losses, with weights w (1 unless replay says so):

    y    = r + discount * (min_k Qbar_k(s', a') - alpha_i log pi(a'|s')), kept within +- max_value
    L_Q  = mean_i mean_b w mean_k (Q_k(s, a) - y)^2          trains both critics and the task encoder
    L_pi = mean_i mean_b w (alpha_i log pi(a~|s) - min_k Q_k(s, a~))      trains the actor alone
    L_al = -mean_i mean_b log alpha_i (log pi + target entropy)             trains the temperatures alone
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from medley.agents.actor_critic import ActorCritic, steady
from medley.agents.api import AgentKind, Batch, Metrics, NativeUpdate, Spaces, register_agent
from medley.agents.sac_options import SACConfig, check, max_value
from medley.gradients.task_loss import Extras
from medley.nn.squashed_gaussian import sample
from medley.nn.trunks import forward_beside

ACTOR_TOO = ("all", "no_target")  # phases that train the actor


class SAC(ActorCritic):
    def __init__(self, options: SACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        self.max_value = max_value(options, spaces)

    def phase(self, update: int) -> str:
        actor = update % self.options.actor_update_freq == 0
        target = update % self.options.critic_target_update_freq == 0
        return {
            (True, True): "all",
            (True, False): "no_target",
            (False, True): "critic_target",
            (False, False): "critic",
        }[actor, target]

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        tasks, _, dims = self.action_mask.shape
        combiners = [self.combine_critic, self.combine_actor] if phase in ACTOR_TOO else [self.combine_critic]
        shapes = [combiner.random_shape() for combiner in combiners]
        noise = [self._noise((tasks, per_task, dims)) for _ in combiners]
        return noise + [self._uniform(shape) for shape in shapes if shape is not None]

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        noise = self.draw_noise(batch.obs.shape[1], phase) if noise is None else noise
        actor_too = phase in ACTOR_TOO
        orders = iter(noise[2 if actor_too else 1 :])
        batch = self._weighted(self._normalized(batch))
        metrics = self.update_critic(batch, noise[0], next(orders, None))
        if actor_too:
            metrics |= self.update_actor(batch, noise[1], next(orders, None))
        if phase in ("all", "critic_target"):
            self.update_target()
        return metrics

    def native(self, threads: int) -> NativeUpdate | str:
        if type(self) is not SAC:
            return f"{type(self).__name__} may differ from the SAC that is compiled"
        from medley.agents.native.learner import native_sac  # Numba takes a while to import

        return native_sac(self, threads)

    def update_critic(self, batch: Batch, noise: Tensor, random: Tensor | None = None) -> Metrics:
        with torch.no_grad():
            y = self._bounded(self._targets(batch, self._task(), noise))
        inputs = (batch.obs, batch.action, y, batch.weight, *self._beside_critic(batch, noise))
        done = self.combine_critic(self.critic_loss, inputs, random)
        norm = self._descend("critic", done.gradients)
        self.critic.after_step()
        self.combine_critic.after_step(self.critic_loss, inputs, done.losses)
        more = self._after_critic(done.extras)
        return {
            "critic_loss": done.losses.mean(),
            "critic_loss_per_task": done.losses,
            "q_mean_per_task": done.extras["q"],
            "grad_norm_critic": norm,
            "batch_reward": batch.reward.mean(),
            **{f"{name}_critic": value for name, value in done.metrics.items()},
            **more,
        }

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        q = self._q(self.critic, obs, action, self._task(), *beside)
        losses = ((q - y).square().mean(0) * weight).mean(-1)
        return losses, {"q": q.detach().mean((0, 2))}

    def update_actor(self, batch: Batch, noise: Tensor, random: Tensor | None = None) -> Metrics:
        alpha = self._alpha()
        beside = (batch.next_obs,) if self.actor.mixes_rows else ()
        inputs = (batch.obs, noise, batch.weight, alpha.expand(batch.obs.shape[0], 1), self.action_mask, *beside)
        done = self.combine_actor(self.actor_loss, inputs, random)
        norm = self._descend("actor", done.gradients)
        self.actor.after_step()
        log_prob = done.extras["log_prob"]
        more = self._after_actor(batch, done.extras)
        metrics = {
            "actor_loss": done.losses.mean(),
            "actor_entropy": -log_prob.mean(),
            "actor_target_entropy": self.target_entropy.mean(),
            "alpha_value": alpha.mean(),
            "alpha_per_task": alpha.expand(log_prob.shape[0], 1)[:, 0],
            "grad_norm_actor": norm,
            **{f"{name}_actor": value for name, value in done.metrics.items()},
            **more,
        }
        return metrics | (self.update_alpha(log_prob) if self.options.learn_temperature else {})

    def _actor_losses(
        self, obs: Tensor, noise: Tensor, weight: Tensor, alpha: Tensor, mask: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        z = self._task(detach=True)
        action, log_prob = sample(*self._distribution(forward_beside(self.actor, (obs, z), beside)), noise, mask)
        losses = ((alpha * log_prob - self._value(obs, action, z)) * weight).mean(-1)
        return losses, {"log_prob": log_prob.detach()}

    def update_alpha(self, log_prob: Tensor) -> Metrics:
        loss = self._alpha_loss(log_prob)
        (gradient,) = torch.autograd.grad(loss, [self.log_alpha])
        self.optimizers["alpha"].step([gradient], None)
        if self.options.log_alpha_bounds is not None:
            with torch.no_grad():
                self.log_alpha.clamp_(*self.options.log_alpha_bounds)
        return {"alpha_loss": loss.detach()}

    # ---- what an algorithm may do differently

    def _alpha_loss(self, log_prob: Tensor) -> Tensor:
        return -(self.log_alpha.unsqueeze(1) * (log_prob + self.target_entropy)).mean()

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        """What the critic should say of the batch."""
        action, log_prob = self._next_action(batch, z, noise)
        q = self._target_q(batch, action).amin(0)
        return batch.reward + batch.discount * (q - self._alpha() * log_prob)

    def _value(self, obs: Tensor, action: Tensor, z: Tensor | None) -> Tensor:
        """What the actor is to maximise, [T, b]."""
        return self._q(self._frozen_critic(), obs, action, z).amin(0)

    def _after_critic(self, extras: Extras) -> Metrics:
        """Called when the critic has stepped, with what its losses said."""
        return {}

    def _after_actor(self, batch: Batch, extras: Extras) -> Metrics:
        """The same for the actor."""
        return {}

    # ---- pieces

    def _bounded(self, y: Tensor) -> Tensor:
        """What no policy can earn is an error of the critics, and would feed itself."""
        return y if self.max_value == math.inf else y.clamp(-self.max_value, self.max_value)

    def _next_action(self, batch: Batch, z: Tensor | None, noise: Tensor) -> tuple[Tensor, Tensor]:
        """What the policy would do next, and its log-density."""
        return sample(*self._distribution(steady(self.actor)(batch.next_obs, z)), noise, self.action_mask)

    def _target_q(self, batch: Batch, next_action: Tensor) -> Tensor:
        beside = (batch.obs, batch.action) if self.target.mixes_rows else ()
        return self._q(self.target, batch.next_obs, next_action, self.target_task(), *beside)

    def _beside_critic(self, batch: Batch, noise: Tensor) -> tuple[Tensor, ...]:
        """What goes through the critic beside the batch, if its rows mix: what goes through its target too."""
        if not self.critic.mixes_rows:
            return ()
        with torch.no_grad():
            return batch.next_obs, self._next_action(batch, self._task(), noise)[0]

    def _normalized(self, batch: Batch) -> Batch:
        if self.obs_norm is None:
            return batch
        return dataclasses.replace(batch, obs=self._seen(batch.obs), next_obs=self._seen(batch.next_obs))

    def _weighted(self, batch: Batch) -> Batch:
        """Tasks that are sure of what they do may count for more (Yang et al. 2020)."""
        if self.options.task_weights == "none":
            return batch
        share = torch.softmax(-self.log_alpha.detach(), 0) * self.log_alpha.shape[0]
        return dataclasses.replace(batch, weight=batch.weight * share.unsqueeze(1))


register_agent("sac", AgentKind(SACConfig, SAC, check))
