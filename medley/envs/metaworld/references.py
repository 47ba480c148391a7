"""Where things are in MuJoCo's memory: the references that tasks declare (tasks/base.py) as addresses."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from medley.envs.api import Array
from medley.envs.metaworld.tasks.shared import CONTACT_EFC, CONTACT_GEOM1, CONTACT_GEOM2, CONTACT_SIZE

_ARRAYS = {
    "body": "xpos",
    "geom": "geom_xpos",
    "site": "site_xpos",
    "body_mat": "xmat",
    "geom_mat": "geom_xmat",
    "site_mat": "site_xmat",
    "body_quat": "xquat",
}


@cache
def _library() -> Any:
    """MuJoCo's shared library, the one the bindings use."""
    folder = Path(mujoco.__file__).parent
    names = sorted(p for pattern in ("libmujoco*.so*", "libmujoco*.dylib", "mujoco.dll") for p in folder.glob(pattern))
    if not names:
        raise ImportError(f"no MuJoCo library in {folder}")
    return ctypes.CDLL(str(names[0]))


def function_address(name: str) -> int:
    address = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    assert address is not None
    return address


class References:
    """Turns the references that tasks declare into addresses."""

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = model, data

    def address(self, reference: str) -> int:
        kind, _, name = reference.partition(" ")
        if kind in _ARRAYS:
            element = getattr(self.model, kind.partition("_")[0])(name)
            return self._row(getattr(self.data, _ARRAYS[kind]), element.id)
        if kind in ("model_body", "model_site"):
            what = kind.removeprefix("model_")
            return self._row(getattr(self.model, f"{what}_pos"), getattr(self.model, what)(name).id)
        if kind == "joint":
            return self._row(self.data.qpos, self.model.joint(name).qposadr[0])
        if kind == "joint_vel":
            return self._row(self.data.qvel, self.model.joint(name).dofadr[0])
        if kind == "geom_id":
            return int(self.model.geom(name).id)
        if kind in ("qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat"):
            return self._row(getattr(self.data, kind), 0)
        if kind == "warnings":
            return int(self.data.warning.number.ctypes.data)
        if kind in _STRUCT:
            return int(self.data._address) + _struct_offsets()[kind]
        raise ValueError(f"unknown reference {reference!r}")

    @staticmethod
    def _row(array: Array, row: int) -> int:
        return int(array.ctypes.data) + int(row) * array.strides[0]


_STRUCT = ("contact_count", "contacts", "constraint_forces")
_TOUCHING = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 .09"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>"""


@cache
def _struct_offsets() -> dict[str, int]:
    """Where in the `MjData` struct the contacts are found, which move about in MuJoCo's arena from step to step.

    Found by looking for the addresses that the bindings give for a box on a floor; `contact_count` stands a known
    distance before `qpos` (mjdata.h), and is checked to count the contacts.
    """
    model = mujoco.MjModel.from_xml_string(_TOUCHING)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    words = np.ctypeslib.as_array(ctypes.cast(data._address, ctypes.POINTER(ctypes.c_uint64)), (24_000,))

    def places(array: Array) -> list[int]:
        return [8 * int(place) for place in np.flatnonzero(words == array.ctypes.data)]

    contacts = data.contact
    offsets = {
        "contact_count": places(data.qpos)[-1] - 72,
        "contacts": places(contacts.dist)[-1],
        "constraint_forces": places(data.efc_force)[0],
    }
    counts = np.ctypeslib.as_array(
        ctypes.cast(data._address + offsets["contact_count"], ctypes.POINTER(ctypes.c_int32)), (8,)
    )
    layout = [contacts.geom1, contacts.geom2, contacts.efc_address]
    found = [contacts.dist.strides[0], *(int(a.ctypes.data - contacts.dist.ctypes.data) for a in layout)]
    if (counts[0], counts[4]) != (data.ncon, data.nefc) or data.ncon == 0:
        raise ImportError(f"MuJoCo {mujoco.__version__} keeps its contacts where this simulator does not look")
    if found != [CONTACT_SIZE, CONTACT_GEOM1, CONTACT_GEOM2, CONTACT_EFC]:
        raise ImportError(f"MuJoCo {mujoco.__version__} has contacts of another layout: {found}")
    return offsets
