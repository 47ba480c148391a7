"""Distributed collection: workers on a Ray cluster own the slots, the learner owns replay.

Every chunk is collected by all workers with the same policy, `collect.lag` chunks behind the newest. Nobody is asked
for more than that many chunks ahead, so workers wait for a learner that is slower, and memory stays as it is. A result
brings the worker's state after it. A worker that is lost is replaced by one that begins from the last state that came
and is asked again, with the same policy, for what was on its way: what is learnt does not depend on timing or losses.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from medley.config.load import to_dict
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError, MedleyError
from medley.replay.base import Step
from medley.scale.ray_cluster import with_room
from medley.scale.ray_worker import Worker, to_bytes
from medley.scale.wire import Packed, size, unpack
from medley.training.acting import Act, CopyOnCPU
from medley.training.collector import Episode

_LOOK, _PATIENCE = 30, 600  # seconds after which it is said that a worker is silent, and given up
_TRIES = 3  # workers that may be lost at the same place before it is taken for more than bad luck


class Broadcast:
    """The policy for workers to act with: put into the cluster's memory once, whenever it was refreshed."""

    def __init__(self, copy: CopyOnCPU, updates: Callable[[], int]) -> None:
        self._copy, self._updates = copy, updates
        self._put: Any = None
        self.stamp = updates()

    def refresh(self) -> None:
        self._copy.refresh()
        self._put, self.stamp = None, self._updates()

    def put(self, ray: Any) -> Any:
        if self._put is None:
            self._put = ray.put(to_bytes(self._copy.weights()))
        return self._put

    def __call__(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        return self._copy(obs, noise)


@dataclass
class _Asked:
    """A chunk that was asked for: what every worker was told, and what came back so far."""

    step: int
    tasks: npt.NDArray[np.bool_] | None
    words: tuple[Any, ...]  # of `Worker.collect`
    stamp: int  # updates that the policy had seen
    answers: list[Any]
    results: list[Packed | None] = field(default_factory=list)


class RayCollector:
    def __init__(self, config: Config, env: MultiTaskEnv) -> None:
        c = config.collect
        assert config.experiment.collect_steps is not None
        self.ray = with_room(c.workers, c.cpus)
        self._config, self._env = _for_workers(config), env
        self._count, self._ahead = c.workers, max(0, c.lag - 1)  # the loop's overlap is the first of the lag
        self._init_steps, self._steps = config.experiment.init_steps, config.experiment.collect_steps
        self._actor: Any = self.ray.remote(num_cpus=c.cpus)(Worker)
        self._workers = [self._start(part) for part in range(c.workers)]
        self._states: list[dict[str, Any] | None] = [None] * c.workers
        self._asked: deque[_Asked] = deque()
        self._lost = [0] * c.workers  # since a worker last answered
        self._faults: list[dict[str, Any]] = [{} for _ in range(c.workers)]
        self._before: list[dict[str, Any]] = []  # the same of workers that are no more
        self.broken_off: Step | None = None  # simulators can be put back
        self._restarts = 0
        self._say: Callable[[str], None] = print
        self._taken: list[int] = []  # stamps of chunks since the last training line
        self._ages: list[int] = []
        self._seconds = self._waited = 0.0
        self._frames = self._bytes = self._chunks = 0

    def collect(
        self, act: Act, steps: int, explore: str, step: int, tasks: npt.NDArray[np.bool_] | None = None
    ) -> tuple[list[Step], list[Episode]]:
        """As a local collector does; then every worker is at the chunks after this one."""
        assert isinstance(act, Broadcast)
        assert steps == self._steps
        self._ages += [act.stamp - stamp for stamp in self._taken]  # they have been learnt from by now, or are about to
        self._taken = []
        chunk = steps * self._env.slots_per_task
        following = step if not self._asked else self._asked[-1].step + chunk
        while following <= step + self._ahead * chunk:
            self._ask(act, following, tasks)
            following += chunk
        began = time.monotonic()
        self._finish(self._asked[0])
        self._waited += time.monotonic() - began
        one = self._asked.popleft()
        self._taken.append(one.stamp)
        self._chunks += 1
        self._frames += steps * self._env.num_envs
        parts = [result for result in one.results if result is not None]
        self._bytes += sum(size(part) for part in parts)
        return unpack(parts, self._env.frame_channels, tasks)

    def drain(self) -> dict[str, float]:
        """`policy_age`: updates that the acting policy had not seen, when learning from its chunk begins."""
        if not self._chunks:
            return {}
        row = {
            "collector_fps": self._frames / max(self._seconds, 1e-9),
            "collect_wait_ms": 1e3 * self._waited / self._chunks,
            "collect_kb": self._bytes / self._chunks / 1e3,
            "policy_age": float(np.mean(self._ages)) if self._ages else 0.0,
        }
        if self._restarts:
            row["worker_restarts"] = self._restarts
        self._ages, self._seconds, self._waited = [], 0.0, 0.0
        self._frames = self._bytes = self._chunks = 0
        return row

    def tell(self, say: Callable[[str], None]) -> None:
        self._say = say

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Chunks that are on their way are waited for and part of it."""
        state: dict[str, Any] = {
            "sums": np.array([self._frames, self._bytes, self._chunks]),
            "stamps": np.array(self._taken, dtype=np.int64),
            "ages": np.array(self._ages, dtype=np.int64),
        }
        for i, one in enumerate(self._asked):
            self._finish(one)
            state[f"asked{i}.about"] = np.array([one.step, one.stamp])
            for part, result in enumerate(one.results):
                assert result is not None
                state |= {f"asked{i}.{part}.{key}": value for key, value in result.items()}
        for part in range(self._count):
            state |= {f"worker{part}.{key}": value for key, value in self._state_of(part).items()}
        return state

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        def below(prefix: str) -> dict[str, Any]:
            return {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}

        if not below(f"worker{self._count - 1}.") or below(f"worker{self._count}."):
            raise ConfigError("this checkpoint is of another number of workers: go on with collect as it was.")
        self._frames, self._bytes, self._chunks = (int(n) for n in state["sums"])
        self._taken, self._ages = state["stamps"].tolist(), state["ages"].tolist()
        for part in range(self._count):
            self._states[part] = below(f"worker{part}.")
            self._patient(part, lambda part=part: self._workers[part].set_state.remote(self._states[part]))  # type: ignore[misc]
        self._asked.clear()
        while found := below(f"asked{len(self._asked)}."):
            step, stamp = (int(n) for n in found["about"])
            results: list[Packed | None] = [
                {key.partition(".")[2]: value for key, value in found.items() if key.startswith(f"{part}.")}
                for part in range(self._count)
            ]
            self._asked.append(_Asked(step, None, (), stamp, [None] * self._count, results))

    def close(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(Exception):  # the cluster itself may be gone
                self.ray.kill(worker)
        self._env.close()

    # ---- workers

    def _start(self, part: int) -> Any:
        return self._actor.remote(self._config, part, self._count)

    def _ask(self, act: Broadcast, step: int, tasks: npt.NDArray[np.bool_] | None) -> None:
        explore = "random" if step < self._init_steps else "policy"
        words = (act.put(self.ray), self._steps, explore, step, tasks)
        answers = [worker.collect.remote(*words) for worker in self._workers]
        self._asked.append(_Asked(step, tasks, words, act.stamp, answers, [None] * self._count))

    def _finish(self, one: _Asked) -> None:
        """Wait until all workers have answered, and replace those that never will."""
        seconds = 0.0
        for part in range(self._count):
            if one.results[part] is not None:
                continue
            one.results[part], state, counts = self._patient(part, lambda part=part: one.answers[part])  # type: ignore[misc]
            self._states[part] = state
            seconds = max(seconds, counts.pop("seconds"))
            self._counted(part, counts)
        self._seconds += seconds

    def _counted(self, part: int, counts: dict[str, Any]) -> None:
        """What went wrong in the simulators, over all of them and over workers that were lost."""
        self._faults[part] = counts
        for name in counts:
            setattr(self._env, name, np.sum([f[name] for f in (*self._faults, *self._before) if f], axis=0))

    def _state_of(self, part: int) -> dict[str, Any]:
        state = self._states[part]
        return state if state is not None else self._patient(part, lambda: self._workers[part].state.remote())

    def _patient(self, part: int, answer: Callable[[], Any]) -> Any:
        """What a worker answers, however many workers that takes; `answer` says what to wait for now."""
        errors = self.ray.exceptions
        while True:
            try:
                self._wait(part, answer())
                found = self.ray.get(answer())
                self._lost[part] = 0
                return found
            except errors.RayTaskError as error:
                cause = error.cause
                raise (cause if isinstance(cause, MedleyError) else MedleyError(f"worker {part}: {error}")) from None
            except errors.RayError as error:
                said = str(error).strip()
                if getattr(error, "actor_init_failed", False):
                    why = said.rpartition("\n")[2]
                    raise MedleyError(f"worker {part} cannot start where it was put: {why}") from None
                self._replace(part, said.partition("\n")[0])

    def _wait(self, part: int, answer: Any) -> None:
        """A worker may have to wait for room on the cluster; that is said, and not done for ever."""
        for tries in range(_PATIENCE // _LOOK):
            if self.ray.wait([answer], timeout=_LOOK)[0]:
                return
            if tries == 0:
                free = self.ray.available_resources().get("CPU", 0)
                self._say(f"Worker {part} has not answered for {_LOOK} s; {free:g} CPUs of the cluster are free.")
        raise MedleyError(f"worker {part} has not answered for {_PATIENCE // 60} minutes: it hangs, or finds no room.")

    def _replace(self, part: int, why: str) -> None:
        self._lost[part] += 1
        if self._lost[part] > _TRIES:
            raise MedleyError(
                f"worker {part} was lost {_TRIES + 1} times at the same place: {why} Is there memory enough for it? "
                "Ray's logs say more (/tmp/ray/session_latest/logs)."
            )
        self._restarts += 1
        self._say(f"Worker {part} was lost: {why} Another goes on where it was.")
        self.ray.kill(self._workers[part])  # it may only have been out of reach
        self._workers[part] = self._start(part)
        self._before.append(self._faults[part])
        self._faults[part] = {}
        state = self._states[part]
        for one in self._asked:
            if one.results[part] is None:
                one.answers[part] = self._workers[part].collect.remote(*one.words, state)
                state = None  # the others follow from the first


def _for_workers(config: Config) -> dict[str, Any]:
    """Without what only the learner's machine has; and a worker is one core."""
    words = to_dict(config)
    if "threads" in words["env"]:
        words["env"]["threads"] = 1
    if words["env"].get("workers", 0) is None:
        words["env"]["workers"] = 0
    if vectors := words["agent"].get("task_vectors"):
        words["agent"]["task_vectors"] = str(Path(vectors).resolve())
    return words
