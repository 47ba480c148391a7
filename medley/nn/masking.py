"""From a number per weight to a binary mask that keeps a fixed share of them, with a gradient all the same.

    M = 1[logit among the largest `kept`]      M' = M + s - sg(s),  s = sigmoid((logit - sg threshold) / sg spread)

A loss sees M; its gradient reaches the logits through s (straight through): dL/dlogit = dL/dM s(1-s) / spread.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Mask(NamedTuple):
    """Zeros and ones [T, ...], and what a gradient of theirs is multiplied by to be one of the logits."""

    hard: Tensor
    slope: Tensor


def kept(entries: int, pruning_ratio: float) -> int:
    """How many of `entries` weights a mask leaves; never none."""
    return max(1, round((1 - pruning_ratio) * entries))


def binarise(logits: Tensor, pruning_ratio: float) -> Mask:
    """Keep the weights with the largest logits [T, ...], for every task exactly `kept` of them.

    Where several logits are as large as the last one kept, those that come first stay: the ratio holds whatever the
    ties.
    """
    flat = logits.detach().flatten(1)
    keep = kept(flat.shape[1], pruning_ratio)
    threshold = flat.topk(keep, dim=1, sorted=False).values.amin(1, keepdim=True)
    above, level = flat > threshold, flat == threshold
    room = keep - above.sum(1, keepdim=True)
    hard = (above | (level & (level.cumsum(1, dtype=torch.int32) <= room))).to(flat.dtype)
    # (`std` walks through memory one by one on a CPU: a hundred times slower than this)
    centred = flat - flat.mean(1, keepdim=True)
    spread = centred.square().mean(1, keepdim=True).sqrt() + 1e-6
    soft = torch.sigmoid((flat - threshold) / spread)
    slope = soft * (1 - soft) / spread
    return Mask(hard.view(logits.shape), slope.view(logits.shape))
