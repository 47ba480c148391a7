"""States that show what is wanted, and demonstrations, in files that cannot run code and are checked when read.

A file is an npz: one array per field of `Recorded`, and what they are about as JSON, with the SHA-256 of it all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.errors import ConfigError, DamagedError, MedleyError, closest
from medley.files import replacing

Array = npt.NDArray[Any]
FORMAT = 1
CONTEXT = -1  # the task_id of rows that are no examples, and only stand before one
EXAMPLES, DEMONSTRATIONS = "examples", "demonstrations"

# Every array's type and the dimensions it has beside its rows.
_FIELDS: dict[str, tuple[type, int]] = {
    "observations": (np.float32, 1),
    "rewards": (np.float32, 1),
    "success": (np.bool_, 1),
    "terminations": (np.bool_, 0),
    "truncations": (np.bool_, 0),
    "episode_id": (np.int64, 0),
    "step": (np.int64, 0),
    "task_id": (np.int64, 0),
    "actions": (np.float32, 1),
    "next_observations": (np.float32, 1),
}
_OPTIONAL = ("actions", "next_observations")


@dataclass(frozen=True)
class About:
    """Where rows come from, so that nobody learns one env from another's."""

    env: str  # the env's name, with its task where it has one to choose: see `env_id` in recording.py
    tasks: tuple[str, ...]  # what `task_id` and the columns of `rewards` and `success` count
    holds: str = EXAMPLES  # or DEMONSTRATIONS
    layout: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # parts of an observation: [first, last + 1]
    control_hz: float | None = None  # steps per second of the env's own time
    action_low: list[float] = dataclasses.field(default_factory=list)
    action_high: list[float] = dataclasses.field(default_factory=list)
    seed: int = 0
    source: str = ""  # who acted
    success_rate: dict[str, float] = dataclasses.field(default_factory=dict)  # of the episodes tried, by task
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    commit: str | None = None
    frames: int = 1  # in an observation; files always hold single ones


