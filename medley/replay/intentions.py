"""Replay of one world with several intentions: a single ring whose rows have a reward for each of them.

Beside it there may be a ring of demonstrations that never changes, and from which a fixed share of every batch comes:
half, as in RLPD (Ball et al. 2023).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from medley.agents.intentions.batch import IntentionBatch, expert_rows
from medley.replay.experts import Experts
from medley.replay.ring import FIELDS, Replay


class IntentionReplay(Replay):
    fields = (*FIELDS, "intention", "switched")

    def __init__(self, intentions: int, experts: Experts | None, share: float, n_step: int, **rest: Any) -> None:
        self.intentions, self.experts, self.expert_share, self.far = intentions, experts, share, n_step
        self.prior: IntentionReplay | None = None
        self.prior_share = 0.0
        super().__init__(tasks=1, n_step=1, **rest)  # rewards are not summed: they are made up when a batch is there

    def _more_rows(self, ring: Callable[..., Tensor]) -> dict[str, Tensor]:
        return {
            "reward": ring(self.intentions),
            "intention": ring(dtype=torch.int16),
            "switched": ring(dtype=torch.bool),
        }

    @property
    def draws(self) -> int:
        experts = 0 if self.experts is None else (2 if self.experts.noise else 1)
        return 1 + (self.prior is not None) + experts

    def draw(self, per_task: int) -> list[Tensor]:
        experts = expert_rows(per_task, self.intentions, self.expert_share) if self.experts is not None else 0
        rows = per_task - self.intentions * experts
        recorded = int(self.prior_share * rows)
        drawn = super().draw(rows - recorded)
        if self.prior is not None:
            drawn += super().draw(recorded)
        return drawn if self.experts is None else [*drawn, *self.experts.draw(experts, self.generator)]

    def take(self, drawn: Sequence[Tensor]) -> IntentionBatch:
        places, *rest = drawn
        batch = self._rows(places)
        if self.prior is not None:
            batch = _joined(batch, self.prior._rows(rest.pop(0)))
        if self.experts is not None:
            batch.expert = self.experts.take(rest)
        return batch

    def _rows(self, places: Tensor) -> IntentionBatch:
        plain = super().take([places])
        batch = IntentionBatch(**vars(plain))
        batch.reward = plain.reward[0].T
        if self.far > 1:
            batch.far_obs, batch.far_discount = self._later((places * self.sizes).long())
        return batch

    def _later(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Follow each row's slot for n steps, until its episode or its intention ends or the newest row is reached."""
        task, last = self._task_index, index
        newest = (self.written_rows - 1 - index) % self.capacity  # rows written after this one
        going = torch.ones_like(index, dtype=torch.bool)
        discount = torch.ones_like(index, dtype=torch.float32)
        for k in range(1, self.far):
            going = going & ~self.rows["switched"][task, last] & (newest >= k * self.slots)
            last = torch.where(going, (index + k * self.slots) % self.capacity, last)
            discount = torch.where(going, discount * self.discount, discount)
        alive = ~self.rows["terminated"][task, last]
        return self.rows["next_obs"][task, last], discount * alive

    def layout(self) -> dict[str, Any]:
        return {**super().layout(), "intentions": self.intentions}


def _joined(first: IntentionBatch, second: IntentionBatch) -> IntentionBatch:
    """The rows of both, without experts'."""
    values = {
        f.name: None if (own := getattr(first, f.name)) is None else torch.cat([own, getattr(second, f.name)], 1)
        for f in dataclasses.fields(IntentionBatch)
    }
    return IntentionBatch(**values)  # type: ignore[arg-type]
