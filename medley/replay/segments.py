"""Replay on disk: immutable segments of rows, named by their content, listed in each checkpoint's manifest.

A save writes only the rows added since the last one. A segment is deleted when no kept checkpoint lists it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from medley.errors import DamagedError
from medley.files import replacing, sha256
from medley.replay.ring import FIELDS, Replay

Manifest = dict[str, Any]


def save(replay: Replay, folder: Path, before: Manifest | None) -> Manifest:
    """Write what is new since `before` and return the manifest that restores the whole ring."""
    folder.mkdir(parents=True, exist_ok=True)
    oldest = replay.written - replay.size
    segments = [s for s in before["segments"] if s["to"] > oldest] if before else []
    start = max(before["written"], oldest) if before else oldest
    if replay.written > start:
        index = torch.arange(start, replay.written, device=replay.device) % replay.capacity
        tensors = {name: replay.rows[name][:, index].cpu().contiguous() for name in FIELDS}
        draft = folder / "draft"
        with replacing(draft) as temporary:
            save_file(tensors, temporary)
        digest = sha256(draft)
        name = f"{start}-{replay.written}-{digest[:16]}.safetensors"
        draft.replace(folder / name)
        segments.append({"file": name, "from": start, "to": replay.written, "sha256": digest})
    return {
        "written": replay.written,
        "capacity": replay.capacity,
        "slots": replay.slots,
        "tasks": replay.tasks,
        "segments": segments,
    }


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
    oldest = max(0, manifest["written"] - replay.capacity)
    for segment in manifest["segments"]:
        tensors = load_file(folder / segment["file"])
        first = max(segment["from"], oldest)
        index = torch.arange(first, segment["to"], device=replay.device) % replay.capacity
        for name in FIELDS:
            replay.rows[name][:, index] = tensors[name][:, first - segment["from"] :].to(replay.device)
    replay.set_written(manifest["written"])


def delete_unlisted(folder: Path, manifests: list[Manifest]) -> None:
    """Remove segments that none of the kept checkpoints needs, and drafts of a save that was cut off."""
    listed = {s["file"] for m in manifests for s in m["segments"]}
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in listed:
                path.unlink()
