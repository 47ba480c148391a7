"""DeepMDP: latents that predict the next latent, the reward and the next picture (Gelada et al. 2019).

    h^' = T(h, a),  r^ = R(h^')                                            h = critic's projection of convs(x)
    L_model = mean .5 ((h^' - sg(h')) / sigma)^2 + log sigma  +  (r^ - r)^2         trains T, R and the encoder
    L_AE    = |decoder(h^') - x~'|^2 / pixels                                     trains T, decoder and the encoder

T, R and the errors of their predictions are those of `latent_model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.latent_model import LatentModel, check_model
from medley.agents.pixel_options import PixelOptimizersConfig, PixelSACConfig
from medley.agents.pixel_options import check as check_pixels
from medley.agents.sac_ae import SACAE
from medley.config.options import opt
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


class DeepMDP(SACAE):
    options: DeepMDPConfig

    def __init__(self, options: DeepMDPConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        o, init = options, torch.Generator().manual_seed(seed + 4)
        latent, told = o.pixels.feature_dim, self.task_input.width
        self.model = LatentModel(latent, told, spaces.action_dim, o.model_dim, o.probabilistic, init)
        for name, network in self.model.networks().items():
            self.networks[name] = network.to(device)
            self.optimizers[name] = Optimizer(list(network.parameters()), getattr(o.optimizers, name))

    def update_model(self, batch: Batch, features: Tensor, random: list[Tensor]) -> Metrics:
        with torch.no_grad():
            h_next = self.critic.project(self.convs(batch.next_obs))
        z = self._model_task()
        errors = self.model.errors(self.critic.project(features), z, batch.action, h_next, batch.reward)
        dynamics, reward = (error.mean() for error in errors)
        extra, more = self._extra_loss(features.detach(), batch.action)
        self._learn(dynamics + reward + extra, ("transition", "reward", "encoder", *self._task_optimizers()))

        z = self._model_task()
        guess, _ = self.model.predict(self.critic.project(self.convs(batch.obs)), z, batch.action)
        error = (self.decoder(with_task(guess, z)) - quantised(batch.next_obs, random[0])).square().mean()
        self._learn(error, ("transition", "decoder", "encoder", *self._task_optimizers()))
        return {
            "ae_loss": error.detach(),
            "ae_transition_loss": dynamics.detach(),
            "reward_loss": reward.detach(),
            **more,
        }

    # ---- what HiPBMDP does differently

    def _model_task(self) -> Tensor | None:
        return self._task(detach=True)

    def _task_optimizers(self) -> Sequence[str]:
        return ()

    def _extra_loss(self, features: Tensor, action: Tensor) -> tuple[Tensor | float, Metrics]:
        return 0.0, {}


def check(options: DeepMDPConfig, tasks: int) -> None:
    check_pixels(options, tasks)
    check_model(options.model_dim, options.n_step)


register_agent("deepmdp", AgentKind(DeepMDPConfig, DeepMDP, check))
