"""What medley is measured against: installed on first use, with what is there already left as it is."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.metadata import version
from typing import Any

from medley.errors import MedleyError

PEERS = {"stable_baselines3": "stable-baselines3==2.9.2", "sbx": "sbx-rl==0.28.0"}


def peer_package(name: str) -> Any:
    """The module, installed if need be."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    print(f"installing {PEERS[name]} for the comparison", flush=True)
    pins = [f"{package}=={version(package).partition('+')[0]}" for package in ("torch", "numpy", "gymnasium")]
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", PEERS[name], *pins]).returncode:
        raise MedleyError(f"{PEERS[name]} could not be installed: pip install 'medley[bench]'")
    importlib.invalidate_caches()
    return importlib.import_module(name)
