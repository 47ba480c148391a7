"""SAC+AE as people write it from the paper: what `medley bench pixels` compares with.

Whole stacks of pictures in NumPy arrays, copied to the device and made floats for every batch; every network encodes
for itself, up to six times per update; PyTorch's own layers and Adam; losses read back after every update. The
arithmetic is that of `medley.agents.sac_ae`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(channels, 32, 3, stride=2)] + [nn.Conv2d(32, 32, 3) for _ in range(3)])
        self.linear, self.norm = nn.Linear(32 * side * side, 50), nn.LayerNorm(50)

    def forward(self, obs: Tensor, detach: bool = False) -> Tensor:
        x = obs / 255.0
        for conv in self.convs:
            x = torch.relu(conv(x))
        x = x.reshape(x.shape[0], -1)
        return torch.tanh(self.norm(self.linear(x.detach() if detach else x)))


class Decoder(nn.Module):
    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.linear = nn.Linear(50, 32 * side * side)
        self.deconvs = nn.ModuleList([nn.ConvTranspose2d(32, 32, 3) for _ in range(3)])
        self.last = nn.ConvTranspose2d(32, channels, 3, stride=2, output_padding=1)

    def forward(self, h: Tensor) -> Tensor:
        x = torch.relu(self.linear(h)).view(-1, 32, self.side, self.side)
        for deconv in self.deconvs:
            x = torch.relu(deconv(x))
        out: Tensor = self.last(x)
        return out


def _mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, outputs))


class Critic(nn.Module):
    def __init__(self, channels: int, side: int, actions: int) -> None:
        super().__init__()
        self.encoder = Encoder(channels, side)
        self.q1, self.q2 = _mlp(50 + actions, 1), _mlp(50 + actions, 1)

    def forward(self, obs: Tensor, action: Tensor, detach: bool = False) -> tuple[Tensor, Tensor]:
        x = torch.cat([self.encoder(obs, detach), action], dim=1)
        return self.q1(x), self.q2(x)


class Actor(nn.Module):
    def __init__(self, channels: int, side: int, actions: int, critic: Critic) -> None:
        super().__init__()
        self.encoder = Encoder(channels, side)
        self.encoder.convs = critic.encoder.convs
        self.trunk = _mlp(50, 2 * actions)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.trunk(self.encoder(obs, detach=True)).chunk(2, dim=1)
        log_std = -10 + 6 * (torch.tanh(log_std) + 1)
        noise = torch.randn_like(mean)
        log_prob = (-0.5 * noise.pow(2) - log_std).sum(1, keepdim=True) - 0.5 * np.log(2 * np.pi) * mean.shape[1]
        action = torch.tanh(mean + log_std.exp() * noise)
        return action, log_prob - torch.log(F.relu(1 - action.pow(2)) + 1e-6).sum(1, keepdim=True)


class Peer:
    """Networks, replay of whole stacks, and one update at a time."""

    def __init__(
        self, image: tuple[int, int, int], actions: int, capacity: int, batch: int, device: torch.device
    ) -> None:
        channels, side = image[0], (image[1] - 3) // 2 + 1 - 6
        self.device, self.batch, self.size = device, batch, 0
        self.obs, self.next_obs = (np.empty((capacity, *image), dtype=np.uint8) for _ in range(2))
        self.action = np.empty((capacity, actions), dtype=np.float32)
        self.reward, self.alive = np.empty((2, capacity, 1), dtype=np.float32)
        self.critic = Critic(channels, side, actions).to(device)
        self.target = copy.deepcopy(self.critic)
        self.actor = Actor(channels, side, actions, self.critic).to(device)
        self.decoder = Decoder(channels, side).to(device)
        self.log_alpha = torch.tensor(np.log(0.1), device=device, requires_grad=True)
        self.target_entropy = -actions
        adam = torch.optim.Adam
        self.critic_adam, self.actor_adam = adam(self.critic.parameters(), 1e-3), adam(self.actor.parameters(), 1e-3)
        self.alpha_adam = adam([self.log_alpha], 1e-4, betas=(0.5, 0.999))
        self.encoder_adam = adam(self.critic.encoder.parameters(), 1e-3)
        self.decoder_adam = adam(self.decoder.parameters(), 1e-3, weight_decay=1e-7)
        self.logged: dict[str, float] = {}
        self.random = np.random.default_rng(0)

    def add(self, obs: Any, action: Any, reward: float, next_obs: Any, terminated: bool) -> None:
        at = self.size % len(self.obs)
        self.obs[at], self.next_obs[at], self.action[at] = obs, next_obs, action
        self.reward[at], self.alive[at] = reward, not terminated
        self.size += 1

    def act(self, obs: npt.NDArray[np.uint8]) -> Any:
        with torch.no_grad():
            rows = torch.as_tensor(obs, device=self.device).float().unsqueeze(0)
            return self.actor(rows)[0].cpu().numpy()[0]

    def update(self, step: int) -> None:
        index = self.random.integers(0, min(self.size, len(self.obs)), self.batch)

        def on_device(rows: Any) -> Tensor:
            return torch.as_tensor(rows[index], device=self.device).float()

        obs, next_obs, action = on_device(self.obs), on_device(self.next_obs), on_device(self.action)
        reward, alive = on_device(self.reward), on_device(self.alive)
        self._update_critic(obs, action, reward, next_obs, alive)
        if step % 2 == 0:
            self._update_actor(obs)
            self._update_target()
        self._update_decoder(obs)

    def _update_critic(self, obs: Tensor, action: Tensor, reward: Tensor, next_obs: Tensor, alive: Tensor) -> None:
        with torch.no_grad():
            next_action, log_prob = self.actor(next_obs)
            value = torch.min(*self.target(next_obs, next_action)) - self.log_alpha.exp() * log_prob
            y = reward + alive * 0.99 * value
        q1, q2 = self.critic(obs, action)
        self._step(F.mse_loss(q1, y) + F.mse_loss(q2, y), "critic_loss", self.critic_adam)

    def _update_actor(self, obs: Tensor) -> None:
        action, log_prob = self.actor(obs)
        q = torch.min(*self.critic(obs, action, detach=True))
        self._step((self.log_alpha.exp().detach() * log_prob - q).mean(), "actor_loss", self.actor_adam)
        loss = (self.log_alpha.exp() * (-log_prob - self.target_entropy).detach()).mean()
        self._step(loss, "alpha_loss", self.alpha_adam)

    def _update_target(self) -> None:
        for name, source in self.critic.named_parameters():
            rate = 0.05 if name.startswith("encoder") else 0.01
            target = self.target.get_parameter(name)
            target.data.copy_(rate * source.data + (1 - rate) * target.data)

    def _update_decoder(self, obs: Tensor) -> None:
        h = self.critic.encoder(obs)
        wanted = torch.floor(obs / 8) / 32
        wanted = wanted + torch.rand_like(wanted) / 32 - 0.5
        loss = F.mse_loss(self.decoder(h), wanted) + 1e-6 * (0.5 * h.pow(2).sum(1)).mean()
        self._step(loss, "ae_loss", self.encoder_adam, self.decoder_adam)

    def _step(self, loss: Tensor, name: str, *optimizers: torch.optim.Optimizer) -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            optimizer.step()
        self.logged[name] = loss.item()
