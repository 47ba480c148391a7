"""Carries out launched runs as processes of their own: in the launcher itself, in a job of Slurm, in a task of Ray.

A run that fails is started again from its checkpoint, a few times; one that is asked to stop saves itself first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from medley.scale.folder import STOPPED, is_finished, last_error, note, noted
from medley.training.run import Run

LOOK = 0.2  # seconds between two looks at a run that somebody else has begun


def _deaf() -> None:
    """Slurm's warning goes to every process of a job; it is meant for the one that asks runs to save themselves."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _complete(folder: Path) -> None:
    """The report, where a run was interrupted between its last step and that."""
    if not (folder / "report.html").exists() and Run(folder).config().experiment.save_report:
        subprocess.run([sys.executable, "-m", "medley", "report", str(folder)], stdout=subprocess.DEVNULL, check=False)


class Worker:
    """Runs side by side, until all of them are finished, have failed too often, or are asked to stop."""

    def __init__(self, folders: Sequence[Path], retries: int, engine: str) -> None:
        self.folders, self.retries, self.engine = list(folders), retries, engine
        self._stopping = False
        self._children: dict[Path, subprocess.Popen[bytes]] = {}

    def __call__(self) -> dict[str, str]:
        """What became of each folder: finished, stopped or failed."""
        ends: dict[str, str] = {}
        threads = [threading.Thread(target=self._see_to, args=(f, ends), daemon=True) for f in self.folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # so that signals are heard
        return ends

    def stop(self, wait: float | None = None) -> None:
        """Ask all runs to save themselves and end."""
        self._stopping = True
        for child in list(self._children.values()):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        until = None if wait is None else time.monotonic() + wait
        for child in list(self._children.values()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(None if until is None else max(0.0, until - time.monotonic()))

    def _see_to(self, folder: Path, ends: dict[str, str]) -> None:
        try:
            self._carry_out(folder, ends)
        except Exception as e:  # a full disk, say: this is the end of a thread, and nobody else would hear of it
            ends[str(folder)] = "failed"
            print(f"{folder}: {e}", file=sys.stderr, flush=True)
            with contextlib.suppress(OSError):
                note(folder, error=str(e))

    def _carry_out(self, folder: Path, ends: dict[str, str]) -> None:
        while Run(folder).is_busy() and not self._stopping:  # a launcher was killed, and its runs went on
            time.sleep(LOOK)
        while True:
            if is_finished(folder):
                if not self._stopping:
                    _complete(folder)
                ends[str(folder)] = "finished"
                return
            if self._stopping:
                ends[str(folder)] = "stopped"
                return
            code = self._run(folder)
            if is_finished(folder):
                continue
            if code in (STOPPED, -signal.SIGTERM):  # asked by us, or by whoever owns the machine
                ends[str(folder)] = "stopped"
                return
            failures = int(noted(folder).get("failures", 0)) + 1
            note(folder, failures=failures, error=last_error(folder))
            if failures > self.retries:
                ends[str(folder)] = "failed"
                return

    def _run(self, folder: Path) -> int:
        with (folder / "stdout").open("ab") as out, (folder / "stderr").open("ab") as err:
            child = subprocess.Popen(
                ["bash", str(folder / "run.sh")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,  # a killed launcher does not take its runs along
                preexec_fn=_deaf,
            )
        self._children[folder] = child
        try:
            note(folder, engine=self.engine, pid=child.pid, host=os.uname().nodename)
            if self.engine == "local":
                note(folder, id=child.pid)
        except OSError:  # it is not to go on with nobody looking after it
            child.terminate()
            child.wait()
            raise
        if self._stopping:
            child.terminate()
        return child.wait()

    def __getstate__(self) -> dict[str, object]:
        return {"folders": self.folders, "retries": self.retries, "engine": self.engine}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]
