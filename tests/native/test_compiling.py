"""Compiled code is kept in one place, whoever compiles it."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medley.native import compiling


def test_threads_that_compile_at_once_keep_their_code_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba asks twice where to keep a function's code: whether there is such a place, then for its name. If another
    thread ends in between, the name is no longer that of a place and the code lands in the working folder."""
    home, elsewhere, at_work = tmp_path / "mine", tmp_path / "cache", tmp_path / "here"
    for folder in (home, elsewhere, at_work):
        folder.mkdir()
    (home / "small.py").write_text("def twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("small", home / "small.py")
    assert spec is not None
    assert spec.loader is not None
    small = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(small)
    monkeypatch.chdir(at_work)
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere))
    compiler = compiling.Compiler(home)
    compiler(small.twice)  # what reads the source once is done
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(lambda _: compiler(small.twice), range(400)))
    finally:
        sys.setswitchinterval(interval)
    (kept,) = {function._cache.cache_path for function in made}
    assert Path(kept).is_relative_to(elsewhere)
    assert made[0](21) == 42
    assert any(Path(kept).iterdir())
    assert not any(at_work.iterdir())
    assert not compiling._config.CACHE_DIR
