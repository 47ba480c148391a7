"""Checkpoints: folders of safetensors and JSON that are whole or not there, with a checksum for every file."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from torch import Tensor

from medley.errors import DamagedError
from medley.files import read_json, seal, sha256, sync, write_draft
from medley.replay import segments
from medley.replay.base import ReplayBase

Array = npt.NDArray[Any]
FILES = (
    "agent.safetensors",
    "learner.safetensors",
    "collector.safetensors",
    "rewards.safetensors",
    "counters.json",
    "replay.json",
)
EVALUATION = "evaluation.safetensors"  # where there is something to say
_NAME = re.compile(r"\d+|\.\d+\.old")


@dataclass
class Snapshot:
    """Everything the future of a run depends on, beside replay."""

    agent: dict[str, Tensor]
    learner: dict[str, Tensor]
    collector: dict[str, Array]
    rewards: dict[str, Array]
    counters: dict[str, Any]  # plain JSON
    evaluation: dict[str, Tensor]  # the policy of one that was under way, if a stop did not wait for it


class Checkpoints:
    """The checkpoints of one run: `checkpoints/<step>/` and the replay segments they name in `buffer/`."""

    def __init__(self, run: Path, keep: int, long_term_freq: int | None = None) -> None:
        self.folder, self.buffer = run / "checkpoints", run / "buffer"
        self.keep, self.long_term_freq = keep, long_term_freq
        self._manifest: segments.Manifest | None = None
        self._listed: dict[int, set[str]] | None = None  # segments of every checkpoint that is there, once looked up
        self._threads = ThreadPoolExecutor(8)
        self._tidying: Future[None] | None = None

    def steps(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted({checkpoint_step(p) for p in self.folder.iterdir() if _NAME.fullmatch(p.name)})

    def place(self, step: int) -> Path:
        """Of its checkpoint: there, or where a save of the same step that was cut off had put it aside."""
        path, aside = self.folder / str(step), self.folder / f".{step}.old"
        return aside if aside.is_dir() and not path.is_dir() else path

    def save(self, step: int, snapshot: Snapshot, replay: ReplayBase | None) -> Path:
        """Written beside, synced, then renamed: whoever looks sees a whole checkpoint or none."""
        self.settle()
        final, draft, aside = (self.folder / name for name in (str(step), f".{step}.tmp", f".{step}.old"))
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            manifest = segments.save(replay, self.buffer, self._manifest) if replay else None
            save_file({k: v.contiguous() for k, v in snapshot.agent.items()}, draft / "agent.safetensors")
            save_file({k: v.contiguous() for k, v in snapshot.learner.items()}, draft / "learner.safetensors")
            save_arrays(_contiguous(snapshot.collector), draft / "collector.safetensors")
            save_arrays(_contiguous(snapshot.rewards), draft / "rewards.safetensors")
            if snapshot.evaluation:
                save_file(snapshot.evaluation, draft / EVALUATION)
            write_draft(draft / "counters.json", snapshot.counters)
            write_draft(draft / "replay.json", manifest, indent=None)
            new = [self.buffer / name for name in segments.files(manifest) - segments.files(self._manifest)]
            digests = seal(self._threads, sorted(draft.iterdir()), [*new, self.buffer] if new else [])
            write_draft(draft / "manifest.json", digests)
            seal(self._threads, [], [draft / "manifest.json", draft])
            if final.exists():  # a save at the same step, after an interrupted evaluation
                shutil.rmtree(aside, ignore_errors=True)
                final.rename(aside)
            draft.rename(final)
            sync(self.folder)
            shutil.rmtree(aside, ignore_errors=True)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            self.recover()
            self._delete_unlisted()  # a full disk gets back what this attempt had written
            raise
        self._manifest = manifest
        if self._listed is not None:
            self._listed[step] = segments.files(manifest)
        self._keep_long_term(step)
        self._tidying = self._threads.submit(self._delete_old)  # nobody has to wait for that
        return final

    def recover(self) -> None:
        """After a save that was cut off: what it had put aside for its own of the same step is the checkpoint again,
        and its drafts are nothing. For whoever holds the run's lock: to others it may be a save under way."""
        for draft in self.folder.glob(".*.tmp"):
            shutil.rmtree(draft, ignore_errors=True)
        for aside in self.folder.glob(".*.old"):
            final = self.folder / aside.name[1:].removesuffix(".old")
            if final.exists():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.rename(final)

    def settle(self) -> None:
        """Once what the last save made superfluous is gone."""
        if self._tidying is not None:
            self._tidying.result()
            self._tidying = None

    def latest(self, report: Callable[[str], None], until: int | None = None) -> Path | None:
        """The newest checkpoint (up to step `until`) that is undamaged; `report` hears about those that are not."""
        for step in reversed([s for s in self.steps() if until is None or s <= until]):
            path = self.place(step)
            try:
                self.verify(path)
                return path
            except DamagedError as e:
                report(f"Checkpoint {step} cannot be used ({e}); trying the one before it.")
        return None

    def verify(self, path: Path) -> None:
        if not (path / "manifest.json").is_file():
            raise DamagedError("manifest.json is missing")
        listed = read_json(path / "manifest.json")
        if not isinstance(listed, dict) or not set(FILES) <= listed.keys():
            raise DamagedError("manifest.json does not list what a checkpoint consists of")
        for name, digest in listed.items():
            if not (path / name).is_file():
                raise DamagedError(f"{name} is missing")
            if sha256(path / name) != digest:
                raise DamagedError(f"the checksum of {name} does not fit")
        if manifest := read_json(path / "replay.json"):
            segments.verify(self.buffer, manifest)

    def load(self, path: Path, replay: ReplayBase | None) -> Snapshot:
        """Read a verified checkpoint; fills `replay` if one is given and was saved."""
        for step in self.steps():  # what came after is not part of this run any more
            if step > checkpoint_step(path):
                self._delete(step)
        self._listed = None
        self._manifest = read_json(path / "replay.json")
        if replay is not None and self._manifest is not None:
            segments.load(replay, self.buffer, self._manifest)
        return Snapshot(
            agent=load_agent(path),
            learner=load_file(path / "learner.safetensors"),
            collector=load_arrays(path / "collector.safetensors"),
            rewards=load_arrays(path / "rewards.safetensors"),
            counters=read_json(path / "counters.json"),
            evaluation=load_file(path / EVALUATION) if (path / EVALUATION).is_file() else {},
        )

    def _keep_long_term(self, step: int) -> None:
        """The first checkpoint in every long-term interval leaves its agent (not its replay) for ever."""
        if not self.long_term_freq:
            return
        kept = [int(p.name.removeprefix("long_term_")) for p in self.folder.glob("long_term_*")]
        if step // self.long_term_freq not in {s // self.long_term_freq for s in kept}:
            place, draft = self.folder / f"long_term_{step}", self.folder / f".long_term_{step}.tmp"
            whole = self.folder / str(step)
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            digests = read_json(whole / "manifest.json")
            for name in (names := ("agent.safetensors", "counters.json")):
                try:
                    os.link(whole / name, draft / name)
                except OSError:  # not every disk can
                    shutil.copyfile(whole / name, draft / name)
            write_draft(draft / "manifest.json", {name: digests[name] for name in names})
            draft.rename(place)

    def _delete_old(self) -> None:
        old = self.steps()[: -self.keep] if self.keep > 0 else []
        for step in old:
            self._delete(step)
        if self._listed is None:  # the first time: whatever a save that was cut off has left
            self._delete_unlisted()
            return
        gone = set().union(*(self._listed.pop(step, set()) for step in old))
        for name in gone.difference(*self._listed.values()):
            (self.buffer / name).unlink(missing_ok=True)

    def _delete(self, step: int) -> None:
        """Also what a save had put aside: a file that somebody reads can stay behind on a network's disk."""
        for name in (str(step), f".{step}.old"):
            if (folder := self.folder / name).exists():
                shutil.rmtree(folder, ignore_errors=name != str(step))

    def _delete_unlisted(self) -> None:
        try:
            manifests = {s: read_json(self.folder / str(s) / "replay.json") for s in self.steps()}
            listed = {step: segments.files(manifest) for step, manifest in manifests.items()}
        except (DamagedError, OSError, LookupError, TypeError, AttributeError):
            return  # a checkpoint that cannot say what it needs: nothing is deleted while it is there
        segments.delete_unlisted(self.buffer, [m for m in manifests.values() if m])
        self._listed = listed


def checkpoint_step(path: Path) -> int:
    """Of a checkpoint's folder, wherever it is for now."""
    return int(path.name.removeprefix("long_term_").removeprefix(".").removesuffix(".old"))


def verify_agent(path: Path) -> None:
    """Raise DamagedError unless the agent of a checkpoint folder is what was saved, as far as that is known there."""
    if not (path / "manifest.json").is_file():
        return  # a long-term agent from before these had one
    if read_json(path / "manifest.json").get("agent.safetensors") != sha256(path / "agent.safetensors"):
        raise DamagedError(f"{path / 'agent.safetensors'} is damaged: its checksum does not fit.")


def load_agent(path: Path) -> dict[str, Tensor]:
    """The agent's tensors of a checkpoint folder."""
    try:
        tensors: dict[str, Tensor] = load_file(path / "agent.safetensors")
        return tensors
    except (SafetensorError, OSError) as e:
        raise DamagedError(f"{path / 'agent.safetensors'} cannot be read: {e}") from None


def _contiguous(arrays: dict[str, Array]) -> dict[str, Array]:
    # (np.ascontiguousarray alone would turn a scalar into a row of one)
    return {k: np.ascontiguousarray(v).reshape(v.shape) for k, v in arrays.items()}
