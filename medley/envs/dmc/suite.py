"""Importing dm_control, which looks at its surroundings once and for all when it is imported."""

from __future__ import annotations

import os
import types
from typing import Any

import numpy as np


def import_suite(gl: str | None) -> Any:
    """`dm_control.suite`, drawing with the backend `gl` (None: without any)."""
    before = os.environ.get("MUJOCO_GL")
    # Left to itself it would try every library there is, and some fail in ways that it does not expect.
    os.environ["MUJOCO_GL"] = gl or "off"
    try:
        from dm_control import _render, suite
        from dm_control.suite import quadruped
    finally:
        if before is None:
            del os.environ["MUJOCO_GL"]
        else:
            os.environ["MUJOCO_GL"] = before
    if gl is not None and gl != _render.BACKEND:
        # Somebody imported it before, and it chose by itself.
        vars(_render).update(Renderer=getattr(_render, f"_import_{gl}")(), BACKEND=gl)
    if not hasattr(np, "in1d"):
        # Quadrupeds use a function that NumPy has since renamed.
        vars(quadruped)["np"] = _numpy_with_in1d()
    return suite


def _numpy_with_in1d() -> types.ModuleType:
    """For one module alone: other code may ask NumPy what it has."""
    patched = types.ModuleType("numpy")
    vars(patched).update(vars(np), in1d=np.isin)
    return patched
