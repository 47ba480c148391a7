"""Which tasks are collected, and how much each counts in a batch: all alike, or those more that succeed less (T3S)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.config.options import opt
from medley.errors import ConfigError, closest
from medley.training.collector import Episode

Array = npt.NDArray[Any]
KINDS = ("uniform", "success")


@dataclass
class SchedulerConfig:
    kind: str = opt("uniform", "uniform: all tasks alike | success: more of those that succeed less (T3S)")
    tasks: int | None = opt(
        None, "kind=success: tasks collected at a time, a divisor of their number; null: half of them"
    )
    temperature: float = opt(0.1, "kind=success: the smaller, the more weak tasks are preferred")
    rate: float = opt(0.1, "kind=success: weight of an episode in a task's running success")


class Scheduler:
    """p = softmax((1 - success) / temperature), with the running success of training episodes.

    A chunk of `uniform` has one round, of all tasks. One of `success` has T / K rounds, each of K tasks drawn by p
    without replacement: the same number of transitions in all. Batches weigh tasks by p.
    """

    def __init__(self, config: SchedulerConfig, tasks: int, seed: int) -> None:
        self.config, self.tasks, self.seed = config, tasks, seed
        self.group = config.tasks or next(k for k in range(max(1, tasks // 2), 0, -1) if tasks % k == 0)
        self.success = np.zeros(tasks)
        self.chunks = 0  # decides the random numbers of the next one

    @property
    def uniform(self) -> bool:
        return self.config.kind == "uniform"

    def probabilities(self) -> Array:
        logits = (1 - self.success) / self.config.temperature
        p = np.exp(logits - logits.max())
        shares: Array = p / p.sum()
        return shares

    def rounds(self, random_actions: bool) -> Iterator[Array | None]:
        """Masks of tasks [T] of the rounds of the next chunk; None: all tasks."""
        if self.uniform or random_actions:  # the warm-up gives every task its share
            yield None
            return
        # Of its own number, so that a restart draws the same.
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.chunks,)))
        p = self.probabilities()
        for _ in range(self.tasks // self.group):
            # The largest of log p plus Gumbel noise: a draw without replacement that copes with p of zero.
            keys = np.log(p + 1e-12) + rng.gumbel(size=self.tasks)
            mask = np.zeros(self.tasks, dtype=np.bool_)
            mask[np.argsort(-keys)[: self.group]] = True
            yield mask

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Called when a chunk is done, with the episodes that ended in it."""
        self.chunks += 1
        for e in episodes:
            self.success[e.task] += self.config.rate * (float(e.success) - self.success[e.task])

    def shares(self) -> Array:
        """How much each task counts in a batch, 1 on average."""
        return np.ones(self.tasks) if self.uniform else self.probabilities() * self.tasks

    def state(self) -> dict[str, Any]:
        return {"success": self.success.tolist(), "chunks": self.chunks}

    def set_state(self, state: dict[str, Any]) -> None:
        self.success, self.chunks = np.asarray(state["success"], dtype=np.float64), int(state["chunks"])


def check_scheduler(config: SchedulerConfig, tasks: int) -> None:
    if config.kind not in KINDS:
        raise ConfigError(f"experiment.scheduler.kind={config.kind!r} does not exist.{closest(config.kind, KINDS)}")
    if config.tasks is not None and (config.tasks < 1 or tasks % config.tasks):
        raise ConfigError(f"experiment.scheduler.tasks={config.tasks} must divide the number of tasks, {tasks}.")
    if not config.temperature > 0:
        raise ConfigError(f"experiment.scheduler.temperature={config.temperature} must be positive.")
    if not 0 < config.rate <= 1:
        raise ConfigError(f"experiment.scheduler.rate={config.rate} must lie in (0, 1].")
