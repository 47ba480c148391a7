"""An evaluation that goes on beside training, with slots, policy and random numbers of its own."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from medley.training.evaluator import EpisodeScore, Evaluator, Interrupted, Watcher


class BackgroundEvaluation:
    """`counters` say which state of the agent is being scored."""

    def __init__(
        self, evaluator: Evaluator, episodes: int, counters: dict[str, int], watcher: Watcher | None = None
    ) -> None:
        self.counters, self.watcher = counters, watcher
        self.seconds = 0.0  # that it took
        self.total, self._ended, self._abandoned = episodes * evaluator.tasks, 0, False
        self._result: Future[list[EpisodeScore]] = Future()
        self._thread = threading.Thread(target=self._run, args=(evaluator, episodes), daemon=True)
        self._thread.start()

    @property
    def ended(self) -> str:
        return f"{self._ended}/{self.total}"

    def done(self) -> bool:
        return self._result.done()

    def ends_within(self, seconds: float) -> bool:
        """Waits for it as long as that."""
        self._thread.join(seconds)
        return self.done()

    def result(self) -> list[EpisodeScore]:
        """Waits for the last episode."""
        return self._result.result()

    def abandon(self) -> None:
        """The run failed or was stopped at once: nobody will ask for the result."""
        self._abandoned = True
        self._thread.join()

    def _run(self, evaluator: Evaluator, episodes: int) -> None:
        began = time.monotonic()
        try:
            scores = evaluator.run(
                episodes, on_episode=self._count, should_stop=lambda: self._abandoned, watcher=self.watcher
            )
            self.seconds = time.monotonic() - began
            self._result.set_result(scores)
        except (Exception, Interrupted) as e:
            self._result.set_exception(e)

    def _count(self, score: EpisodeScore) -> None:
        self._ended += 1
