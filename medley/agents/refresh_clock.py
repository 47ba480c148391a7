"""When MUST's masks are refreshed, counted in episodes; known on the host, and the same for all seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from medley.agents.must_options import MustConfig


class RefreshClock:
    """An iteration is a whole episode's steps in every task, counted from the first update on: before it, actions are
    random. Iteration 0 begins with a refresh, as does every `update_interval`-th up to `update_end`."""

    def __init__(self, frames: int, options: MustConfig) -> None:
        self.frames, self.options = frames, options  # of an iteration, over all tasks
        self.numbers = torch.zeros(2, dtype=torch.int64)  # frames so far; the first update of the last refresh

    @property
    def iteration(self) -> int:
        return int(self.numbers[0]) // self.frames

    def advance(self, frames: int, updates: int) -> None:
        """So many more steps, over all tasks and slots; `updates` were done before them."""
        if not updates:
            return
        o, before = self.options, self.iteration
        self.numbers[0] += frames
        due = self.iteration // o.update_interval
        is_new = due > before // o.update_interval and due * o.update_interval < o.update_end
        if is_new and self.place(updates) is None:  # one at a time
            self.numbers[1] = updates

    def place(self, update: int) -> int | None:
        """Which update of a refresh this is, counted from 0; None: not of any."""
        place = update - int(self.numbers[1])
        within = 0 <= place < self.options.refresh_updates
        return place if within and self.options.pruning_ratio and self.options.update_end else None
