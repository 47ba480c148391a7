"""Threads that live in compiled code: Python threads that enter it once and stay there, without the interpreter lock,
asleep on a semaphore between calls, until they are sent home."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_SEMAPHORE_BYTES = 64  # sem_t is 32 on 64-bit Linux


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)


def c_address(name: str) -> int:
    """Where a function of the C library is."""
    return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0


def aligned(count: int, kind: Any) -> Array:
    """Zeros that begin on a cache line."""
    size = np.dtype(kind).itemsize
    room = np.zeros(count * size + 64, np.uint8)
    skip = -room.ctypes.data % 64
    return room[skip : skip + count * size].view(kind)


def semaphore() -> Array | None:
    """A POSIX semaphore at 0. None where there is none of this kind (macOS)."""
    memory = aligned(_SEMAPHORE_BYTES, np.uint8)
    return memory if _libc().sem_init(ctypes.c_void_p(memory.ctypes.data), 0, 0) == 0 else None


class Workers:
    """The threads of one process. A fork has none, and neither has a group that was sent home: `alive` says which."""

    def __init__(self) -> None:
        self._process = 0

    @property
    def alive(self) -> bool:
        return self._process == os.getpid()

    def hire(self, count: int, serve: Callable[[int], None], control: Array, stop: int, start: Array | None) -> None:
        """`serve(number)`, from 1 to `count`, each on a thread, until `control[stop]` is set and `start` is posted."""
        self._process = os.getpid()
        for number in range(1, count + 1):
            name = f"medley-{number}"
            threading.Thread(target=_live, args=(serve, number), daemon=True, name=name).start()
        self._finalizer = weakref.finalize(self, _dismiss, control, stop, start, count, os.getpid())

    def send_home(self) -> None:
        if self._process:
            self._finalizer()
            self._process = 0


def _live(serve: Callable[[int], None], number: int) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are the main thread's
    serve(number)


def _dismiss(control: Array, stop: int, start: Array | None, count: int, process: int) -> None:
    if process != os.getpid() or start is None:
        return
    control[stop] = 1
    for _ in range(count):
        _libc().sem_post(ctypes.c_void_p(start.ctypes.data))
