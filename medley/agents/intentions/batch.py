"""What agents with several intentions learn from: rows that all of them share, and rows of experts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from medley.agents.api import Batch


def expert_rows(batch: int, intentions: int, share: float) -> int:
    """Rows of every intention in a batch of so many, of which experts have this share."""
    return int(share * batch / intentions)


@dataclass
class ExpertBatch:
    """[intentions, rows, ...]; without `action` the policies have to say what they would do there.

    `size` [intentions, 1] says how many rows there are to draw from, relative to the mean.
    """

    obs: Tensor
    next_obs: Tensor
    action: Tensor | None
    size: Tensor | None = None


@dataclass
class IntentionBatch(Batch):
    """Rows [1, b, ...] that every intention learns from, with rewards [intentions, b], beside rows of experts.

    With n steps, `far_obs` is where the slot was n steps later, or at the end of its episode or of what was wanted, and
    `far_discount` what is left of a value there, seen from `next_obs`.
    """

    expert: ExpertBatch | None = None
    far_obs: Tensor | None = None
    far_discount: Tensor | None = None
