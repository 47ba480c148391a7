"""DeepMDP: latents that predict the next latent, the reward and the next picture (Gelada et al. 2019).

    h^' = T(h, a),  r^ = R(h^')                                            h = critic's projection of convs(x)
    L_model = mean .5 ((h^' - sg(h')) / sigma)^2 + log sigma  +  (r^ - r)^2         trains T, R and the encoder
    L_AE    = |decoder(h^') - x~'|^2 / pixels                                     trains T, decoder and the encoder

sigma is 1, or learnt where `probabilistic`. T and R are two layers with LayerNorm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.pixel_options import PixelOptimizersConfig, PixelSACConfig
from medley.agents.pixel_options import check as check_pixels
from medley.agents.sac_ae import SACAE
from medley.config.options import opt
from medley.errors import ConfigError
from medley.nn.convs import quantised
from medley.nn.optimizer import Optimizer, OptimizerConfig
from medley.nn.task_input import with_task


@dataclass
class DeepMDPOptimizersConfig(PixelOptimizersConfig):
    transition: OptimizerConfig = opt(OptimizerConfig(lr=1e-3), "")
    reward: OptimizerConfig = opt(OptimizerConfig(lr=1e-3), "")


@dataclass
class DeepMDPConfig(PixelSACConfig):
    optimizers: DeepMDPOptimizersConfig = opt(DeepMDPOptimizersConfig(), "")
    model_dim: int = opt(512, "units of the transition and reward models")
    probabilistic: bool = opt(False, "the transition model says how sure it is")


SIGMA = 1e-4, 10.0  # least and largest


class Model(nn.Module):
    """Rows of inputs, side by side, through Linear, LayerNorm, ReLU, Linear."""

    def __init__(self, inputs: int, width: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(inputs, width), nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)
        with torch.no_grad():
            for layer in (self.first, self.last):  # PyTorch's own, by our generator
                for tensor in layer.parameters():
                    bound = layer.in_features**-0.5
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) * 2 * bound - bound)

    def forward(self, *inputs: Tensor) -> Tensor:
        out: Tensor = self.last(torch.relu(self.norm(self.first(torch.cat(inputs, dim=-1)))))
        return out


class DeepMDP(SACAE):
    options: DeepMDPConfig

    def __init__(self, options: DeepMDPConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        o, init = options, torch.Generator().manual_seed(seed + 4)
        latent, known = o.pixels.feature_dim, self._latent_width()
        outputs = 2 * latent if o.probabilistic else latent
        self.transition = Model(known + spaces.action_dim, o.model_dim, outputs, init).to(device)
        self.reward = Model(known, o.model_dim, 1, init).to(device)
        self.networks |= {"transition": self.transition, "reward": self.reward}
        self.optimizers["transition"] = Optimizer(list(self.transition.parameters()), o.optimizers.transition)
        self.optimizers["reward"] = Optimizer(list(self.reward.parameters()), o.optimizers.reward)

    def update_model(self, batch: Batch, features: Tensor, random: list[Tensor]) -> Metrics:
        with torch.no_grad():
            h_next = self.critic.project(self.convs(batch.next_obs))
        z = self._model_task()
        guess, sigma = self._predict(self.critic.project(features), z, batch.action)
        dynamics = (0.5 * ((guess - h_next) / sigma).square() + torch.log(sigma)).mean()
        reward = (self.reward(with_task(guess, z)).squeeze(-1) - batch.reward).square().mean()
        extra, more = self._extra_loss(features.detach(), batch.action)
        self._learn(dynamics + reward + extra, ("transition", "reward", "encoder", *self._task_optimizers()))

        z = self._model_task()
        guess, _ = self._predict(self.critic.project(self.convs(batch.obs)), z, batch.action)
        error = (self.decoder(with_task(guess, z)) - quantised(batch.next_obs, random[0])).square().mean()
        self._learn(error, ("transition", "decoder", "encoder", *self._task_optimizers()))
        return {
            "ae_loss": error.detach(),
            "ae_transition_loss": dynamics.detach(),
            "reward_loss": reward.detach(),
            **more,
        }

    def _predict(self, h: Tensor, z: Tensor | None, action: Tensor) -> tuple[Tensor, Tensor]:
        """The next latent, and how far off it may be."""
        out = self.transition(with_task(h, z), action)
        if not self.options.probabilistic:
            return out, torch.ones_like(out)
        mean, raw = out.chunk(2, dim=-1)
        return mean, SIGMA[0] + (SIGMA[1] - SIGMA[0]) * torch.sigmoid(raw)

    # ---- what HiPBMDP does differently

    def _model_task(self) -> Tensor | None:
        return self._task(detach=True)

    def _task_optimizers(self) -> Sequence[str]:
        return ()

    def _extra_loss(self, features: Tensor, action: Tensor) -> tuple[Tensor | float, Metrics]:
        return 0.0, {}


def check(options: DeepMDPConfig, tasks: int) -> None:
    check_pixels(options, tasks)
    if options.model_dim < 1:
        raise ConfigError(f"agent.model_dim={options.model_dim} must be at least 1.")
    if options.n_step != 1:
        raise ConfigError(f"agent.n_step={options.n_step}: a model of one step cannot be learnt from several.")


register_agent("deepmdp", AgentKind(DeepMDPConfig, DeepMDP, check))
