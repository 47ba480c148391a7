"""Distributions over fixed values (atoms), and how one whose values moved is brought back to them."""

from __future__ import annotations

import torch
from torch import Tensor


def atoms(bins: int, largest: float, device: torch.device) -> Tensor:
    return torch.linspace(-largest, largest, bins, device=device)


def project(values: Tensor, probabilities: Tensor, largest: float, bins: int) -> Tensor:
    """Probabilities [..., bins] of atoms from those of any `values` [..., n]: each is shared between the two atoms it
    lies between (Bellemare et al. 2017, equation 7). The expected value stays, unless a value lies beyond all atoms.

    As a sum over all pairs, and not by adding to places: a GPU would add in another order every time.
    """
    place = (values.clamp(-largest, largest) + largest) * ((bins - 1) / (2 * largest))
    index = torch.arange(bins, device=values.device, dtype=values.dtype)
    shares = (1 - (place.unsqueeze(-1) - index).abs()).clamp(min=0)
    return (probabilities.unsqueeze(-1) * shares).sum(-2)
