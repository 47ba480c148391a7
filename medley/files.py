"""Writing so that a crash at any instant leaves the old file or the new one; checked reading; the order of names."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from medley.errors import DamagedError


def sha256(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make sure a file, or a folder's list of names, is on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def seal(threads: Executor, files: Sequence[Path], others: Iterable[Path]) -> dict[str, str]:
    """Checksums of files by name, while they and others are brought to the disk: written together they take hardly
    longer than one."""
    synced = threads.map(sync, [*files, *others])
    digests = {path.name: sha256(path) for path in files}
    list(synced)
    return digests


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; moved over it once the block has written and left without an error."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        write_draft(temporary, value)


def write_draft(path: Path, value: Any, indent: int | None = 1) -> None:
    """JSON that somebody else brings safely to the disk; without indentation, long lists take a tenth of the time."""
    path.write_text(json.dumps(value, indent=indent, allow_nan=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as e:
        raise DamagedError(f"{path} is not readable JSON: {e}") from None


def by_number(name: str) -> list[str | int]:
    """An order in which seed_2 comes before seed_10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
