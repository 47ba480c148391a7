"""Replay of one world with several intentions: a single ring whose rows have a reward for each of them."""

from __future__ import annotations

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
        super().__init__(tasks=1, n_step=1, **rest)  # rewards are not summed: they are made up when a batch is there

    def _more_rows(self, ring: Callable[..., Tensor]) -> dict[str, Tensor]:
        return {
            "reward": ring(self.intentions),
            "intention": ring(dtype=torch.int16),
            "switched": ring(dtype=torch.bool),
        }

    @property
    def draws(self) -> int:
        return 1 if self.experts is None else (3 if self.experts.noise else 2)

    def draw(self, per_task: int) -> list[Tensor]:
        if self.experts is None:
            return super().draw(per_task)
        rows = expert_rows(per_task, self.intentions, self.expert_share)
        return [*super().draw(per_task - self.intentions * rows), *self.experts.draw(rows, self.generator)]

    def take(self, drawn: Sequence[Tensor]) -> IntentionBatch:
        plain = super().take(drawn[:1])
        batch = IntentionBatch(**vars(plain))
        batch.reward = plain.reward[0].T
        if self.experts is not None:
            batch.expert = self.experts.take(drawn[1:])
        if self.far > 1:
            batch.far_obs, batch.far_discount = self._later((drawn[0] * self.sizes).long())
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
