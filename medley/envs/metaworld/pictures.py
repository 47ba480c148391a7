"""Pictures of slots. Slots are stepped without textures and visual meshes; what is drawn is the package's full model,
put into the slot's pose."""

from __future__ import annotations

import weakref
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from medley.envs.metaworld.config import check_camera
from medley.envs.metaworld.models import full_model
from medley.envs.metaworld.simulator import Simulator


class Painter:
    def __init__(self, simulator: Simulator, camera: str) -> None:
        self.simulator, self.camera = simulator, camera
        self._scenes: dict[str, tuple[Any, Any]] = {}
        self._renderers: dict[tuple[str, int, int], Any] = {}
        # Also when Python ends: a renderer that is left to itself then complains that OpenGL has gone.
        weakref.finalize(self, _close, self._renderers)

    def paint(self, slot: int, width: int, height: int, camera: str | None = None) -> npt.NDArray[np.uint8]:
        """[height, width, 3]."""
        camera = camera or self.camera
        check_camera(camera)
        name = self.simulator.tasks[slot // self.simulator.slots_per_task].model
        if name not in self._scenes:
            drawn = full_model(name)
            self._scenes[name] = drawn, mujoco.MjData(drawn)
        model, data = self._scenes[name]
        if (name, width, height) not in self._renderers:
            self._renderers[name, width, height] = mujoco.Renderer(model, height, width)
        renderer = self._renderers[name, width, height]
        # Both models have the same bodies, joints and sites; where a reset put them is the slot's own.
        stepped, state = self.simulator.models[slot], self.simulator.datas[slot]
        model.body_pos[:], model.site_pos[:] = stepped.body_pos, stepped.site_pos
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = state.qpos, state.mocap_pos, state.mocap_quat
        mujoco.mj_forward(model, data)
        view = mujoco.MjvCamera()
        view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        view.fixedcamid = model.camera(camera).id
        renderer.update_scene(data, view)
        picture: npt.NDArray[np.uint8] = renderer.render()
        if camera.startswith("corner"):  # the package's corner cameras hang upside down
            picture = np.ascontiguousarray(picture[::-1, ::-1])
        return picture

    def close(self) -> None:
        _close(self._renderers)
        self._scenes.clear()


def _close(renderers: dict[tuple[str, int, int], Any]) -> None:
    for renderer in renderers.values():
        renderer.close()
    renderers.clear()
