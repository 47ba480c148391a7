"""The loop of a learner that does not keep an arm waiting. In every slot:

(1) act, (2) limit, (3) send, (4) keep the step before, (5) learn for the time that is left, (6) sleep, (7) look.

Only (1) and (2) lie between an observation and the action that answers it, unless updates are wanted at steps: then (4)
and all of (5) come first. Logs, checkpoints and evaluations wait for the end of the episode, when the arm stands still;
so do updates that there was no time for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from medley.envs.api import Array, MultiTaskEnv

if TYPE_CHECKING:
    from medley.training.collector import EnvStep
    from medley.training.experiment import Experiment

SAFETY, RESERVE = 1.2, 0.005  # an update is begun if this factor of its usual time and these seconds are left
DEBT = 10  # updates that may be put off, in steps' worth of them
WINDOW = 200  # updates whose time is remembered


class Halves(Protocol):
    """A step in two halves, with time in between."""

    def send(self, actions: Array) -> Any: ...

    def receive(self) -> EnvStep: ...


class _Untimed:
    """An env that waits for whoever acts: there is always time to learn."""

    def __init__(self, env: MultiTaskEnv) -> None:
        self._env = env
        self._actions: Array = np.empty(0)

    def send(self, actions: Array) -> None:
        self._actions = actions

    def receive(self) -> EnvStep:
        return self._env.step(self._actions)


def is_timed(env: MultiTaskEnv) -> bool:
    """Whether it goes on while nobody acts."""
    return hasattr(env, "receive")


class RealTimeLoop:
    def __init__(self, experiment: Experiment) -> None:
        self.x = experiment
        env: Any = experiment.parts.env
        self.timed = is_timed(env)
        self.world: Halves = env if self.timed else _Untimed(env)
        self.when = experiment.config.experiment.update_when
        self._seconds: deque[float] = deque(maxlen=WINDOW)  # that updates took, but for the first, which may compile
        self._warm = False

    def run(self, should_stop: Callable[[], bool]) -> str:
        """From wherever the run stands to its end, or until asked to stop: "finished" or "stopped"."""
        x = self.x
        x.parts.acting.refresh()
        if not x.parts.env.at_start and not x.is_done():  # it was stopped within an episode: that one goes on
            self._episode(should_stop)
        while True:
            if not should_stop():
                self._settle(should_stop)
            status = x.between_chunks(x.is_done(), should_stop)
            if status is not None:
                return status
            self._episode(should_stop)

    def _episode(self, should_stop: Callable[[], bool]) -> None:
        """Up to its end, that of the run, or a wish to stop."""
        from medley.training.collector import Collector

        x, collector = self.x, self.x.parts.collector
        assert isinstance(collector, Collector)  # what acts in real time acts here
        e = x.config.experiment
        before = None  # the step that is not kept yet
        while True:
            if before is not None and self.when == "at_step":
                x.take(*before)
                before = None
                self._catch_up(should_stop)
            step = x.step + (before is not None)
            explore = "random" if step < e.init_steps else "policy"
            choice = collector.choose(x.parts.acting, explore, step)
            self.world.send(choice.rows)
            if before is not None:
                x.take(*before)
            if self.when == "during_step":
                self._learn_meanwhile()
            before = collector.outcome(choice, self.world.receive())
            if before[1] or should_stop() or x.is_done() or step + 1 >= e.num_train_steps:
                x.take(*before)
                return

    def _learn_meanwhile(self) -> None:
        x = self.x
        learnt = False
        while x.owed and self._fits():
            self._update()
            learnt = True
        if learnt:
            x.parts.acting.refresh()  # now, not when the next observation waits for an answer
        assert x.config.experiment.updates is not None
        too_many = x.owed - DEBT * x.config.experiment.updates
        if too_many > 0 and self._seconds:
            x.missed += too_many
            x.owed -= too_many

    def _fits(self) -> bool:
        """The first update of a run may take long: it is not for an arm to wait for."""
        if not self.timed:
            return True
        env: Any = self.x.parts.env
        return bool(self._seconds) and env.clock.left() > SAFETY * float(np.percentile(self._seconds, 95)) + RESERVE

    def _settle(self, should_stop: Callable[[], bool]) -> None:
        """Between episodes: the updates that are owed, and what there is to say."""
        self._catch_up(should_stop)
        if not self.x.owed:
            self.x.report()

    def _catch_up(self, should_stop: Callable[[], bool]) -> None:
        while self.x.owed and not should_stop():
            self._update()
        self.x.parts.acting.refresh()

    def _update(self) -> None:
        x = self.x
        began = time.perf_counter()
        x.parts.learner.learn(1)
        if x.parts.device.type == "cuda":
            torch.cuda.synchronize()
        if self._warm:
            self._seconds.append(time.perf_counter() - began)
        self._warm = True
        x.owed -= 1
