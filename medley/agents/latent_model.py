"""A model of latents, which DeepMDP learns beside actor and critic (Gelada et al. 2019), whatever they are made from.

    h^' = T(h, z, a),  r^ = R(h^', z)                                      z: what the networks are told of the task
    errors: .5 ((h^' - h') / sigma)^2 + log sigma,  (r^ - r)^2

sigma is 1, or learnt where `probabilistic`. T and R are two layers with LayerNorm.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from medley.errors import ConfigError
from medley.nn.task_input import with_task

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

    def per_task(self) -> list[str]:
        return []

    def forward(self, *inputs: Tensor) -> Tensor:
        out: Tensor = self.last(torch.relu(self.norm(self.first(torch.cat(inputs, dim=-1)))))
        return out


class LatentModel:
    """T and R for latents of `latent` numbers in tasks that `task` numbers tell apart."""

    def __init__(
        self, latent: int, task: int, actions: int, width: int, probabilistic: bool, generator: torch.Generator
    ) -> None:
        self.probabilistic = probabilistic
        outputs = 2 * latent if probabilistic else latent
        self.transition = Model(latent + task + actions, width, outputs, generator)
        self.reward = Model(latent + task, width, 1, generator)

    def networks(self) -> dict[str, nn.Module]:
        return {"transition": self.transition, "reward": self.reward}

    def predict(self, h: Tensor, z: Tensor | None, action: Tensor) -> tuple[Tensor, Tensor]:
        """The next latent, and how far off it may be."""
        out = self.transition(with_task(h, z), action)
        if not self.probabilistic:
            return out, torch.ones_like(out)
        mean, raw = out.chunk(2, dim=-1)
        return mean, SIGMA[0] + (SIGMA[1] - SIGMA[0]) * torch.sigmoid(raw)

    def errors(
        self, h: Tensor, z: Tensor | None, action: Tensor, h_next: Tensor, reward: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of the next latents [T, b, latent], and of the rewards [T, b]."""
        guess, sigma = self.predict(h, z, action)
        of_latents = 0.5 * ((guess - h_next) / sigma).square() + torch.log(sigma)
        return of_latents, (self.reward(with_task(guess, z)).squeeze(-1) - reward).square()


def check_model(model_dim: int, n_step: int) -> None:
    if model_dim < 1:
        raise ConfigError(f"agent.model_dim={model_dim} must be at least 1.")
    if n_step != 1:
        raise ConfigError(f"agent.n_step={n_step}: a model of one step cannot be learnt from several.")
