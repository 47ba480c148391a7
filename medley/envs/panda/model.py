"""The MuJoCo model of the arm: a Franka Panda with a Robotiq 2F-85 gripper, from files of the `gym-hil` package.

Only its files are used. Importing the package would load a viewer and the drivers of game controllers.

The controller is part of the model, so that MuJoCo runs it at every physics step: six actuators that pull the tool
towards a pose, one per axis, τ = Jᵀ(K·e − D·v), gravity made up for, within the joints' torques. The gripper does
not move here: it is rigid, which leaves seven joints.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from medley.errors import ConfigError

PHYSICS_DT = 0.002
DAMPING = 37.0  # N·s/m
TURNING_STIFFNESS, TURNING_DAMPING = 15.0, 2.0  # N·m/rad, N·m·s/rad
TORQUES = {f"joint{i}": 87.0 if i <= 4 else 12.0 for i in range(1, 8)}  # N·m
TCP = "pinch"
DOWN = (0.0, 1.0, 0.0, 0.0)  # quaternion of a tool that points at the floor: half a turn about x
HOME = (0.0, 0.195, 0.0, -2.43, 0.0, 2.62, 0.785)  # joints of a pose with the tool down, for a start


def model_file() -> Path:
    spec = importlib.util.find_spec("gym_hil")  # finds the package without importing it
    folders = [] if spec is None else [Path(f) for f in spec.submodule_search_locations or []]
    for folder in folders:
        if (path := folder / "assets" / "panda.xml").is_file():
            return path
    raise ConfigError(
        "the Panda arm needs the model in gym-hil: pip install --no-deps gym-hil==0.1.13 (only its files are used, so "
        "none of the packages it asks for are needed)."
    )


@cache
def physics_model(stiffness: float) -> Any:
    """Joints, masses and the controller, and nothing to be seen or touched: nothing is in reach of the box."""
    drawn, spec = picture_model(), _rigid()
    for body in spec.bodies[1:]:  # some masses follow from the shapes that are left out
        i = drawn.body(body.name).id
        body.explicitinertial, body.gravcomp = True, 1.0
        body.mass, body.ipos, body.iquat = drawn.body_mass[i], drawn.body_ipos[i], drawn.body_iquat[i]
        body.inertia, body.fullinertia = drawn.body_inertia[i], [np.nan] * 6
    for group in (spec.geoms, spec.meshes, spec.materials, spec.cameras):
        for item in list(group):
            item.delete()
    spec.option.timestep = PHYSICS_DT
    for joint in spec.joints:
        limit = TORQUES[joint.name]
        joint.actfrclimited, joint.actgravcomp, joint.actfrcrange = True, True, [-limit, limit]
    spec.worldbody.add_site(name="base", quat=DOWN)
    for axis in range(6):
        _add_pull(spec, axis, *((stiffness, DAMPING) if axis < 3 else (TURNING_STIFFNESS, TURNING_DAMPING)))
    return spec.compile()


@cache
def picture_model() -> Any:
    """The same arm with its shapes, on a floor."""
    spec = _rigid()
    spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[2, 2, 0.01], rgba=[0.82, 0.83, 0.85, 1]
    )
    spec.worldbody.add_light(pos=[0.5, -0.5, 2.5], dir=[0, 0.2, -1])
    return spec.compile()


def _rigid() -> Any:
    """The arm as it is in the file, with a gripper that cannot move."""
    spec = mujoco.MjSpec.from_file(str(model_file()))
    for group in (spec.actuators, spec.equalities, spec.tendons, spec.sensors, spec.excludes):
        for item in list(group):
            item.delete()
    for joint in list(spec.joints):
        if joint.name not in TORQUES:
            joint.delete()
    return spec


def _add_pull(spec: Any, axis: int, stiffness: float, damping: float) -> None:
    """Force or torque of the tool along one axis of the frame `base`, towards ctrl[axis] and against motion."""
    actuator = spec.add_actuator(
        name=f"pull{axis}",
        trntype=mujoco.mjtTrn.mjTRN_SITE,
        target=TCP,
        refsite="base",
        gear=np.eye(6)[axis],
        gaintype=mujoco.mjtGain.mjGAIN_FIXED,
        biastype=mujoco.mjtBias.mjBIAS_AFFINE,
    )
    actuator.gainprm[0] = stiffness
    actuator.biasprm[1], actuator.biasprm[2] = -stiffness, -damping
