"""How actions come about in an evaluation, beside the policy itself: noise, and a forced order of intentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medley.agents.api import agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.envs.registry import env_kind
from medley.errors import ConfigError, closest

if TYPE_CHECKING:
    from medley.training.evaluator import Evaluator

EXPLORE = ("deterministic", "stochastic")
_NOISE = 0x401  # keeps these streams apart from those of the env's own episodes


@dataclass(frozen=True)
class ForcedSchedule:
    """Intentions by number, each for `period` steps, the last to the end of the episode."""

    numbers: tuple[int, ...]
    period: int

    def at(self, taken: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What is wanted in slots whose episodes have had so many steps."""
        return np.asarray(self.numbers)[np.minimum(taken // self.period, len(self.numbers) - 1)]

    def chosen(self, length: int) -> list[int]:
        """What was wanted in an episode of so many steps, period by period."""
        return [int(k) for k in self.at(np.arange(0, length, self.period))]


class EpisodeNoise:
    """Standard normal numbers from a stream of every episode's own, so that it does not matter which episodes were run
    before, or beside."""

    def __init__(self, env: MultiTaskEnv) -> None:
        self._env = env
        self._streams: list[np.random.Generator | None] = [None] * env.num_envs

    def begin(self, slot: int, episode: int) -> None:
        key = (_NOISE, int(self._env.task_ids[slot]), episode)
        self._streams[slot] = np.random.default_rng(np.random.SeedSequence(self._env.seed, spawn_key=key))

    def draw(self, active: Sequence[bool] | npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        """[tasks, slots, dim]; zeros where nobody acts."""
        env = self._env
        noise = np.zeros((env.num_envs, env.single_action_space.shape[0]), dtype=np.float32)  # type: ignore[index]
        for slot in np.flatnonzero(active):
            stream = self._streams[slot]
            assert stream is not None
            noise[slot] = stream.standard_normal(noise.shape[1], dtype=np.float32)
        return noise.reshape(len(env.tasks), env.slots_per_task, -1)


def check_eval_acting(config: Config) -> None:
    """Refuses words and intentions that do not exist."""
    e = config.experiment
    if e.eval_explore not in EXPLORE:
        hint = closest(e.eval_explore, EXPLORE)
        raise ConfigError(f"experiment.eval_explore={e.eval_explore!r} does not exist.{hint}")
    if e.eval_schedule and not agent_kind(config.agent.builder).has_intentions:
        raise ConfigError(
            f"experiment.eval_schedule is for agents with intentions (sacx, vpace, lfgp, …), and {config.agent.name} "
            "has none."
        )
    known = env_kind(config.env.builder).intentions(config.env)
    for name in e.eval_schedule:
        if name not in known:
            raise ConfigError(
                f"experiment.eval_schedule: {config.env.name} has no intention {name!r}. Known: {', '.join(known)}."
            )


def set_acting(evaluator: Evaluator, config: Config) -> None:
    """Tell an evaluator to act as `experiment.eval_explore` and `experiment.eval_schedule` say."""
    check_eval_acting(config)
    e, env, options = config.experiment, evaluator.env, config.agent
    for one in (evaluator, *evaluator.sets.values()):
        one.stochastic = e.eval_explore == "stochastic"
    if e.eval_schedule:
        period = options.scheduler.period or max(1, -(-env.horizon // 2))  # type: ignore[attr-defined]
        numbers = tuple(env.intentions.index(name) for name in e.eval_schedule)
        evaluator.schedule = ForcedSchedule(numbers, period)
