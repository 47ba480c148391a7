"""Replay on disk: immutable segments of records, named by their content, listed in each checkpoint's manifest.

A save writes only the records added since the last one. A segment is deleted when no kept checkpoint lists it.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from medley.errors import DamagedError
from medley.files import sha256
from medley.replay.base import Array, Records, ReplayBase

Manifest = dict[str, Any]
LONGEST = 2**28  # bytes in one segment: what a save or a load needs in memory at a time


def save(replay: ReplayBase, folder: Path, before: Manifest | None) -> Manifest:
    """Write what is new since `before` and return the manifest that restores the whole replay.

    Files that `before` does not list are not synced yet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    records, written = replay.records(), replay.marks().copy()
    oldest = _oldest(written, records)
    segments = [s for s in before["segments"] if (np.asarray(s["to"]) > oldest).any()] if before else []
    start = np.maximum(before["written"], oldest) if before else oldest
    new = written - start
    weights = np.concatenate([np.full(r.lanes, r.record_bytes) for r in records])
    pieces = -(-int((new * weights).sum()) // LONGEST)
    cuts = [start + new * i // pieces for i in range(pieces + 1)] if pieces else []
    segments += [_write(records, folder, first, end) for first, end in pairwise(cuts)]
    return {"written": written.tolist(), **replay.layout(), "segments": segments}


def _write(records: list[Records], folder: Path, first: Array, end: Array) -> dict[str, Any]:
    tensors = {}
    for part, lanes in zip(records, _parts(records), strict=True):
        tensors.update(part.read(*_places(part, first[lanes], end[lanes])))
    draft = folder / "draft"
    try:
        save_file({name: t.contiguous() for name, t in tensors.items()}, draft)
        digest = sha256(draft)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    name = f"{first.sum()}-{end.sum()}-{digest[:16]}.safetensors"
    draft.replace(folder / name)
    return {"file": name, "from": first.tolist(), "to": end.tolist(), "sha256": digest}


def _parts(records: list[Records]) -> list[slice]:
    """Where the lanes of each kind stand among all lanes."""
    ends = np.cumsum([part.lanes for part in records])
    return [slice(int(end) - part.lanes, int(end)) for part, end in zip(records, ends, strict=True)]


def _oldest(written: Array, records: list[Records]) -> Array:
    """The count of the oldest record that is still there, per lane."""
    places = np.concatenate([np.full(part.lanes, part.places) for part in records])
    oldest: Array = np.maximum(written - places, 0)
    return oldest


def _places(part: Records, first: Array, end: Array) -> tuple[Array, Array]:
    """(lane, place) of the records from `first` to `end` of every lane, one lane after another."""
    lengths = np.maximum(end - first, 0)
    lane = np.repeat(np.arange(part.lanes), lengths)
    return lane, np.concatenate([np.arange(n) + f for n, f in zip(lengths, first, strict=True)]) % part.places


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


def load(replay: ReplayBase, folder: Path, manifest: Manifest) -> None:
    """Fill the replay from verified segments."""
    own = replay.layout()
    for key in dict.fromkeys([*own, *manifest]):
        if key not in ("written", "segments") and manifest.get(key) != own.get(key):
            raise DamagedError(f"the saved replay has {key}={manifest.get(key)}, this run {own.get(key)}")
    records, written = replay.records(), np.asarray(manifest["written"], dtype=np.int64)
    oldest = _oldest(written, records)
    for segment in manifest["segments"]:
        tensors = load_file(folder / segment["file"])
        saved, end = np.asarray(segment["from"]), np.asarray(segment["to"])
        first = np.minimum(np.maximum(saved, oldest), end)
        for part, lanes in zip(records, _parts(records), strict=True):
            # Records overwritten since are left out, at the beginning of every lane's part of the file.
            starts = np.concatenate([[0], np.cumsum(end[lanes] - saved[lanes])[:-1]])
            spans = zip(first[lanes], end[lanes], starts, saved[lanes], strict=True)
            kept = np.concatenate([np.arange(f, e) + at - s for f, e, at, s in spans])
            part.write(*_places(part, first[lanes], end[lanes]), {name: tensors[name][kept] for name in part.names})
    replay.set_marks(written)


def files(manifest: Manifest | None) -> set[str]:
    return {s["file"] for s in manifest["segments"]} if manifest else set()


def delete_unlisted(folder: Path, manifests: list[Manifest]) -> None:
    """Remove segments that none of the kept checkpoints needs, and drafts of a save that was cut off."""
    listed = set().union(*map(files, manifests))
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in listed:
                path.unlink()
