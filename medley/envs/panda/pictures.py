"""Pictures of an arm and of the places that it may go to."""

from __future__ import annotations

import weakref
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array
from medley.envs.panda.model import picture_model

_WANTED, _OTHER = (0.2, 0.7, 0.3, 0.6), (0.5, 0.5, 0.6, 0.4)


class Painter:
    """Draws the full model, which is not stepped, in the pose of an arm."""

    def __init__(self, goals: Array, radius: float) -> None:
        self._goals, self._radius = goals, radius
        self._model = picture_model()
        self._data = mujoco.MjData(self._model)
        self._renderers: dict[tuple[int, int], Any] = {}
        weakref.finalize(self, _close, self._renderers)  # also when Python ends, while OpenGL is still there
        self._view = mujoco.MjvCamera()
        self._view.lookat[:] = 0.4, 0.0, 0.35
        self._view.distance, self._view.azimuth, self._view.elevation = 1.5, 140.0, -20.0

    def paint(self, joints: Array, wanted: int, width: int, height: int) -> npt.NDArray[np.uint8]:
        """[height, width, 3]; the goal `wanted` in green."""
        if (width, height) not in self._renderers:
            self._renderers[width, height] = mujoco.Renderer(self._model, height, width)
        renderer = self._renderers[width, height]
        self._data.qpos[:] = joints
        mujoco.mj_forward(self._model, self._data)
        renderer.update_scene(self._data, self._view)
        for i, goal in enumerate(self._goals):
            self._add_ball(renderer.scene, goal, _WANTED if i == wanted else _OTHER)
        picture: npt.NDArray[np.uint8] = renderer.render()
        return picture

    def _add_ball(self, scene: Any, place: Array, colour: tuple[float, ...]) -> None:
        ball, shape, turn = scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_SPHERE, np.eye(3).ravel()
        mujoco.mjv_initGeom(ball, shape, np.full(3, self._radius), place, turn, np.array(colour, dtype=np.float32))
        scene.ngeom += 1

    def close(self) -> None:
        _close(self._renderers)


def _close(renderers: dict[tuple[int, int], Any]) -> None:
    for renderer in renderers.values():
        renderer.close()
    renderers.clear()
