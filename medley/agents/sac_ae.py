"""SAC+AE: the encoder also learns to reconstruct what it saw (Yarats et al. 2019, arXiv 1910.01741).

    L_AE = |decoder(h) - x~|^2 / pixels + lambda_h mean |h|^2 / 2          h = critic's projection of convs(x)

x~ has 5 bits per pixel and noise. The loss trains convolutions and the critic's projection by an Adam of their own, and
the decoder, with lambda_w of its weights added to their gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.pixel_options import PixelSACConfig, check
from medley.agents.pixel_sac import PixelSAC
from medley.nn.convs import Decoder, quantised
from medley.nn.optimizer import Optimizer
from medley.nn.projected import init_all
from medley.nn.task_input import with_task


class SACAE(PixelSAC):
    def __init__(self, options: PixelSACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        p, init = options.pixels, torch.Generator().manual_seed(seed + 3)
        self.decoder = Decoder(self.image, p.num_layers, p.num_filters, self._latent_width(), init)
        init_all(self.decoder, p.linear_init, init)
        self.decoder.to(device)
        self.networks["decoder"] = self.decoder
        self.optimizers["encoder"] = Optimizer(self._encoder_tensors(), options.optimizers.encoder)
        self.optimizers["decoder"] = Optimizer(list(self.decoder.parameters()), options.optimizers.decoder)

    def reduce_precision(self) -> None:
        super().reduce_precision()
        self.decoder.reduced = True

    def _latent_width(self) -> int:
        return self.options.pixels.feature_dim + self.task_input.width

    def _encoder_tensors(self) -> list[Tensor]:
        return [*self.convs.parameters(), *self.critic.projection()]

    def _model_due(self, update: int) -> bool:
        return update % self.options.decoder.update_freq == 0

    def _draw_for_model(self, per_task: int) -> list[Tensor]:
        return [self._uniform((len(self.spaces.tasks), per_task, *self.image))]

    def update_model(self, batch: Batch, features: Tensor, random: list[Tensor]) -> Metrics:
        h = self.critic.project(features)
        drawn = self.decoder(with_task(h, self._task(detach=True)))
        error = (drawn - quantised(batch.obs, random[0])).square().mean()
        loss = error + self.options.decoder.latent_lambda * 0.5 * h.square().sum(-1).mean()
        self._learn(loss, ("encoder", "decoder"))
        return {"ae_loss": loss.detach(), "reconstruction_error": error.detach()}

    def _learn(self, loss: Tensor, optimizers: tuple[str, ...]) -> None:
        """One step of these optimisers; all but the encoder's and the task's also shrink their weights a little."""
        parameters = [p for name in optimizers for p in self.optimizers[name].parameters]
        gradients = iter(torch.autograd.grad(loss, parameters))
        decay = self.options.decoder.weight_lambda
        for name in optimizers:
            optimizer = self.optimizers[name]
            own = [next(gradients) for _ in optimizer.parameters]
            if name not in ("encoder", "task_encoder"):
                with torch.no_grad():
                    own = [g + decay * p for g, p in zip(own, optimizer.parameters, strict=True)]
            optimizer.step(own, None)


register_agent("sac_ae", AgentKind(PixelSACConfig, SACAE, check))
