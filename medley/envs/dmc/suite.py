"""Importing dm_control, which looks at its surroundings once and for all when it is imported."""

from __future__ import annotations

import os
import types
from typing import Any

import numpy as np


def import_suite(gl: str | None) -> Any:
    """`dm_control.suite`, drawing with the backend `gl` (None: without any)."""
    before = {name: os.environ.get(name) for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    if gl is None:
        # Left to itself it would try every library there is, and some fail in ways that it does not expect.
        os.environ["MUJOCO_GL"] = "off"
    elif before["PYOPENGL_PLATFORM"] not in (None, gl):
        del os.environ["PYOPENGL_PLATFORM"]  # left over from another backend: both refuse to start with it
    try:
        from dm_control import suite
        from dm_control.suite import quadruped
    finally:
        if gl is None:
            _restore("MUJOCO_GL", before["MUJOCO_GL"])
    if not hasattr(np, "in1d"):
        # Quadrupeds use a function that NumPy has since renamed.
        vars(quadruped)["np"] = _numpy_with_in1d()
    return suite


def _restore(name: str, value: str | None) -> None:
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value


def _numpy_with_in1d() -> types.ModuleType:
    """For one module alone: other code may ask NumPy what it has."""
    patched = types.ModuleType("numpy")
    vars(patched).update(vars(np), in1d=np.isin)
    return patched
