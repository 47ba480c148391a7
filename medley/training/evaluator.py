"""Scores a policy by a protocol, episode by episode, so that it can be stopped and go on later."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.envs.api import MultiTaskEnv
from medley.errors import NonFiniteError
from medley.training.acting import Act, Acting, Copy
from medley.training.collector import plain
from medley.training.eval_acting import EpisodeNoise, ForcedSchedule
from medley.training.protocols import Protocol


@dataclass(frozen=True, order=True)
class EpisodeScore:
    task: str
    episode: int
    success: bool
    reward: float
    length: int
    returns: tuple[float, ...] = ()  # as every intention sees the episode, where there are several
    successes: tuple[bool, ...] = ()  # at any step, whatever the protocol counts
    ever: bool = dataclasses.field(default=False, compare=False)  # success at any step, for episodes.jsonl


class Watcher(typing.Protocol):
    """Looks on while an evaluation runs, and changes nothing about it."""

    def begin(self) -> None:
        """Every slot is at the start of its first episode."""

    def after(self, ended: npt.NDArray[np.bool_], success: npt.NDArray[np.bool_]) -> None:
        """All slots that were active have taken a step."""

    def end(self) -> None:
        """The last episode is over."""


class Interrupted(Exception):
    """The evaluation was asked to stop before its last episode."""


class Evaluator:
    """Episode e of a task always runs in the same slot of the same batch shape, as that slot's e // slots-th.

    Results therefore do not depend on where an evaluation was stopped: a matrix product of another shape, or a row in
    another place, may round differently.
    """

    def __init__(self, env: MultiTaskEnv, protocol: Protocol, acting: Acting | None = None) -> None:
        self.env, self.protocol, self.acting = env, protocol, acting
        self.stochastic = False  # whether actions are drawn from the policy
        self.schedule: ForcedSchedule | None = None  # what is carried out, instead of every task by itself
        self.sets: dict[str, Evaluator] = {}  # other tasks to score the agent on, by name
        env.terminate_on_success = protocol.stop_at_success

    @property
    def scores_intentions(self) -> bool:
        """Whether there is a task per intention: then every episode is scored as all of them see it."""
        return self.env.intentions == self.env.tasks

    @property
    def tasks(self) -> int:
        """How many there are, with those of all sets."""
        return len(self.env.tasks) + sum(other.tasks for other in self.sets.values())

    def chosen(self, length: int) -> list[int] | None:
        """The intentions that are carried out in an episode of so many steps, where their order is forced."""
        return None if self.schedule is None else self.schedule.chosen(length)

    def refresh(self) -> None:
        """Score the agent as it is now."""
        for one in (self, *self.sets.values()):
            if one.acting is not None:
                one.acting.refresh()

    def policies(self) -> dict[str, Tensor]:
        """What is being scored, where that is a copy of the agent."""
        copies = [(i, weights) for i, copy in enumerate(self._copies()) for weights in enumerate(copy.weights())]
        return {f"{i}.{j}": tensor.to("cpu", copy=True) for i, (j, tensor) in copies}

    def put(self, policies: dict[str, Tensor]) -> bool:
        """Score these from now on. False: there are no such copies here."""
        mine = self.policies()
        if not mine or {k: v.shape for k, v in mine.items()} != {k: v.shape for k, v in policies.items()}:
            return False
        for i, copy in enumerate(self._copies()):
            copy.put([policies[f"{i}.{j}"] for j in range(len(copy.weights()))])
        return True

    def _copies(self) -> list[Copy]:
        acting: list[object] = [one.acting for one in (self, *self.sets.values())]
        return [one for one in acting if isinstance(one, Copy)]

    def close(self) -> None:
        for one in (self, *self.sets.values()):
            one.env.close()

    def run(
        self,
        episodes: int,
        act: Act | None = None,
        done: Sequence[EpisodeScore] = (),
        on_episode: Callable[[EpisodeScore], None] = lambda score: None,
        should_stop: Callable[[], bool] = lambda: False,
        watcher: Watcher | None = None,
    ) -> list[EpisodeScore]:
        """The scores of all tasks, then of the sets' tasks, unless somebody else is to `act`."""
        sets = [] if act is not None else list(self.sets.values())
        act = act or self.acting
        assert act is not None
        env, slots = self.env, self.env.slots_per_task
        finished = {(score.task, score.episode) for score in done}
        pending: list[list[int]] = [[] for _ in range(env.num_envs)]
        for task, name in enumerate(env.tasks):
            for e in reversed(range(episodes)):
                if (name, e) not in finished:
                    pending[task * slots + e % slots].append(e)
        scores = list(done)
        noise = EpisodeNoise(env) if self.stochastic else None
        tally = _Tally(env, self.scores_intentions)
        obs = self._reset(pending)
        if noise is not None:
            for slot, own in enumerate(pending):
                noise.begin(slot, own[-1] if own else 0)
        if watcher is not None:
            watcher.begin()
        while any(pending):
            if should_stop():
                raise Interrupted
            active = np.array([bool(p) for p in pending])
            actions = self._actions(act, obs, None if noise is None else noise.draw(active), tally.taken)
            obs, _, terminated, truncated, info = env.step(actions, active)
            tally.after(info, active)
            if watcher is not None:
                watcher.after(terminated | truncated, info["success"])
            for k in np.flatnonzero(terminated | truncated):
                final = info["final_info"]
                ever = bool(final["episode"]["s"][k])
                score = EpisodeScore(
                    env.tasks[env.task_ids[k]],
                    pending[k].pop(),
                    ever if self.protocol.success == "any" else bool(final["success"][k]),
                    float(final["episode"]["r"][k]),
                    int(final["episode"]["l"][k]),
                    *tally.end(int(k)),
                    ever=ever,
                )
                if noise is not None and pending[k]:
                    noise.begin(int(k), pending[k][-1])
                if not np.isfinite([score.reward, *score.returns]).all():
                    raise NonFiniteError(f"evaluation, task {score.task}: the environment gave a non-finite reward.")
                scores.append(score)
                on_episode(score)
        if watcher is not None:
            watcher.end()
        scores = sorted(scores, key=lambda s: (env.tasks.index(s.task), s.episode))
        for other in sets:
            scores += other.run(episodes, on_episode=on_episode, should_stop=should_stop)
        return scores

    def _reset(self, pending: list[list[int]]) -> npt.NDArray[Any]:
        first = np.array([p[-1] // self.env.slots_per_task if p else 0 for p in pending])
        return self.env.reset(options={"episode": first})[0]

    def _actions(
        self,
        act: Act,
        obs: npt.NDArray[Any],
        noise: npt.NDArray[np.float32] | None,
        taken: npt.NDArray[np.int64],
    ) -> npt.NDArray[Any]:
        env, tasks = self.env, len(self.env.tasks)
        rows = torch.from_numpy(plain(obs))
        drawn = None if noise is None else torch.from_numpy(noise)
        if self.schedule is None:
            actions = act(rows.reshape(tasks, env.slots_per_task, *rows.shape[1:]), drawn).numpy()
            return np.asarray(actions).reshape(env.num_envs, -1)
        # Every intention says what it would do in every slot; the one that is wanted there is heard.
        each = len(env.intentions)
        drawn = None if drawn is None else drawn.reshape(1, env.num_envs, -1).expand(each, -1, -1)
        actions = act(rows.expand(each, *rows.shape), drawn).numpy()
        return np.asarray(actions[self.schedule.at(taken), np.arange(env.num_envs)])


class _Tally:
    """Steps of the episode that every slot is in, and what it gave so far as every intention sees it."""

    def __init__(self, env: MultiTaskEnv, intentions: bool) -> None:
        self.taken = np.zeros(env.num_envs, dtype=np.int64)
        self._all = intentions
        shape = env.num_envs, len(env.intentions)
        self._returns, self._successes = np.zeros(shape), np.zeros(shape, dtype=np.bool_)

    def after(self, info: dict[str, Any], active: npt.NDArray[np.bool_]) -> None:
        self.taken += active
        if self._all:
            self._returns += info["rewards"]
            self._successes |= info["successes"]

    def end(self, slot: int) -> tuple[tuple[float, ...], tuple[bool, ...]]:
        """Returns and successes of the episode that is over in `slot`; both empty where nobody asks."""
        found = tuple(self._returns[slot].tolist()), tuple(self._successes[slot].tolist())
        self.taken[slot], self._returns[slot], self._successes[slot] = 0, 0.0, False
        return found if self._all else ((), ())


def summarise(scores: Sequence[EpisodeScore], tasks: Sequence[str]) -> dict[str, Any]:
    """Means per task and over tasks, as they stand in results.json; scores of other tasks are left out."""
    scores = [s for s in scores if s.task in tasks]
    per_task: dict[str, Any] = {}
    for task in tasks:
        own = [s for s in scores if s.task == task]
        per_task[task] = {
            "success": float(np.mean([s.success for s in own])),
            "return": float(np.mean([s.reward for s in own])),
            "episodes": len(own),
        }
    return {
        "success": float(np.mean([t["success"] for t in per_task.values()])),
        "return": float(np.mean([t["return"] for t in per_task.values()])),
        "per_task": per_task,
        "episodes": [episode_to_json(s) for s in scores],
    }


def matrix(scores: Sequence[EpisodeScore], tasks: Sequence[str]) -> dict[str, list[list[Any]]]:
    """Every episode as every intention sees it: row = who judges, columns = episodes, grouped by the task that they
    were of."""
    columns = [s for task in tasks for s in scores if s.task == task]
    return {
        "returns": [[s.returns[i] for s in columns] for i in range(len(tasks))],
        "successes": [[s.successes[i] for s in columns] for i in range(len(tasks))],
    }


def episode_to_json(score: EpisodeScore) -> dict[str, Any]:
    row = dataclasses.asdict(score)
    row["return"] = row.pop("reward")
    del row["ever"]
    for key in ("returns", "successes"):
        values = list(row.pop(key))
        if values:
            row[key] = values
    return row


def episode_from_json(row: dict[str, Any]) -> EpisodeScore:
    seen = tuple(row.get("returns", ())), tuple(row.get("successes", ()))
    return EpisodeScore(row["task"], row["episode"], row["success"], row["return"], row["length"], *seen)
