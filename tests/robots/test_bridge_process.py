"""The simulated arm behind the bridge, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medley.envs.panda.config import DT
from tests.robots.bridge_arm import needs_panda, until
from tests.robots.test_loop import PANDA, experiment

STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    while STARTED:
        with STARTED.pop() as process:
            process.kill()


class Process:
    """`bridge_server.py --simulated`, as somebody would start it."""

    def __init__(self, rate: float, port: int = 0) -> None:
        words = [
            "-m",
            "medley.robots.bridge_server",
            "--simulated",
            "--rate",
            str(rate),
            "--listen",
            f"127.0.0.1:{port}",
        ]
        self.process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
        STARTED.append(self.process)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(20)


@contextlib.contextmanager
def simulated(rate: float, port: int = 0) -> Iterator[Process]:
    process = Process(rate, port)
    try:
        yield process
    finally:
        process.end()


def rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / "train.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


BRIDGE = [*PANDA, "env.arm=bridge", "experiment.update_when=during_step"]


@needs_panda
def test_training_over_the_bridge(tmp_path: Path) -> None:
    with simulated(rate=4.0) as server:
        x = experiment(tmp_path, BRIDGE, f"env.bridge_address=127.0.0.1:{server.port}", "experiment.num_train_steps=40")
        assert x.train() == "finished"
    assert (x.step, x.parts.learner.updates + x.missed) == (40, 2 * (40 - 7))
    assert all({"delay_p50_ms", "delay_p99_ms", "age_p95_ms", "overruns"} <= row.keys() for row in rows(tmp_path)[1:])


def train(folder: Path, port: int, *more: str) -> subprocess.Popen[str]:
    """A run of its own, at the speed of real time."""
    words = [
        *BRIDGE,
        "env.rate=1",
        "setup.id=bridge",
        f"setup.save_dir={folder}",
        f"env.bridge_address=127.0.0.1:{port}",
    ]
    command = [sys.executable, "-m", "medley", "train", *words, "logger.console=lines", *more]
    STARTED.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return STARTED[-1]


def where(folder: Path) -> Path:
    return next(iter(folder.rglob("train.log")), folder / "none").parent


def newest(folder: Path) -> int:
    """The step of the newest checkpoint."""
    return max(int(path.name) for path in (folder / "checkpoints").iterdir() if path.name.isdigit())


@needs_panda
@pytest.mark.long
def test_episodes_in_real_time(tmp_path: Path) -> None:
    with simulated(rate=1.0) as server:
        began = time.monotonic()
        run = train(tmp_path, server.port, "experiment.num_train_steps=100")
        said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert time.monotonic() - began > 100 * DT
    lines = rows(where(tmp_path))
    assert newest(where(tmp_path)) == 100
    assert np.median([row["delay_p50_ms"] for row in lines[1:]]) < 10
    assert sum(row.get("faults", 0) for row in lines) <= 2


def under_way(folder: Path, steps: int) -> tuple[Process, subprocess.Popen[str]]:
    """A server and a run that has learnt for a while."""
    server = Process(rate=1.0)
    run = train(folder, server.port, f"experiment.num_train_steps={steps}")
    until(lambda: len(rows(where(folder))) >= 2, 90)
    return server, run


@needs_panda
@pytest.mark.long
def test_killed_server_is_a_fault_and_the_run_goes_on(tmp_path: Path) -> None:
    server, run = under_way(tmp_path, 60)
    server.end(signal.SIGKILL)
    with simulated(rate=1.0, port=server.port):
        said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    lines = rows(where(tmp_path))
    assert newest(where(tmp_path)) == 60
    assert sum(row.get("faults", 0) for row in lines) >= 1


@needs_panda
@pytest.mark.long
def test_server_that_stays_away_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    server, run = under_way(tmp_path, 40)
    server.end(signal.SIGKILL)
    said, _ = run.communicate(timeout=120)
    assert run.returncode != 0
    assert "restarted 5 times in vain" in said
    assert "Traceback" not in said
    folder = where(tmp_path)
    assert 10 <= newest(folder) < 40
    with simulated(rate=1.0, port=server.port):
        again = [sys.executable, "-m", "medley", "resume", str(folder)]
        done = subprocess.run(again, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert newest(folder) == 40
