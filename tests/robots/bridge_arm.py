"""An arm that stands still, and a server for it, for the tests of the bridge."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medley.envs.panda.config import PandaConfig, limits_of
from medley.robots import bridge_server
from medley.robots.bridge_server import Guard, Sample, Server

CONFIG = PandaConfig(randinit=False, horizon=8)
LIMITS = limits_of(CONFIG)
START = np.array(CONFIG.start)
LEFT = np.array([0.0, -1.0, 0.0])
FILE = Path(bridge_server.__file__)
needs_panda = pytest.mark.skipif(importlib.util.find_spec("gym_hil") is None, reason="needs gym-hil")


class Still:
    """An arm that is wherever it is told to be, and remembers what it was told."""

    def __init__(self, pace: float = 0.01) -> None:
        self.pace = pace
        self.position = START.copy()
        self.moves: list[Any] = []
        self.seq = self.holds = self.restarts = 0
        self.fault, self.error, self.delay, self.frozen = "", "", 0.0, False

    def sample(self) -> Sample:
        time.sleep(self.delay)
        if self.error:
            raise RuntimeError(self.error)
        if not self.frozen:
            self.seq, self.t = self.seq + 1, bridge_server.time.monotonic()
        return Sample(self.position, self.t, self.seq)

    def trouble(self) -> str:
        return self.fault

    def place(self, position: Any) -> None:
        self.moves.clear()
        self.position = np.array(position)

    def move(self, target: Any) -> None:
        self.moves.append(np.array(target))
        self.position = np.array(target)

    def hold(self) -> None:
        self.holds += 1

    def restart(self) -> None:
        self.restarts += 1
        self.fault = ""

    def close(self) -> None: ...


def guard(dt: float = 0.1) -> Guard:
    return Guard(CONFIG.box_low, CONFIG.box_high, LIMITS.step, dt, LIMITS.lead)


@contextlib.contextmanager
def serving(backend: Any, address: tuple[str, int] = ("127.0.0.1", 0), silence: float = 5.0) -> Iterator[Server]:
    done = threading.Event()
    server = Server(backend, guard(), 250.0, address, silence)
    thread = threading.Thread(target=server.serve, args=(done.is_set,))
    thread.start()
    try:
        yield server
    finally:
        done.set()
        thread.join(5)
        assert not thread.is_alive()


def until(ready: Callable[[], Any], seconds: float = 5.0) -> None:
    give_up = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < give_up, "it never happened"
        time.sleep(0.002)
