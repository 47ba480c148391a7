"""The policy's distribution: a Gaussian squashed by tanh, with its exact log-density."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def bound_log_std(raw: Tensor, low: float, high: float, how: str) -> Tensor:
    """`clamp` cuts; `tanh` rescales smoothly (at raw=0 it gives the middle of the range, so it starts timid)."""
    if how == "tanh":
        return low + 0.5 * (high - low) * (torch.tanh(raw) + 1)
    return raw.clamp(low, high)


def sample(mean: Tensor, log_std: Tensor, noise: Tensor, action_mask: Tensor) -> tuple[Tensor, Tensor]:
    """a = tanh(mean + std * noise) and log pi(a), summed over real action dimensions only.

    log(1 - tanh(u)^2) = 2 (log 2 - |u| - log(1 + exp(-2|u|))), which does not overflow. (PyTorch's softplus would be
    shorter, but it rounds the last few numbers of a tensor differently, and these depend on how tensors are stacked.)
    Masked-out dimensions are zero in a.
    """
    u = mean + log_std.exp() * noise
    log_prob = -0.5 * noise.square() - log_std - _LOG_SQRT_2PI - _log_slope(u)
    return torch.tanh(u) * action_mask, (log_prob * action_mask).sum(-1)


def log_density(mean: Tensor, log_std: Tensor, u: Tensor, action_mask: Tensor) -> Tensor:
    """log pi(tanh(u)) of a policy that u need not come from."""
    noise = (u - mean) * torch.exp(-log_std)
    log_prob = -0.5 * noise.square() - log_std - _LOG_SQRT_2PI - _log_slope(u)
    return (log_prob * action_mask).sum(-1)


def _log_slope(u: Tensor) -> Tensor:
    size = u.abs()
    return 2 * (math.log(2) - size - torch.log1p(torch.exp(-2 * size)))
