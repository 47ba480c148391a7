"""MuJoCo models of the tasks: as they are, and the same without what only pictures need.

A compiled model is about 20 MB, nearly all of it textures and visual meshes. Stepping needs neither, and every
slot has a model of its own (resets move bodies in it), so slots get the lean one. The physics is equal bit for
bit: bodies keep the inertia that was computed with the visual meshes, and all that collides or has a name stays.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from medley.errors import ConfigError, closest
from medley.native.compiling import cache_root

_log = logging.getLogger(__name__)
# What the package writes into every weld, the ties between the hand and the point that actions move.
_WELD = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 5.0)
_DIGEST = hashlib.sha256().digest_size
_FORMAT = 1  # of the cached models; count up when `_lean` changes


def _is_path(name: str) -> bool:
    """Is this a task's own file, and not the name of one of the package's?"""
    return name.endswith(".xml")


def _path(name: str) -> str:
    if _is_path(name):
        return name
    from metaworld.asset_path_utils import full_V3_path_for

    path: str = full_V3_path_for(f"sawyer_xyz/{name}.xml")
    if not Path(path).is_file():
        known = [file.stem for file in Path(path).parent.glob("*.xml")]
        raise ConfigError(f"Meta-World has no model {name!r}.{closest(name, known)}")
    return path


def _weld(model: Any) -> Any:
    for i in range(model.neq):
        if model.eq_type[i] == mujoco.mjtEq.mjEQ_WELD:
            model.eq_data[i] = _WELD
    return model


def full_model(name: str) -> Any:
    """The model with all that pictures need."""
    return _weld(mujoco.MjModel.from_xml_path(_path(name)))


def _bodies(body: Any) -> Iterator[Any]:
    yield body
    for child in body.bodies:
        yield from _bodies(child)


def _lean(name: str) -> Any:
    full = mujoco.MjModel.from_xml_path(_path(name))
    spec = mujoco.MjSpec.from_file(_path(name))
    for i, body in enumerate(_bodies(spec.worldbody)):
        if i:
            body.explicitinertial = True
            body.mass, body.ipos, body.iquat = full.body_mass[i], full.body_ipos[i], full.body_iquat[i]
            body.inertia, body.fullinertia = full.body_inertia[i], np.full(6, np.nan)
    meshes = set()
    for geom in list(spec.geoms):
        if geom.contype == 0 and geom.conaffinity == 0 and not geom.name:
            geom.delete()
        else:
            geom.material = ""
            meshes.add(geom.meshname)
    for site in spec.sites:
        site.material = ""
    for mesh in list(spec.meshes):
        if mesh.name not in meshes:
            mesh.delete()
    for unused in (*spec.textures, *spec.materials, *spec.skins):
        unused.delete()
    return spec.compile()


def model_folder() -> Path:
    """Where compiled models are kept between runs."""
    return cache_root() / f"metaworld-{version('metaworld')}-mujoco-{mujoco.__version__}-{_FORMAT}"


def _read(file: Path) -> Any:
    """A cached model: a checksum, then MuJoCo's binary format. None if there is none that can be trusted."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
        _log.warning("the cached model %s is damaged; building it again", file)
        return None
    return mujoco.MjModel.from_binary_path(file.name, {file.name: content[_DIGEST:]})


def _write(file: Path, model: Any) -> None:
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")  # jobs that start together share the folder
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        content = buffer.tobytes()
        temporary.write_bytes(hashlib.sha256(content).digest() + content)
        temporary.replace(file)
    except OSError as error:
        _log.debug("models are not cached: %s", error)


@cache
def lean_model(name: str) -> Any:
    """The model to step. Copy it before changing anything."""
    if _is_path(name):
        # Not kept between runs: the files that it includes, and their meshes, may change. A quarter of a second.
        return _weld(_lean(name))
    file = model_folder() / f"{name}.mjb"
    model = _read(file)
    if model is None:
        model = _lean(name)
        _write(file, model)
    return _weld(model)
