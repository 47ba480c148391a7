"""Replay on disk: immutable segments of rows, named by their content, listed in each checkpoint's manifest.

A save writes only the rows added since the last one. A segment is deleted when no kept checkpoint lists it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from medley.errors import DamagedError
from medley.files import replacing, sha256
from medley.replay.ring import FIELDS, Replay

Manifest = dict[str, Any]


def save(replay: Replay, folder: Path, before: Manifest | None) -> Manifest:
    """Write what is new since `before` and return the manifest that restores the whole ring."""
    folder.mkdir(parents=True, exist_ok=True)
    oldest = _oldest(replay.counts, replay.capacity)
    segments = [s for s in before["segments"] if (np.asarray(s["to"]) > oldest).any()] if before else []
    start = np.maximum(before["written"], oldest) if before else oldest
    if (replay.counts > start).any():
        task, row = _places(start, replay.counts, replay)
        tensors = {name: replay.rows[name][task, row].cpu().contiguous() for name in FIELDS}
        draft = folder / "draft"
        with replacing(draft) as temporary:
            save_file(tensors, temporary)
        digest = sha256(draft)
        name = f"{start.sum()}-{replay.counts.sum()}-{digest[:16]}.safetensors"
        draft.replace(folder / name)
        segments.append({"file": name, "from": start.tolist(), "to": replay.counts.tolist(), "sha256": digest})
    return {
        "written": replay.counts.tolist(),
        "capacity": replay.capacity,
        "slots": replay.slots,
        "tasks": replay.tasks,
        "segments": segments,
    }


def _oldest(written: Any, capacity: int) -> Any:
    """The count of the oldest row that is still there, per task."""
    return np.maximum(np.asarray(written) - capacity, 0)


def _places(first: Any, end: Any, replay: Replay) -> tuple[torch.Tensor, torch.Tensor]:
    """(task, row in the ring) of the rows from `first` to `end` of every task, one task after another."""
    lengths = np.maximum(np.asarray(end) - first, 0)
    task = np.repeat(np.arange(replay.tasks), lengths)
    row = np.concatenate([np.arange(n) + f for n, f in zip(lengths, first, strict=True)]) % replay.capacity
    return torch.from_numpy(task).to(replay.device), torch.from_numpy(row).to(replay.device)


def verify(folder: Path, manifest: Manifest) -> None:
    """Raise DamagedError unless every segment is there and is what was written."""
    for segment in manifest["segments"]:
        path = folder / segment["file"]
        if Path(segment["file"]).name != segment["file"]:
            raise DamagedError(f"the replay manifest names a file outside its folder: {segment['file']!r}")
        if not path.is_file():
            raise DamagedError(f"replay segment {path} is missing")
        if sha256(path) != segment["sha256"]:
            raise DamagedError(f"replay segment {path} is damaged: its checksum does not fit")


def load(replay: Replay, folder: Path, manifest: Manifest) -> None:
    """Fill the ring from verified segments."""
    for key in ("capacity", "slots", "tasks"):
        if manifest[key] != getattr(replay, key):
            raise DamagedError(f"the saved replay has {key}={manifest[key]}, this run {getattr(replay, key)}")
    oldest = _oldest(manifest["written"], replay.capacity)
    for segment in manifest["segments"]:
        tensors = load_file(folder / segment["file"])
        saved, end = np.asarray(segment["from"]), np.asarray(segment["to"])
        first = np.minimum(np.maximum(saved, oldest), end)
        # Rows that the ring has overwritten since are left out, at the beginning of every task's part of the file.
        starts = np.concatenate([[0], np.cumsum(end - saved)[:-1]])
        kept = [np.arange(f, e) + at - s for f, e, at, s in zip(first, end, starts, saved, strict=True)]
        task, row = _places(first, end, replay)
        source = torch.from_numpy(np.concatenate(kept))
        for name in FIELDS:
            replay.rows[name][task, row] = tensors[name][source].to(replay.device)
    replay.set_written(np.asarray(manifest["written"], dtype=np.int64))


def delete_unlisted(folder: Path, manifests: list[Manifest]) -> None:
    """Remove segments that none of the kept checkpoints needs, and drafts of a save that was cut off."""
    listed = {s["file"] for m in manifests for s in m["segments"]}
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in listed:
                path.unlink()
