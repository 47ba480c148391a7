"""How this machine draws: which OpenGL backend MuJoCo can use, and whether a graphics card or a program draws."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from functools import cache

PACKAGES = "on Debian or Ubuntu `apt-get install libegl1 libgl1-mesa-dri`, or `apt-get install libosmesa6`."
HOW_TO_GET_VIDEOS = f"Videos need OpenGL: {PACKAGES}"

# Draws a ball and checks that something was drawn: a context alone is no proof that pictures are not black.
# Says what draws, since a working EGL does not mean that there is a graphics card behind it.
_PROBE = """
import sys, mujoco
ball = "<geom size='.1' rgba='1 .5 .5 1'/>"
model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{ball}</worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 32, 32)
renderer.update_scene(data)
drawn = bool(renderer.render().any())
from OpenGL import GL
print((GL.glGetString(GL.GL_RENDERER) or b"").decode())
renderer.close()
sys.exit(0 if drawn else 3)
"""


def find_gl() -> str | None:
    """The backend with which MuJoCo draws on this machine (`egl`, `osmesa`, `glfw`), or None.

    A `MUJOCO_GL` that is already set is the only one tried. Each try is a process of its own, for a broken
    driver may abort the one that loads it; the answers are kept, and MuJoCo is not imported here.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    for backend in [asked] if asked else ["egl", "osmesa", "glfw"]:
        if _probe(backend) is not None:
            return backend
    return None


def how_to_draw() -> str:
    """For somebody who wants to learn from pixels where nothing draws."""
    asked = os.environ.get("MUJOCO_GL")
    said = f" MUJOCO_GL={asked} is set, so nothing else was tried." if asked else ""
    return f"Learning from pixels needs OpenGL: {PACKAGES}{said}"


def find_renderer() -> str:
    """What draws, in the driver's own words; empty where nothing does."""
    found = find_gl()
    return (_probe(found) or "") if found else ""


def prepare_gl() -> str | None:
    """Set `MUJOCO_GL` to what works, if it is unset; best called before anything imports `mujoco`.

    MuJoCo chooses its backend once, when it is imported. Where that has happened, its choice is replaced.
    """
    found = find_gl()
    if found and os.environ.get("PYOPENGL_PLATFORM", found) != found:
        del os.environ["PYOPENGL_PLATFORM"]  # left over from another backend: MuJoCo refuses to start with it
    if found and not os.environ.get("MUJOCO_GL"):
        os.environ["MUJOCO_GL"] = found
        chosen = sys.modules.get("mujoco.gl_context")
        if chosen is not None:
            vars(chosen)["GLContext"] = importlib.import_module(f"mujoco.{found}").GLContext
    return found


def is_software(renderer: str) -> bool:
    """Mesa's programs that draw on the CPU."""
    return re.search("llvmpipe|softpipe|swrast", renderer, re.IGNORECASE) is not None


def software_note(renderer: str, fast: bool = False) -> str | None:
    """What to tell who is about to draw much with a program, unless `fast` is how it is done already."""
    if not is_software(renderer):
        return None
    hint = "" if fast else " env.render_profile=fast draws several times as many."
    return (
        f"Pictures are drawn by the CPU ({renderer}).{hint} Where there is an NVIDIA card, install its driver's EGL "
        "library (Debian or Ubuntu: libnvidia-gl-<version of the driver>)."
    )


@cache
def _probe(backend: str) -> str | None:
    """What draws with this backend, or None if nothing does."""
    settings = {**os.environ, "MUJOCO_GL": backend}
    # A PyOpenGL platform left over from another backend makes MuJoCo refuse to start.
    settings.pop("PYOPENGL_PLATFORM", None)
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE], env=settings, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or b"").decode(errors="replace").strip() if done.returncode == 0 else None
