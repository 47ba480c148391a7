"""The one loop: collect a chunk, learn from it; for one run, or for several seeds in step with one another.

With overlap, chunk k is collected while chunk k-1 is learnt, by the policy from before that learning. Whoever is
quicker waits: what is learnt does not depend on timing. Between two chunks nothing is under way, so that is where
runs are saved; updates still owed for the newest chunk are part of what is saved. A stop that is asked for within many
updates does not wait for all of them: the rest is owed, and done first when the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from medley.robots.arm import ArmFault
from medley.robots.loop import RealTimeLoop, is_timed
from medley.training.experiment import Experiment
from medley.training.learner import learn_together

_MANY = 100  # updates that are owed: then it takes a while, and steps stand still
_AT_ONCE = 16  # updates between two looks at whether to stop; as many as a captured graph holds


def train_together(experiments: Sequence[Experiment], should_stop: Callable[[], bool] = lambda: False) -> str:
    """From wherever the run folders stand to the end, or until asked to stop. Returns "finished" or "stopped"."""
    begun: list[Experiment] = []
    try:
        step = _common_step(experiments) if len(experiments) > 1 else None
        for x in experiments:
            x.begin(step)
            begun.append(x)
            x.evaluations.patience /= len(experiments)  # a stop waits for them one after another
        if experiments[0].config.experiment.update_when != "at_step" or is_timed(experiments[0].parts.env):
            status = RealTimeLoop(experiments[0]).run(should_stop)
        else:
            with ThreadPoolExecutor(1) as thread:
                status = _run(experiments, should_stop, thread)
        for x in experiments:
            x.note_end(status)
        return status
    except BaseException as error:
        for x in begun:
            if isinstance(error, ArmFault):  # what an arm did cannot be done again
                x.rescue()
            x.note_failure(error)
        raise
    finally:
        for x in experiments:
            x.close()


def _run(experiments: Sequence[Experiment], should_stop: Callable[[], bool], thread: ThreadPoolExecutor) -> str:
    first = experiments[0]
    if first.owed and not first.parts.overlap:  # it was stopped within its updates
        _learn(experiments, should_stop)
        _report(experiments)
    while True:
        done = first.is_done()
        if done and first.owed:
            _learn(experiments)  # what is owed for the last chunk
            if not first.parts.overlap:
                _report(experiments)
        statuses = [x.between_chunks(done, should_stop) for x in experiments]
        if "stopped" in statuses:
            for x, status in zip(experiments, statuses, strict=True):
                if status is None:  # it was asked before the stop came; all stop at this step
                    x.between_chunks(done, should_stop)
            return "stopped"
        if statuses[0] is not None:
            return statuses[0]
        _chunk(experiments, thread, should_stop)
        _report(experiments)


def _report(experiments: Sequence[Experiment]) -> None:
    """Once the chunk's updates are done; with overlap, those of the chunk before."""
    if not experiments[0].owed or experiments[0].parts.overlap:
        for x in experiments:
            x.report()


def _chunk(experiments: Sequence[Experiment], thread: ThreadPoolExecutor, should_stop: Callable[[], bool]) -> None:
    parts = experiments[0].parts
    for x in experiments:
        x.parts.acting.refresh()
    learning: Future[None] | None = None
    if parts.overlap and parts.device.type == "cpu":
        learning = thread.submit(_learn, experiments)
    elif parts.overlap:
        _learn(experiments)  # a GPU is only told what to do, and goes on with it meanwhile
    try:
        for x in experiments:
            x.collect()
    finally:
        if learning is not None:
            learning.result()
    for x in experiments:
        x.absorb()
    if not parts.overlap:
        _learn(experiments, should_stop)


def _learn(experiments: Sequence[Experiment], should_stop: Callable[[], bool] = lambda: False) -> None:
    """The updates that are owed, or as many of them as there is time for until a stop."""
    while (owed := experiments[0].owed) and not should_stop():
        now = min(owed, _AT_ONCE)
        learn_together([x.parts.learner for x in experiments], now)
        for x in experiments:
            x.owed = owed - now
            if owed > _MANY and not x.parts.overlap:
                x.show_owed()


def _common_step(experiments: Sequence[Experiment]) -> int | None:
    """The newest undamaged checkpoint that all runs have; they are saved one after another, so one may be ahead."""
    step: int | None = None
    while True:
        paths = [x.checkpoints.latest(lambda damage: None, step) for x in experiments]
        steps = {int(path.name) if path is not None else 0 for path in paths}  # without any, a run begins at 0
        if len(steps) == 1:
            return step
        step = min(steps)
