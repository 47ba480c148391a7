"""Rewards from discriminators: DAC, and with auxiliary intentions LfGP (Kostrikov et al. 2019; Ablett et al. 2023).

    r_k = D_k(s[, a])                                                       a logit, as it is
    L_D = sum_k 1/2 (BCE(D_k(replay), 0) + BCE(D_k(experts_k), 1)) + lambda mean (|d sum_k D_k / dx| - 1)^2

The last term is taken at x between an expert's row and one of replay, mixed by another share in every dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from medley.agents.api import AgentKind, Metrics, Spaces, register_agent
from medley.agents.intentions.batch import IntentionBatch
from medley.agents.intentions.expert_sac import ExpertSAC
from medley.agents.intentions.options import IntentionConfig
from medley.agents.intentions.options import check as check_intentions
from medley.agents.intentions.running_median import RunningMedian
from medley.agents.sac_options import OptimizersConfig
from medley.config.options import opt
from medley.errors import ConfigError
from medley.nn.optimizer import Optimizer, OptimizerConfig
from medley.nn.stacked import linear_layers


@dataclass
class DiscriminatorConfig:
    hidden_dim: int = opt(256, "units per hidden layer")
    num_layers: int = opt(2, "hidden layers")
    sees_actions: bool = opt(False, "it judges what was done, not only where one was; experts must have actions then")
    gradient_penalty: float = opt(10.0, "weight of the penalty on its slope")


@dataclass
class DACOptimizersConfig(OptimizersConfig):
    discriminator: OptimizerConfig = opt(OptimizerConfig(), "")


@dataclass
class DACConfig(IntentionConfig):
    discriminator: DiscriminatorConfig = opt(DiscriminatorConfig(), "")
    optimizers: DACOptimizersConfig = opt(DACOptimizersConfig(), "")


class Discriminator(nn.Module):
    """A network of its own for every intention: [1 or T, rows, in] -> [T, rows]."""

    def __init__(self, intentions: int, inputs: int, options: DiscriminatorConfig, generator: torch.Generator) -> None:
        super().__init__()
        sizes = [inputs, *[options.hidden_dim] * options.num_layers, 1]
        self.layers = linear_layers((intentions,), sizes, generator)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        out: Tensor = self.layers[-1](x)
        return out.squeeze(-1)


class DAC(ExpertSAC):
    options: DACConfig

    def __init__(self, options: DACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        o, tasks = options.discriminator, len(spaces.tasks)
        self._inputs = spaces.obs_dim + spaces.action_dim * o.sees_actions
        self.discriminator = Discriminator(tasks, self._inputs, o, torch.Generator().manual_seed(seed + 5)).to(device)
        self.networks["discriminator"] = self.discriminator
        self.optimizers["discriminator"] = Optimizer(
            list(self.discriminator.parameters()), options.optimizers.discriminator
        )
        window = options.penalty.window
        self.least, self.most = (RunningMedian(tasks, window, device, nothing=0.0) for _ in range(2))

    def _more_noise(self, rows: int, experts: int, dims: int) -> list[Tensor]:
        return [
            self._uniform((len(self.spaces.tasks) * experts, self._inputs)),
            *super()._more_noise(rows, experts, dims),
        ]

    # ---- the discriminators

    def _learn_first(self, batch: IntentionBatch, numbers: Iterator[Tensor]) -> Metrics:
        expert = batch.expert
        assert expert is not None
        mixed_by = next(numbers)
        replay = self._judged(batch.obs, batch.action)
        own = self._judged(expert.obs, expert.action if self.options.discriminator.sees_actions else None)
        network, tasks = self.discriminator, own.shape[0]
        bad, good = network(replay), network(own)
        each = 0.5 * (_mean(bad, 0.0) + _mean(good, 1.0))
        slope = self._slope(own.flatten(0, 1), replay[0], mixed_by)
        loss = each.sum() + self.options.discriminator.gradient_penalty * slope
        optimizer = self.optimizers["discriminator"]
        gradients = torch.autograd.grad(loss, optimizer.parameters)
        optimizer.step(list(gradients), self.options.grad_clip)
        with torch.no_grad():
            right = ((good > 0).float().mean(-1) + (bad < 0).float().mean(-1)) / 2
        return {
            "discriminator_loss": loss.detach() / tasks,
            "discriminator_right_per_task": right,
            "discriminator_slope": slope.detach(),
        }

    def _judged(self, obs: Tensor, action: Tensor | None) -> Tensor:
        if not self.options.discriminator.sees_actions:
            return obs
        assert action is not None
        return torch.cat([obs, action], -1)

    def _slope(self, own: Tensor, replay: Tensor, share: Tensor) -> Tensor:
        rows = torch.arange(len(own), device=own.device) % len(replay)
        between = (share * own + (1 - share) * replay[rows]).detach().requires_grad_()
        total = self.discriminator(between.unsqueeze(0)).sum()
        (slope,) = torch.autograd.grad(total, between, create_graph=True)
        steepness: Tensor = slope.square().sum(-1).add(1e-12).sqrt()
        return (steepness - 1).square().mean()

    # ---- what the critics get

    def _rewards(self, batch: IntentionBatch, obs: Tensor, action: Tensor, own: Tensor) -> Tensor:
        with torch.no_grad():
            reward: Tensor = self.discriminator(self._judged(obs, action))
            self.least.push(reward.amin(-1).clamp(max=-0.01))
            self.most.push(reward.amax(-1).clamp(min=0.01))
        return self.options.reward_scale * reward

    def _bounds(self) -> tuple[Tensor, Tensor]:
        scale = self.options.reward_scale / (1 - self.options.discount)
        return scale * self.least.value(), scale * self.most.value()

    # ---- saving

    def _tensors(self) -> dict[str, Tensor]:
        medians = {f"{name}.{k}": v for name in ("least", "most") for k, v in getattr(self, name).state().items()}
        return {**super()._tensors(), **medians}


def _mean(logits: Tensor, label: float) -> Tensor:
    return bce(logits, torch.full_like(logits, label), reduction="none").mean(-1)


def check(options: DACConfig, intentions: int) -> None:
    check_intentions(options, intentions)
    o = options.discriminator
    if min(o.hidden_dim, o.num_layers) < 1 or o.gradient_penalty < 0:
        raise ConfigError("agent.discriminator: layers and units must be at least 1, the penalty not negative.")
    if o.sees_actions and options.expert.path is None:
        raise ConfigError("agent.discriminator.sees_actions=true needs demonstrations: agent.expert.path=...")


register_agent("dac", AgentKind(DACConfig, DAC, check))
