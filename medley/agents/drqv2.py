"""DrQ-v2: deterministic policy, noise that fades, n-step returns, shifted pictures (Yarats et al. 2021).

a = clamp(tanh(mu(s)) + std * noise),  std falls from 1 to .1 while exploring; in updates the noise is clipped
y = R_n + discount * min_k Qbar_k(s_n, a')                            features of s_n by the encoder that learns
L_Q  = mean_b (Q_1 - y)^2 + (Q_2 - y)^2          trains the critics and the convolutions
L_pi = -mean_b min_k Q_k(s, a)                   trains the actor
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from medley.agents.actor_critic import ActorCritic
from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.pixel_options import PixelSACConfig
from medley.agents.pixel_options import check as check_pixels
from medley.agents.pixel_sac import PixelSAC
from medley.config.options import opt
from medley.errors import ConfigError
from medley.gradients.task_loss import Extras
from medley.nn.convs import Convs
from medley.nn.optimizer import Optimizer
from medley.nn.trunks import Shape

if TYPE_CHECKING:
    from medley.replay.ring import Step

EDGE = 1 - 1e-6  # actions stay within


@dataclass
class DrQV2Config(PixelSACConfig):
    std: list[float] = opt([1.0, 0.1], "standard deviation of exploration: at the beginning, and in the end")
    std_steps: int = opt(500_000, "steps of a task over which it falls from one to the other (easy tasks: 100,000)")
    noise_clip: float = opt(0.3, "noise in updates is clipped to this")


class DrQV2(PixelSAC):
    options: DrQV2Config

    def __init__(self, options: DrQV2Config, spaces: Spaces, device: torch.device, seed: int) -> None:
        # Steps that a task has taken, and the deviation that follows from them.
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        self.std = torch.tensor(options.std[0], device=device)
        super().__init__(options, spaces, device, seed)
        del self.target_convs, self.networks["target_convs"]  # targets see with the encoder that learns

    def _make_convs(self, options: PixelSACConfig, generator: torch.Generator) -> Convs:
        p = options.pixels
        return Convs(self.image, p.num_layers, p.num_filters, generator, p.delta_orthogonal, offset=0.5)

    def _actor_shape(self, spaces: Spaces) -> Shape:
        return dataclasses.replace(super()._actor_shape(spaces), out_features=spaces.action_dim)

    def _make_optimizers(self) -> dict[str, Optimizer]:
        made = super()._make_optimizers()
        convs = {id(p) for p in self.convs.parameters()}
        heads = [p for p in made["critic"].parameters if id(p) not in convs]
        made["critic"] = Optimizer(heads, self.options.optimizers.critic)
        made["encoder"] = Optimizer(list(self.convs.parameters()), self.options.optimizers.encoder)
        del made["alpha"]
        return made

    # ---- acting

    def _act(self, seen: Tensor, z: Tensor | None, noise: Tensor | None, mask: Tensor) -> Tensor:
        mean = self._mean(self.actor.act(seen, z), mask)
        return mean if noise is None else self._inside(mean + self.std * noise) * mask

    def policy_tensors(self) -> list[Tensor]:
        return [*super().policy_tensors(), self.std]

    def observe(self, chunk: Sequence[Step], updates: int) -> None:
        super().observe(chunk, updates)
        self.steps += len(chunk) * self.spaces.slots
        start, end = self.options.std
        share = (self.steps / self.options.std_steps).clamp(max=1.0)
        self.std.copy_(start + (end - start) * share)

    def entropy_reward(self) -> Tensor | None:
        return None

    # ---- losses

    def _mean(self, out: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh(out[0]) * mask

    def _inside(self, action: Tensor) -> Tensor:
        """Clamped, with the gradient of what was not."""
        return action + (action.clamp(-EDGE, EDGE) - action).detach()

    def _tried(self, mean: Tensor, noise: Tensor, mask: Tensor) -> Tensor:
        clip = self.options.noise_clip
        return self._inside(mean + (self.std * noise).clamp(-clip, clip)) * mask

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        features = self.convs(batch.next_obs)
        action = self._tried(self._mean(self.actor(features, z), self.action_mask), noise, self.action_mask)
        return batch.reward + batch.discount * self._q(self.target, features, action, self.target_task()).amin(0)

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        features = self.convs(obs)
        q = self._q(self.critic, features, action, self._task())
        losses = ((q - y).square().sum(0) * weight).mean(-1)
        return losses, {"q": q.detach().mean((0, 2)), "features": features.detach()}

    def _after_critic(self, extras: Extras) -> Metrics:
        self._last_features = extras["features"]
        return {}

    def _features(self, obs: Tensor) -> Tensor:
        """The actor sees what the critic saw, before the encoder's step, as the authors have it."""
        return self._last_features[:, : obs.shape[1]]

    def _actor_losses(
        self, obs: Tensor, noise: Tensor, weight: Tensor, alpha: Tensor, mask: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        z = self._task(detach=True)
        action = self._tried(self._mean(self.actor(obs, z), mask), noise, mask)
        losses = (-self._value(obs, action, z) * weight).mean(-1)
        return losses, {"log_prob": torch.zeros_like(action[..., 0])}

    def update_critic(self, batch: Batch, noise: Tensor, random: Tensor | None = None) -> Metrics:
        return {**super().update_critic(batch, noise, random), "exploration_std": self.std.clone()}

    def update_alpha(self, log_prob: Tensor) -> Metrics:
        return {}

    def _descend(self, network: str, gradients: dict[Tensor, Tensor]) -> Tensor:
        if network == "critic":
            encoder = self.optimizers["encoder"]
            encoder.step([gradients[p] for p in encoder.parameters], self.options.grad_clip)
        return super()._descend(network, gradients)

    def update_target(self) -> None:
        ActorCritic.update_target(self)  # projection and heads alike, and no encoder

    # ---- saving

    def _tensors(self) -> dict[str, Tensor]:
        return {**super()._tensors(), "exploration.steps": self.steps, "exploration.std": self.std}


def check(options: DrQV2Config, tasks: int) -> None:
    check_pixels(options, tasks)
    if len(options.std) != 2 or min(options.std) < 0:
        raise ConfigError(
            f"agent.std={options.std} must be two numbers, not negative: at the beginning and in the end."
        )
    if options.std_steps < 1:
        raise ConfigError(f"agent.std_steps={options.std_steps} must be at least 1.")
    if options.task_weights != "none":
        raise ConfigError("agent.task_weights=temperature needs a temperature, and DrQ-v2 has none.")


register_agent("drqv2", AgentKind(DrQV2Config, DrQV2, check))