@dataclass(frozen=True)
class Recorded:
    """N rows, those of an episode adjacent and in order.

    In demonstrations a row is a step: `rewards`, `success`, `terminations` and `truncations` are what came of it, so
    they belong to `next_observations`. An example is a state: `rewards` and `success` are those it was reached with,
    it has an `episode_id` of its own, and the rows before it in there (`task_id` -1) are what was seen just before.
    """

    about: About
    observations: Array
    rewards: Array
    success: Array
    terminations: Array
    truncations: Array
    episode_id: Array
    step: Array
    task_id: Array
    actions: Array | None = None
    next_observations: Array | None = None

    def __post_init__(self) -> None:
        rows = len(self.observations)
        for name, (dtype, dims) in _FIELDS.items():
            array = getattr(self, name)
            if array is None and name in _OPTIONAL:
                continue
            array = np.asarray(array)
            if array.ndim != 1 + dims or len(array) != rows:
                wanted = f"[{rows}{', …' * dims}]"
                raise ConfigError(f"`{name}` of a recording has shape {list(array.shape)}, expected {wanted}.")
            object.__setattr__(self, name, array.astype(dtype, copy=False))
        tasks = len(self.about.tasks)
        for name in ("rewards", "success"):
            if getattr(self, name).shape[1] != tasks:
                raise ConfigError(f"`{name}` has {getattr(self, name).shape[1]} columns for {tasks} tasks.")
        if self.next_observations is not None and self.next_observations.shape != self.observations.shape:
            raise ConfigError("`next_observations` and `observations` differ in shape.")
        if rows and not (self.task_id.min() >= CONTEXT and self.task_id.max() < tasks):
            raise ConfigError(f"`task_id` must lie between {CONTEXT} and {tasks - 1}.")
        for name in ("observations", "rewards", *_OPTIONAL):
            if (array := getattr(self, name)) is not None and not np.isfinite(array).all():
                raise ConfigError(f"`{name}` has numbers that are not finite.")
        self._check_order()

    def _check_order(self) -> None:
        """Boundaries are stored, never guessed: an episode's rows must be adjacent, its steps successive."""
        begins = self.begins()
        inside = np.flatnonzero(~begins)
        if (self.step[inside] != self.step[inside - 1] + 1).any():
            raise ConfigError("the steps of an episode must be successive.")
        if len(np.unique(self.episode_id)) != begins.sum():
            raise ConfigError("the rows of an episode must be adjacent.")

    def __len__(self) -> int:
        return len(self.observations)

    def begins(self) -> Array:
        """True where a row is the first of its episode."""
        return np.concatenate([[True], self.episode_id[1:] != self.episode_id[:-1]])[: len(self)]

    # ---- parts

    def rows(self, chosen: Array) -> Recorded:
        arrays = {name: a[chosen] for name in _FIELDS if (a := getattr(self, name)) is not None}
        return Recorded(self.about, **arrays)

    def of_task(self, task: int | str) -> Recorded:
        """The examples, or the demonstrations, of one task."""
        if isinstance(task, str):
            if task not in self.about.tasks:
                raise ConfigError(f"the recording has nothing for {task!r}.{closest(task, self.about.tasks)}")
            task = self.about.tasks.index(task)
        return self.rows(self.task_id == range(len(self.about.tasks))[task])

    # ---- files

    def save(self, path: str | Path) -> None:
        """Replaces an earlier file only once the new one is whole."""
        if self.about.frames != 1:
            raise ConfigError("recordings are saved as single frames; stack them after loading.")
        path = Path(path)
        arrays = {name: a for name in _FIELDS if (a := getattr(self, name)) is not None}
        about = dataclasses.asdict(self.about)
        header = {"format": FORMAT, "about": about, "sha256": _digest(arrays, about)}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, metadata=text, **arrays)
        except OSError as e:
            raise MedleyError(f"{path} cannot be written: {e.strerror}.") from None

    @classmethod
    def load(cls, path: str | Path, env: str | None = None) -> Recorded:
        """What `save` wrote, of `env` if that is given."""
        path = Path(path)
        if not path.is_file():
            raise ConfigError(f"there is no file {path}. `medley demos --help` says how to record one.")
        again = "Record it again with `medley demos`, or take another copy."
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(arrays.pop("metadata").tobytes())
            version, about, digest = header["format"], header["about"], header["sha256"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as e:
            raise DamagedError(f"{path} is not a recording of medley, or is damaged ({e}). {again}") from None
        if version != FORMAT:
            raise ConfigError(f"{path} has format {version}; this version of medley reads format {FORMAT}.")
        if _digest(arrays, about) != digest:
            raise DamagedError(f"{path} is damaged: its checksum does not match. {again}")
        if env is not None and about["env"] != env:
            raise ConfigError(f"{path} was recorded in {about['env']}, not in {env}: record one there.")
        try:
            return cls(About(**{**about, "tasks": tuple(about["tasks"])}), **arrays)
        except (TypeError, KeyError) as e:  # a field too many, or one that is missing
            raise DamagedError(f"{path} does not hold what a recording holds ({e}). {again}") from None


def stacked(recorded: Recorded, frames: int) -> Recorded:
    """Every observation with those before it, the oldest first: what an env with a frame stack would have shown.

    At the start of an episode the first one is repeated: [o0, o0], then [o0, o1]; a state without history is [s, s].
    Rows that only are the history of an example have served, and are left out.
    """
    if frames < 1:
        raise ConfigError(f"a stack has at least one frame, not {frames}.")
    if recorded.about.frames != 1:
        raise ConfigError("this recording is stacked already.")
    here = np.arange(len(recorded))
    first = np.maximum.accumulate(np.where(recorded.begins(), here, 0))
    kept = recorded.task_id != CONTEXT
    short = kept & (here - first < frames - 1) & (recorded.step[first] > 0)
    if short.any():
        row = int(np.flatnonzero(short)[0])
        raise ConfigError(
            f"row {row} has {row - first[row]} observations before it, too few for a stack of {frames}: "
            f"record it again with history={frames - 1}."
        )
    windows = np.stack([np.maximum(here - back, first) for back in reversed(range(frames))], axis=1)
    stack = recorded.observations[windows]  # [N, frames, D]
    wide = stack.reshape(len(here), -1)
    after = None
    if recorded.next_observations is not None:
        after = np.concatenate([stack[:, 1:], recorded.next_observations[:, None]], axis=1).reshape(wide.shape)
    about = dataclasses.replace(recorded.about, frames=frames)
    made = dataclasses.replace(recorded, about=about, observations=wide, next_observations=after)
    return made.rows(kept)


def _digest(arrays: dict[str, Array], about: dict[str, Any]) -> str:
    h = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        h.update(f"{name} {array.dtype.str} {array.shape}".encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()
