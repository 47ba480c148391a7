"""What a run was made with: versions, hardware, commit, memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import medley


def describe_machine() -> dict[str, Any]:
    """Versions and hardware, so that a result can be placed later."""
    versions = {
        "python": platform.python_version(),
        "medley": medley.__version__,
    }  # ours also where it is not installed
    for package in ("torch", "numpy", "gymnasium", "metaworld", "mujoco"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": versions,
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "gpu": gpu},
        "commit": _commit(),
        "command": " ".join(["medley" if "medley" in sys.argv[0] else Path(sys.argv[0]).name, *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    }


def peak_memory(device: torch.device) -> dict[str, float]:
    """The most this process has held so far, in GB, in main memory and on the GPU."""
    import resource

    unit = 1e9 if sys.platform == "darwin" else 1e6  # ru_maxrss is in bytes there, in kilobytes elsewhere
    peak = {"peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 3)}
    if device.type == "cuda":
        peak["peak_gpu_memory_gb"] = round(torch.cuda.max_memory_reserved(device) / 1e9, 3)
    return peak


def _commit() -> str | None:
    """The commit of medley's own source, where it is run from a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
