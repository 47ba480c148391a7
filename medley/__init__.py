"""medley: one agent, many tasks. Multi-task reinforcement learning of the SAC family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import medley.envs as _envs  # noqa: F401  (registers medley/... with Gymnasium)

if TYPE_CHECKING:
    from medley.agents.api import register_agent
    from medley.config.plugins import add_config_dir
    from medley.envs.registry import register_env
    from medley.exporting.onnx_file import export
    from medley.python_api import Result, load, results, train

__version__ = "0.1.0"
__all__ = ["Result", "add_config_dir", "export", "load", "register_agent", "register_env", "results", "train"]

_HOMES = {
    "Result": "medley.python_api",
    "export": "medley.exporting.onnx_file",
    "load": "medley.python_api",
    "results": "medley.python_api",
    "train": "medley.python_api",
    "register_agent": "medley.agents.api",
    "register_env": "medley.envs.registry",
    "add_config_dir": "medley.config.plugins",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import medley` for its environments alone needs no PyTorch."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'medley' has no attribute {name!r}")
