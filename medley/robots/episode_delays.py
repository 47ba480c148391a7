"""Delays of single episodes, beside an env that gathers those of all episodes until the next training line."""

from __future__ import annotations

from medley.envs.api import MultiTaskEnv
from medley.robots.delays import Delays


class EpisodeDelays:
    """Looks at an env's `delays` after every step, so that it does not matter when others take them away."""

    def __init__(self, env: MultiTaskEnv) -> None:
        self._delays: Delays | None = getattr(env, "delays", None)
        self._episode = Delays()
        self._seen: list[list[float]] = [[], [], [], []]  # the lists as they were, and how much of them is known
        self._known = [0, 0, 0, 0]
        self._overruns = 0

    def look(self) -> None:
        """A step is over."""
        if self._delays is None:
            return
        own = self._episode
        targets = [own.host, own.age, own.slept, own.late]
        if self._lists()[0] is not self._seen[0]:  # taken since: these are new ones, and so is the count
            self._known, self._overruns = [0, 0, 0, 0], 0
        self._seen = self._lists()
        for i, (values, target) in enumerate(zip(self._seen, targets, strict=True)):
            target += values[self._known[i] :]
            self._known[i] = len(values)
        own.overruns += self._delays.overruns - self._overruns
        self._overruns = self._delays.overruns

    def end(self) -> dict[str, float] | None:
        """What to say of the episode that is over; None where nothing is measured."""
        return None if self._delays is None else self._episode.take().summary()

    def _lists(self) -> list[list[float]]:
        assert self._delays is not None
        return [self._delays.host, self._delays.age, self._delays.slept, self._delays.late]
