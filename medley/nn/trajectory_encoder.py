"""Episodes to vectors: a bidirectional LSTM over the states, a linear layer, the mean over time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TrajectoryEncoder(nn.Module):
    """[episodes, latent] of states [episodes, time, obs] that are valid up to `lengths` (on the CPU, at least 1).

    Steps beyond an episode's end are never seen, in neither direction.
    """

    def __init__(self, obs: int, latent: int, generator: torch.Generator) -> None:
        super().__init__()
        self.lstm = nn.LSTM(obs, latent, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * latent, latent)
        with torch.no_grad():  # from the agent's own seed, wherever the network lies
            for parameter in self.lstm.parameters():
                _uniform(parameter, 1 / math.sqrt(latent), generator)
            for parameter in self.out.parameters():
                _uniform(parameter, 1 / math.sqrt(2 * latent), generator)

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
        # Padding comes back as zeros: it adds nothing to the sum.
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        mean = hidden.sum(1) / lengths.to(hidden).unsqueeze(1)
        # The layer is linear, so the mean may come before it.
        out: Tensor = self.out(mean)
        return out


def _uniform(parameter: Tensor, bound: float, generator: torch.Generator) -> None:
    parameter.copy_(torch.rand(parameter.shape, generator=generator).mul_(2 * bound).sub_(bound))
