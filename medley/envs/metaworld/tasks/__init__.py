"""The fifty tasks, by family."""

from __future__ import annotations

import importlib
import pkgutil

from medley.envs.metaworld.tasks.base import TASKS, Task

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["TASKS", "Task"]
