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

from medley.envs.api import MultiTaskEnv
from medley.errors import NonFiniteError
from medley.training.acting import Act, Acting
from medley.training.collector import plain
from medley.training.protocols import Protocol


@dataclass(frozen=True, order=True)
class EpisodeScore:
    task: str
    episode: int
    success: bool
    reward: float
    length: int


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
        self.sets: dict[str, Evaluator] = {}  # other tasks to score the agent on, by name
        env.terminate_on_success = protocol.stop_at_success

    @property
    def tasks(self) -> int:
        """How many there are, with those of all sets."""
        return len(self.env.tasks) + sum(other.tasks for other in self.sets.values())

    def refresh(self) -> None:
        """Score the agent as it is now."""
        for one in (self, *self.sets.values()):
            if one.acting is not None:
                one.acting.refresh()

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
        obs = self._reset(pending)
        if watcher is not None:
            watcher.begin()
        while any(pending):
            if should_stop():
                raise Interrupted
            active = np.array([bool(p) for p in pending])
            obs, _, terminated, truncated, info = env.step(self._actions(act, obs), active)
            if watcher is not None:
                watcher.after(terminated | truncated, info["success"])
            for k in np.flatnonzero(terminated | truncated):
                final = info["final_info"]
                success = final["episode"]["s"][k] if self.protocol.success == "any" else final["success"][k]
                score = EpisodeScore(
                    env.tasks[env.task_ids[k]],
                    pending[k].pop(),
                    bool(success),
                    float(final["episode"]["r"][k]),
                    int(final["episode"]["l"][k]),
                )
                if not np.isfinite(score.reward):
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

    def _actions(self, act: Act, obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        env = self.env
        rows = plain(obs).reshape(len(env.tasks), env.slots_per_task, *obs.shape[1:])
        return np.asarray(act(torch.from_numpy(rows), None).numpy()).reshape(env.num_envs, -1)


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


def episode_to_json(score: EpisodeScore) -> dict[str, Any]:
    row = dataclasses.asdict(score)
    row["return"] = row.pop("reward")
    return row


def episode_from_json(row: dict[str, Any]) -> EpisodeScore:
    return EpisodeScore(row["task"], row["episode"], row["success"], row["return"], row["length"])
