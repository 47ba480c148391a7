"""The package's hand-written policies, one per task: they know where the goal is, and mostly reach it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from medley.envs.api import Array
from medley.errors import ConfigError


@cache
def script(task: str) -> Any:
    from metaworld.policies import ENV_POLICY_MAP

    if f"{task}-v3" not in ENV_POLICY_MAP:
        raise ConfigError(f"the metaworld package has no hand-written policy for {task!r}.")
    return ENV_POLICY_MAP[f"{task}-v3"]()


def act(tasks: Sequence[str], obs: Array) -> Array:
    """Actions for observations with visible goals, one per name in `tasks`; within ±1, which scripts exceed by far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each policy warns of its large actions
        moves = [script(task).get_action(row) for task, row in zip(tasks, obs, strict=True)]
    actions: Array = np.clip(moves, -1.0, 1.0).astype(np.float32)
    return actions
