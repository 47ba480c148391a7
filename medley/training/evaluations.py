"""The evaluations of one run: when they are due, the one under way, those made, and results.json."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from medley.config.schema import ExperimentConfig
from medley.files import read_json, write_json
from medley.reporting.episodes import EpisodeRows
from medley.training.background import BackgroundEvaluation
from medley.training.evaluator import EpisodeScore, Evaluator, Watcher, summarise
from medley.training.filming import Filming

PATIENCE = 15.0  # seconds that a stop waits: a cluster gives a minute, and saving takes some of it
LOOK = 0.1  # seconds between two looks at whether to stop
Log = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class GivenUp:
    """An evaluation that a stop did not wait for: of which agent, and the step of the evaluation `before` it."""

    counters: dict[str, int]
    before: int
    policies: dict[str, Tensor]


class Evaluations:
    """`last` is the step of the newest evaluation that was made or begun; -1 if there was none."""

    def __init__(
        self,
        options: ExperimentConfig,
        evaluator: Evaluator,
        path: Path,
        filming: Filming | None = None,
        rows: EpisodeRows | None = None,
    ) -> None:
        self.rows = rows
        self.options, self.evaluator, self.path, self.filming = options, evaluator, path, filming
        self.tasks = evaluator.env.tasks
        self.last = self._before = -1  # `_before`: of the one before the one under way
        self.made: list[dict[str, Any]] = []
        self._under_way: BackgroundEvaluation | None = None
        self.given_up: GivenUp | None = None
        self.patience = PATIENCE

    def due(self, step: int, done: bool) -> bool:
        if done:
            return self.last < step
        if step == 0:
            return self.options.eval_at_start and self.last < 0
        every = self.options.eval_freq
        return bool(every) and step // every > max(self.last, 0) // every  # type: ignore[operator]

    def make(
        self,
        counters: dict[str, int],
        last: bool,
        log: Log,
        show: Callable[[str], None],
        should_stop: Callable[[], bool],
    ) -> None:
        """Here and now, of the agent as it is. Raises Interrupted if it is asked to stop."""
        episodes, ended = self._episodes(last), 0
        total = episodes * self.evaluator.tasks

        def count(score: EpisodeScore) -> None:
            nonlocal ended
            ended += 1
            show(f"evaluating {ended}/{total}")

        show(f"evaluating 0/{total}")
        self.evaluator.refresh()
        began = time.monotonic()
        film = self._film(counters["step"])
        scores = self.evaluator.run(episodes, on_episode=count, should_stop=should_stop, watcher=film)
        self.last = counters["step"]
        self._record(counters, scores, time.monotonic() - began, log)
        self._note(counters, scores, hold=False)

    def begin(self, counters: dict[str, int]) -> None:
        """Of the agent as it is now, beside the training that goes on."""
        self.evaluator.refresh()
        self._begin(counters)
        self._before, self.last = self.last, counters["step"]

    def go_on(self, in_background: bool) -> None:
        """Begin again what was given up, of the agent as it was then."""
        if self.given_up is not None and in_background and self.evaluator.put(self.given_up.policies):
            self._begin(self.given_up.counters)
        elif self.given_up is not None:  # nothing is evaluated beside training any more: it is due again
            self.last = self._before
        self.given_up = None

    def settle(self, log: Log, should_stop: Callable[[], bool]) -> None:
        """Record the one under way. If a stop is asked for and it does not end soon, it is given up, so that the run
        can be saved in time, and begun again when the run goes on."""
        left = self.patience
        while self._under_way is not None and not self._under_way.ends_within(LOOK):
            left -= LOOK * should_stop()
            if left <= 0:
                self._under_way.abandon()
                self.given_up = GivenUp(self._under_way.counters, self._before, self.evaluator.policies())
                self._under_way = None
        self.finish(log)

    def finish(self, log: Log, wait: bool = True) -> None:
        """Record the one under way, if there is one; without `wait` only if it has ended."""
        if self._under_way is not None and (wait or self._under_way.done()):
            evaluation, self._under_way = self._under_way, None
            scores = evaluation.result()
            self._record(evaluation.counters, scores, evaluation.seconds, log)
            self._note(evaluation.counters, scores, hold=True)

    def abandon(self) -> None:
        if self._under_way is not None:
            self._under_way.abandon()

    @property
    def progress(self) -> str | None:
        """How far the one under way is."""
        return None if self._under_way is None else self._under_way.ended

    def restore(self, last: int, given_up: GivenUp | None) -> None:
        """What results.json holds up to step `last`; one that was given up is not made yet, whoever has since."""
        self.last, self.given_up = last, given_up
        self._before = -1 if given_up is None else given_up.before
        before = read_json(self.path)["evaluations"] if self.path.is_file() else []
        newest = last if given_up is None else given_up.before
        self.made = [result for result in before if result["step"] <= newest]
        self._write()

    def _begin(self, counters: dict[str, int]) -> None:
        film = self._film(counters["step"])
        self._under_way = BackgroundEvaluation(self.evaluator, self._episodes(False), counters, film)

    def _episodes(self, last: bool) -> int:
        episodes = self.options.num_final_eval_episodes if last else self.options.num_eval_episodes
        assert episodes is not None
        return episodes

    def _film(self, step: int) -> Watcher | None:
        return None if self.filming is None else self.filming.start(self.evaluator.env, step)

    def _record(self, counters: dict[str, int], scores: list[EpisodeScore], seconds: float, log: Log) -> None:
        result = {**counters, **summarise(scores, self.tasks)}
        self.made.append(result)
        row = {**counters, "episode_reward": result["return"], "success": result["success"], "duration": seconds}
        if len(self.tasks) == 1:
            returns = [score.reward for score in scores]
            row |= {"episode_reward_std": float(np.std(returns)), "episode_rewards": returns}
        for i, task in enumerate(self.tasks):
            row[f"episode_reward_env_index_{i}"] = result["per_task"][task]["return"]
            row[f"success_env_index_{i}"] = result["per_task"][task]["success"]
        if self.evaluator.sets:
            result["sets"] = {"base": result["per_task"]}
            for name, other in self.evaluator.sets.items():
                result["sets"][name] = summarise(scores, other.env.tasks)["per_task"]
            for name, per_task in result["sets"].items():
                returns = [score["return"] for score in per_task.values()]
                row[f"eval_{name}"] = float(np.mean(returns))
                row |= {f"eval_{name}_env_index_{i}": value for i, value in enumerate(returns)}
        log({**row, "protocol": self.options.protocol})
        self._write()

    def _note(self, counters: dict[str, int], scores: list[EpisodeScore], hold: bool) -> None:
        """A row for every episode; `hold`: training went on meanwhile."""
        if self.rows is not None:
            self.rows.evaluated(scores, counters["step"], self.evaluator.chosen, hold)

    def _write(self) -> None:
        header = {"format": 1, "protocol": self.options.protocol, "tasks": list(self.tasks)}
        write_json(self.path, {**header, "evaluations": self.made})
