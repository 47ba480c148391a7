"""One Meta-World simulation as plain arrays, and back, bit for bit.

The package keeps an episode in three places: MuJoCo's integration state, fields of the *model* that a reset
moves (`body_pos`, `site_pos`, ...), and attributes of the env object. The last two are saved as differences
from the env as it was built, so that nothing task-specific needs to be listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from medley.envs.api import Array

_INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION
# Families of model arrays a task may move. The rest (meshes, textures) is 20 MB that no task touches.
_MODEL_FAMILIES = ("body_", "jnt_", "dof_", "geom_", "site_", "eq_", "actuator_", "qpos")
# Arrays of the simulation that the env's attributes may be live views of.
_VIEWED = {
    "data": ("xpos", "xipos", "geom_xpos", "site_xpos", "mocap_pos", "mocap_quat", "qpos", "qvel"),
    "model": ("body_pos", "site_pos", "geom_pos"),
}
_SCALARS = (bool, int, float, np.bool_, np.integer, np.floating)


def _kind(value: Any) -> str | None:
    """How an attribute is saved; None for what never changes (spaces, names, the model itself)."""
    if value is None:
        return "none"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return "array"
    if isinstance(value, _SCALARS):
        return "scalar"
    if isinstance(value, list) and all(isinstance(item, _SCALARS) for item in value):
        return "list"
    return None


class Snapshot:
    """What `env` was when it was built, and how it differs from that now."""

    def __init__(self, env: Any) -> None:
        self._env = env
        fields = (name for name in dir(env.model) if name.startswith(_MODEL_FAMILIES))
        arrays = {name: getattr(env.model, name) for name in fields}
        self._model = {name: array.copy() for name, array in arrays.items() if isinstance(array, np.ndarray)}
        self._viewed = list(self._viewable())
        self._attributes = {
            name: value.copy() if _kind(value) == "array" and self._view(value) is None else value
            for name, value in vars(env).items()
            if _kind(value) is not None
        }
        self._physics = self._integration_state()

    def restore(self) -> None:
        """Back to the env as it was built."""
        env = self._env
        mujoco.mj_resetData(env.model, env.data)  # also clears the warnings of an unstable episode
        for name, array in self._model.items():
            getattr(env.model, name)[...] = array
        for name in [name for name, value in vars(env).items() if _kind(value) and name not in self._attributes]:
            delattr(env, name)
        for name, value in self._attributes.items():
            fresh = value.copy() if _kind(value) == "array" and self._view(value) is None else value
            setattr(env, name, fresh)
        self._set_integration_state(self._physics)

    def save(self) -> dict[str, Array]:
        """The env now, as arrays."""
        env = self._env
        saved = {"physics": self._integration_state()}
        for name, array in self._model.items():
            now = getattr(env.model, name)
            if not np.array_equal(now, array):
                saved[f"model.{name}"] = now.copy()
        for name, value in vars(env).items():
            kind = _kind(value)
            if kind is None or self._unchanged(name, value):
                continue
            view = self._view(value) if kind == "array" else None
            if view is not None:
                saved[f"view.{view[0]}.{name}"] = np.array(view[1:], dtype=np.int64)
            elif kind == "none":
                saved[f"none.{name}"] = np.zeros(1, dtype=np.bool_)
            else:
                saved[f"{kind}.{name}"] = np.atleast_1d(np.array(value))
        return saved

    def load(self, saved: dict[str, Array]) -> None:
        """Continue exactly where `save` was called."""
        self.restore()
        env = self._env
        for key, value in saved.items():
            kind, _, name = key.partition(".")
            if kind == "model":
                getattr(env.model, name)[...] = value
            elif kind == "view":
                owner, field, name = name.split(".")
                flat = getattr(getattr(env, owner), field).reshape(-1)
                setattr(env, name, flat[int(value[0]) : int(value[1])])
            elif kind == "array":
                setattr(env, name, value.copy())
            elif kind == "scalar":
                # A NumPy float divides by zero the way the package's own numbers do.
                setattr(env, name, np.float64(value[0]) if value.dtype.kind == "f" else value[0].item())
            elif kind == "list":
                setattr(env, name, [np.float64(item) for item in value])
            elif kind == "none":
                setattr(env, name, None)
        self._set_integration_state(saved["physics"])

    def _integration_state(self) -> Array:
        env = self._env
        state = np.empty(mujoco.mj_stateSize(env.model, _INTEGRATION))
        mujoco.mj_getState(env.model, env.data, state, _INTEGRATION)
        return state

    def _set_integration_state(self, state: Array) -> None:
        env = self._env
        mujoco.mj_setState(env.model, env.data, state, _INTEGRATION)
        mujoco.mj_forward(env.model, env.data)  # positions that the views show
        # Again, because that moved the solver's warm start.
        mujoco.mj_setState(env.model, env.data, state, _INTEGRATION)

    def _viewable(self) -> Iterator[tuple[str, int, int]]:
        for owner, fields in _VIEWED.items():
            for field in fields:
                array = getattr(getattr(self._env, owner), field)
                start = array.__array_interface__["data"][0]
                yield f"{owner}.{field}", start, start + array.nbytes

    def _view(self, value: Array) -> tuple[str, int, int] | None:
        """(`data.xpos`, first, last) if `value` is a live view of the simulation."""
        if value.base is None or value.dtype != np.float64:
            return None
        address = value.__array_interface__["data"][0]
        for name, start, end in self._viewed:
            if start <= address < end:
                first = (address - start) // value.itemsize
                return name, first, first + value.size
        return None

    def _unchanged(self, name: str, value: Any) -> bool:
        if name not in self._attributes:
            return False
        before = self._attributes[name]
        if isinstance(value, np.ndarray) and isinstance(before, np.ndarray):
            view = self._view(value)
            return view == self._view(before) and (view is not None or np.array_equal(value, before))
        return type(value) is type(before) and bool(value == before)
