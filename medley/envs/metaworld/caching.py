"""What is kept between runs: models without pictures, and compiled code."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numba

_config: Any = numba.config
_KEPT = 4  # versions of compiled code
_HERE = Path(__file__).resolve().parent


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "medley"


@cache
def _code_folder() -> str | None:
    """A folder for this version of the source. Numba looks only at the file a function stands in, so a change of what
    it calls elsewhere would go unnoticed. None if nothing can be written."""
    digest = hashlib.sha256(f"{numba.__version__} {mujoco.__version__}".encode())
    for file in sorted(_HERE.rglob("*.py")):
        digest.update(file.read_bytes())
    root = Path(_config.CACHE_DIR) if _config.CACHE_DIR else cache_root()
    folder = root / f"metaworld-code-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    versions = sorted(root.glob("metaworld-code-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for outdated in [path for path in versions if path != folder][_KEPT - 1 :]:
        shutil.rmtree(outdated, ignore_errors=True)
    return str(folder)


def compile_cached(function: Any, signature: Any = None) -> Any:
    """Numba's njit, with its cache in our folder; other packages' code stays where they keep it. Division by zero
    gives inf or nan, as NumPy's numbers do. Tasks that are defined elsewhere are compiled in every run: nothing
    watches the files that they are made of."""
    before, folder = _config.CACHE_DIR, _code_folder()
    ours = _HERE in Path(function.__code__.co_filename).resolve().parents
    _config.CACHE_DIR = folder or before
    try:
        keep = ours and folder is not None
        return numba.njit(signature, error_model="numpy", cache=keep, nogil=True)(function)
    finally:
        _config.CACHE_DIR = before
