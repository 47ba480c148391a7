"""Starts the seeds' commands from the folders they are given in."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPAT = ROOT / "compat"


def start(command: list[str], folder: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """With this checkout's medley, and this Python as `python3` of scripts."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHON": sys.executable}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=timeout)


def printed_words(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The words of the `medley train ...` line that a starter shows."""
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("medley train ")]
    return shlex.split(line)[2:]


def bare_python(folder: Path) -> str:
    """A virtual environment with nothing in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return str(folder / "bin" / "python")
