"""`medley doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "torch",
    "numpy",
    "gymnasium",
    "mujoco",
    "metaworld",
    "dm_control",
    "hydra-core",
    "safetensors",
    "tensorboard",
    "matplotlib",
)

EXTRAS = (
    ("wandb", "logger.use_wandb=true"),
    ("onnxruntime", "medley export: pip install 'medley[export]'"),
    ("optuna", "medley tune: pip install 'medley[tune]'"),
    ("stable_baselines3", "medley bench update installs it"),
)


def examine() -> int:
    """Prints one line per finding; returns 1 if training could not work."""
    broken = False

    def line(good: bool | None, what: str, remark: str = "") -> None:
        mark = {True: "ok  ", False: "BAD ", None: "note"}[good]
        print(f"{mark}  {what}{': ' + remark if remark else ''}")

    good = sys.version_info >= (3, 11)
    broken |= not good
    line(good, "Python", platform.python_version() + ("" if good else " (3.11 or newer is needed)"))
    for package in PACKAGES:
        try:
            line(True, package, version(package))
        except PackageNotFoundError:
            broken = True
            line(False, package, f"missing: pip install {package}")
    import torch

    line(True, "CPU", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads for learning")
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        line(True, "GPU", f"{torch.cuda.get_device_name()} with {memory:.0f} GiB")
    else:
        line(None, "GPU", "none found; training uses the CPU")
    from medley.envs import gl

    backend, renderer = gl.find_gl(), gl.find_renderer()
    if backend is None:
        line(None, "rendering", f"MuJoCo cannot draw. Videos and pixels need OpenGL: {gl.PACKAGES}")
    else:
        line(True, "rendering", f"MuJoCo draws with {backend} on {renderer}")
        if note := gl.software_note(renderer):
            line(None, "rendering", note)
    free = shutil.disk_usage(".").free / 2**30
    line(True if free > 2 else None, "disk", f"{free:.0f} GiB free here" + ("" if free > 2 else ": runs may not fit"))
    writable = os.access(".", os.W_OK)
    line(
        True if writable else None, "this folder", "can be written" if writable else "is read-only: set setup.base_path"
    )
    for extra, why in EXTRAS:
        there = importlib.util.find_spec(extra) is not None
        line(True if there else None, extra, "installed" if there else f"not installed ({why})")
    print("Something is missing." if broken else "Ready to train.")
    return int(broken)
