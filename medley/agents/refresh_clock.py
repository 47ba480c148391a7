"""When MUST's masks are refreshed, counted in episodes; known on the host, and the same for all seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from medley.agents.must_options import MustConfig


class RefreshClock:
    """An iteration is a whole episode's steps in every task, counted from the first update on: before it, actions are
    random. Iteration 0 begins with a refresh, as does every `update_interval`-th up to `update_end`."""

    def __init__(self, horizon: int, tasks: int, options: MustConfig) -> None:
        self.frames, self.options = horizon * tasks, options  # of an iteration, over all tasks
        # Frames so far; the first update of the last refresh; for how many updates after it critics settle.
        self.numbers = torch.zeros(3, dtype=torch.int64)

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
        if is_new and not self.is_unsettled(updates):  # one at a time
            # There may be far fewer updates between two refreshes than are usual for settling.
            self.numbers[2] = min(o.settle_updates, (updates - int(self.numbers[1])) // 4)
            self.numbers[1] = updates

    def place(self, update: int) -> int | None:
        """Which update of a refresh this is, counted from 0; None: not of any."""
        place = self._since(update)
        return place if place is not None and place < self.options.refresh_updates else None

    def is_unsettled(self, update: int) -> bool:
        """From the first update of a refresh to the one after which targets take over the new masks."""
        since = self._since(update)
        return since is not None and since <= self._last

    def settles(self, update: int) -> bool:
        return self._since(update) == self._last

    def _since(self, update: int) -> int | None:
        """Updates since the last refresh began; None: masks are never refreshed, or it is still to come."""
        since = update - int(self.numbers[1])
        return since if since >= 0 and self.options.pruning_ratio and self.options.update_end else None

    @property
    def _last(self) -> int:
        """The first masks replace none that anything was learnt with: nothing settles."""
        return self.options.refresh_updates - 1 + int(self.numbers[2])
