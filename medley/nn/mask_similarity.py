"""How alike tasks are: by their masks, and by what happens in them. Matrices [T, T]; 1 means the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def hamming(masks: Sequence[Tensor], pruning_ratio: float) -> Tensor:
    """1 - D / (2p(1-p)), D the share of weights that one task has and the other has not, mean over layers.

    Independent random masks have 0, opposite ones less. Differentiable in masks [T, ...] of every layer.
    """
    distances = []
    for mask in masks:
        flat = mask.flatten(1)
        share, both = flat.mean(1), flat @ flat.T / flat.shape[1]
        distances.append(share.unsqueeze(0) + share.unsqueeze(1) - 2 * both)
    return 1 - torch.stack(distances).mean(0) / (2 * pruning_ratio * (1 - pruning_ratio))


def jaccard(masks: Sequence[Tensor]) -> Tensor:
    """Weights that both tasks have, as a share of those that either has, mean over layers.

    For zeros and ones, min(a, b) = ab and max(a, b) = a + b - ab; the latter have a gradient everywhere.
    """
    shares = []
    for mask in masks:
        flat = mask.flatten(1)
        size, both = flat.sum(1), flat @ flat.T
        shares.append(both / (size.unsqueeze(0) + size.unsqueeze(1) - both))
    return torch.stack(shares).mean(0)


def trajectory_similarity(features: Tensor) -> Tensor:
    """exp(-(d_ij / median of all d)^2) of the distances between tasks' features [T, .]."""
    distance = (features.unsqueeze(0) - features.unsqueeze(1)).square().sum(-1).sqrt()
    pairs = distance[_upper(distance)]
    middle = torch.quantile(pairs, 0.5).clamp(min=1e-12)
    return torch.exp(-(distance / middle).square())


def similarity_loss(masks: Tensor, trajectories: Tensor, counts: Tensor | None = None) -> Tensor:
    """Mean over pairs of tasks of (mask similarity - trajectory similarity)^2; `counts` [T]: tasks that take part."""
    pairs = _upper(masks).to(masks.dtype)
    if counts is not None:
        pairs = pairs * counts.unsqueeze(0) * counts.unsqueeze(1)
    return ((masks - trajectories.detach()).square() * pairs).sum() / pairs.sum().clamp(min=1)


def _upper(matrix: Tensor) -> Tensor:
    return torch.ones_like(matrix, dtype=torch.bool).triu(1)
