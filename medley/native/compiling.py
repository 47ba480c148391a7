"""Numba with a cache of our own on disk."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import types

_config: Any = numba.config
_KEPT = 4  # versions of compiled code
_SHARED = Path(__file__).resolve().parent
_WHAT = {"metaworld": "simulator", "native": "updates"}
_log = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()  # Numba's setting is one for all threads, and evaluations compile beside updates


def cache_root() -> Path:
    """Where medley keeps what it can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "medley"


@cache
def _code_folder(home: Path, depends_on: str) -> str | None:
    """Where the compiled code of this version of the source below `home` is kept. Numba looks only at the file that a
    function stands in, so a change of what it calls elsewhere would go unnoticed. None if nothing can be written."""
    digest = hashlib.sha256(f"{numba.__version__} {depends_on}".encode())
    for file in (*sorted(home.rglob("*.py")), *sorted(_SHARED.glob("*.py"))):
        digest.update(file.read_bytes())
    root = Path(_config.CACHE_DIR) if _config.CACHE_DIR else cache_root()
    folder = root / f"{home.name}-code-{digest.hexdigest()[:16]}"
    if not folder.exists():
        what = _WHAT.get(home.name, home.name)
        _log.warning("First use on this machine: the %s will be compiled, which takes up to half a minute.", what)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    versions = sorted(root.glob(f"{home.name}-code-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for outdated in [path for path in versions if path != folder][_KEPT - 1 :]:
        shutil.rmtree(outdated, ignore_errors=True)
    return str(folder)


class Compiler:
    """Compiles what stands below `home`, without the interpreter lock; division by zero gives inf or nan, as NumPy's
    numbers do. `depends_on`: versions of other libraries whose constants are compiled in.

    Functions from elsewhere are compiled in every run: nothing watches the files that they are made of. Other packages'
    compiled code stays where they keep it.
    """

    def __init__(self, home: Path, depends_on: str = "") -> None:
        self.home, self.depends_on = home.resolve(), depends_on

    def __call__(self, function: Any, signature: Any = None, **options: Any) -> Any:
        with _one_at_a_time:
            before, folder = _config.CACHE_DIR, _code_folder(self.home, self.depends_on)
            keep = folder is not None and self.home in Path(function.__code__.co_filename).resolve().parents
            _config.CACHE_DIR = folder or before
            try:
                made = numba.njit(error_model="numpy", cache=keep, nogil=True, **options)(function)
            finally:
                _config.CACHE_DIR = before
        if signature is not None:
            made.compile(signature)
            made.disable_compile()
        return made

    def c_function(self, function: Any, *arguments: Any, result: Any = types.void) -> int:
        """The address of `function`, compiled for C callers: `result f(arguments...)`; records go by their address."""
        signature = result(*arguments)
        made: Any = self(function, signature).overloads[signature.args]
        address: int = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
        return address
