"""Pictures of a dm_control simulation: what a profile sets, one camera for many pictures, and what draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from medley.errors import ConfigError

# Read when the first picture is taken. Nearly all time goes into the shadow map (2048² in the suite) and into
# drawing each pixel four times; the rest into round shapes of more triangles than 84 pixels can show.
FAST = {"shadowsize": 256, "offsamples": 0, "numslices": 16, "numstacks": 8}


def set_quality(physics: Any, profile: str, size: int) -> None:
    """Before the first picture is taken."""
    if profile == "fast":
        for name, value in FAST.items():
            setattr(physics.model.vis.quality, name, value)
    buffer = physics.model.vis.global_
    buffer.offwidth, buffer.offheight = max(buffer.offwidth, size), max(buffer.offheight, size)


class Camera:
    """Takes pictures of one size; what it needs for them is made once."""

    def __init__(self, physics: Any, width: int, height: int, camera: int) -> None:
        from dm_control.mujoco import engine

        if camera >= physics.model.ncam:
            raise ConfigError(
                f"env.camera={camera} does not exist: the model has cameras 0 to {physics.model.ncam - 1}."
            )
        largest = physics.model.vis.global_
        if width > largest.offwidth or height > largest.offheight:
            raise ConfigError(
                f"a picture of {width}x{height} does not fit: the model draws up to {largest.offwidth}x"
                f"{largest.offheight}. A smaller experiment.video.size does."
            )
        self._camera = engine.Camera(physics, height, width, camera)

    def take(self) -> npt.NDArray[np.uint8]:
        """[height, width, 3], in memory that the next picture overwrites."""
        picture: npt.NDArray[np.uint8] = self._camera.render()
        return picture


def renderer_of(physics: Any) -> str:
    """What draws, in the driver's words. dm_control itself takes every EGL for a graphics card."""
    from OpenGL import GL

    with physics.contexts.gl.make_current() as context:
        name = context.call(GL.glGetString, GL.GL_RENDERER)
    return (name or b"").decode(errors="replace")
