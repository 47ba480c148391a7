"""Agents and envs from other packages: the entry point group `medley.plugins`.

An entry point names a function without arguments. It calls `register_agent` and `register_env`, and `add_config_dir`
for the folder with its `agent/*.yaml` and `env/*.yaml`.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from medley.errors import MedleyError

_loaded = False
_config_dirs: list[Path] = []


def add_config_dir(folder: str | Path) -> None:
    """Look for YAML files in `folder` too."""
    _config_dirs.append(Path(folder))


def config_dirs() -> list[Path]:
    return list(_config_dirs)


def load() -> None:
    """Register everything that exists, once."""
    global _loaded
    if _loaded:
        return
    import medley.agents
    import medley.envs  # noqa: F401

    for entry in importlib.metadata.entry_points(group="medley.plugins"):
        try:
            entry.load()()
        except Exception as e:
            raise MedleyError(f"the plugin {entry.name!r} ({entry.value}) could not be loaded: {e}") from e
    _loaded = True
