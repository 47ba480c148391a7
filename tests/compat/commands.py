"""Starts the seeds' commands from the folders they are given in."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPAT = ROOT / "compat"


def start(command: list[str], folder: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """With this checkout's medley, and this Python as `python3` of scripts."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHON": sys.executable}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=timeout)


def start_forked(script: Path, words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    """`python SCRIPT WORDS` in a fork of this process, which has imported everything already."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os._exit(_as_a_script(script, words, folder, out.fileno(), err.fileno()))
        _, status = os.waitpid(child, 0)
        said = [(file.seek(0), file.read())[1] for file in (out, err)]
    return subprocess.CompletedProcess([str(script), *words], os.waitstatus_to_exitcode(status), *said)


def _as_a_script(script: Path, words: tuple[str, ...], folder: Path, out: int, err: int) -> int:
    os.dup2(out, 1)
    os.dup2(err, 2)
    with os.fdopen(1, "w", closefd=False) as sys.stdout, os.fdopen(2, "w", closefd=False) as sys.stderr:
        os.chdir(folder)
        sys.argv = [str(script), *words]
        sys.path.insert(0, str(script.parent))
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            return 1
    return 0


def printed_words(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The words of the `medley train ...` line that a starter shows."""
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("medley train ")]
    return shlex.split(line)[2:]


def bare_python(folder: Path) -> str:
    """A virtual environment with nothing in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return str(folder / "bin" / "python")
