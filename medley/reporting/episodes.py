"""`episodes.jsonl`: a JSON line for every episode that ended, of training and of evaluations alike.

kind           train or eval
step           control steps of the simulator when it was over
model_step     the step whose weights acted
task           what was carried out; null where training carried out several intentions. With a forced schedule: the
               task that the protocol judged the episode by
schedule       intentions in the order in which they were carried out, agent.scheduler.period steps each; else null
episode        its number: among all episodes of training, or among those of the task in this evaluation
seed           setup.seed
length         steps
return         a list with a number per intention, or with one where there are no intentions
success        the same, at any step
delays         in real time: percentiles of this episode in milliseconds; else null
checkpoint_ms  what saving took, where a checkpoint followed at once; else null
time           when it was noted, UTC
file           of `medley evaluate` only: the file with its scores
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medley.agents.api import agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.files import replacing

if TYPE_CHECKING:
    from medley.training.collector import Episode
    from medley.training.evaluator import EpisodeScore

NAME = "episodes.jsonl"
Row = dict[str, Any]


class EpisodeRows:
    """Makes rows, and keeps them until it is known whether a checkpoint follows at once.

    Rows that a checkpoint has seen and the file has not are part of the checkpoint (`state`), so that a killed run
    ends with the same file.
    """

    def __init__(self, config: Config, env: MultiTaskEnv, behind: int = 0) -> None:
        """`env` is that of training, or one for evaluations if there is no training. Who acts is so many chunks
        `behind` what was learnt."""
        self.wanted = _wanted(config, env)
        self._seed, self._env, self._behind = config.setup.seed, env, behind
        self._between = config.experiment.update_when == "between_episodes"
        self._waiting: list[Row] = []
        self._held: list[Row] = []  # of an evaluation beside training: when it ends is a matter of chance

    def trained(self, episodes: Sequence[Episode], first: int, before: int, step: int) -> None:
        """Episodes, numbered from `first`, that ended in a chunk of training from one step to another."""
        if not self.wanted:
            return
        acted = max(0, before - self._behind * (step - before))
        for number, e in enumerate(episodes, first):
            seen = e.intentions or {"returns": [e.reward], "successes": [e.success], "chosen": None}
            whose = max(0, step - e.length) if self._between else acted
            chosen = seen["chosen"]
            head = self._head("train", step, whose, self._env.tasks[e.task], number, chosen)
            if chosen is not None:  # the env has one task, and knows nothing of what was wanted
                head["task"] = head["schedule"][0] if len(set(chosen)) == 1 else None
            body = {"length": e.length, "return": seen["returns"], "success": seen["successes"]}
            self._waiting.append({**head, **body, "delays": e.delays, "time": _now()})

    def evaluated(
        self,
        scores: Sequence[EpisodeScore],
        step: int,
        chosen: Callable[[int], list[int] | None],
        hold: bool = False,
    ) -> None:
        """Episodes of an evaluation of the agent of `step`. `chosen` gives the intentions carried out in so many steps;
        `hold` keeps the rows until `release`."""
        if self.wanted:
            rows = [self.of_score(score, step, chosen(score.length)) for score in scores]
            (self._held if hold else self._waiting).extend(rows)

    def of_score(self, score: EpisodeScore, step: int, chosen: list[int] | None) -> Row:
        returns, successes = list(score.returns) or [score.reward], list(score.successes) or [score.ever]
        head = self._head("eval", step, step, score.task, score.episode, chosen)
        body = {"length": score.length, "return": returns, "success": successes}
        return {**head, **body, "delays": None, "time": _now()}

    def release(self) -> None:
        """At a place that does not depend on how quick the machine is."""
        self._waiting, self._held = self._waiting + self._held, []

    def flush(self, write: Callable[[Row], None], checkpoint_ms: float | None = None) -> None:
        """Write what waits; a checkpoint that has just been made belongs to the episodes of training before it."""
        for row in self._waiting:
            write({**row, "checkpoint_ms": checkpoint_ms if row["kind"] == "train" else None})
        self._waiting = []

    def state(self) -> dict[str, list[Row]]:
        return {"waiting": self._waiting, "held": self._held}

    def set_state(self, state: dict[str, list[Row]]) -> None:
        if self.wanted:
            self._waiting, self._held = list(state.get("waiting", [])), list(state.get("held", []))

    def _head(self, kind: str, step: int, model_step: int, task: str, number: int, chosen: list[int] | None) -> Row:
        """Which episode it was."""
        schedule = None if chosen is None else [self._env.intentions[k] for k in chosen]
        return {
            "kind": kind,
            "step": self._env.env_steps(step),
            "model_step": model_step,
            "task": task,
            "schedule": schedule,
            "episode": number,
            "seed": self._seed,
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _wanted(config: Config, env: MultiTaskEnv) -> bool:
    """Where steps are quick and episodes many, lines would cost more than they tell."""
    if config.logger.episodes is not None:
        return config.logger.episodes
    arm = hasattr(env, "delays") or getattr(config.env, "arm", "simulated") != "simulated"
    return arm or config.experiment.update_when != "at_step" or agent_kind(config.agent.builder).has_intentions


class AppendedRows:
    """Rows of `medley evaluate`, at the end of a file that a run may be writing to as well: every row is one write.

    A row that is there already is not written again, so that whatever a killed evaluation has left is made good by the
    next one.
    """

    def __init__(self, folder: Path, file: str) -> None:
        self._path, self._file = folder / NAME, file
        data = self._path.read_bytes() if self._path.is_file() else b""
        if not data.endswith(b"\n") and data:  # whoever wrote that was killed, or the disk was full
            os.truncate(self._path, data.rfind(b"\n") + 1)
        rows = _read(data)
        self._there = {_timeless(row) for row in rows if row.get("file") == file}

    def add(self, row: Row) -> None:
        row = {**row, "checkpoint_ms": None, "file": self._file}
        if _timeless(row) in self._there:
            return
        self._there.add(_timeless(row))
        with self._path.open("ab", buffering=0) as f:
            f.write(json.dumps(row).encode() + b"\n")


def cut_back(path: Path, length: int) -> None:
    """To what a checkpoint has seen; rows of `medley evaluate` stay, for they are not the run's to take back."""
    data = path.read_bytes()
    tail = [row for row in _read(data[length:]) if "file" in row]
    if not tail:
        os.truncate(path, min(length, len(data)))
        return
    with replacing(path) as temporary:
        temporary.write_bytes(data[:length] + b"".join(json.dumps(row).encode() + b"\n" for row in tail))


def _read(data: bytes) -> list[Row]:
    """All whole lines; the last may be torn."""
    rows = []
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _timeless(row: Row) -> str:
    return json.dumps({key: value for key, value in row.items() if key != "time"}, sort_keys=True)
