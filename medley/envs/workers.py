"""Slots in worker processes: each has some of the envs and steps them in turn, and all share one block of memory.

Processes are started afresh, not forked, since forking a program with threads can leave it hanging. The memory has no
name, and a worker ends when its parent does, so that nothing is left behind however this process ends.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Pipe
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt

from medley.envs.api import Array
from medley.envs.slots import Block, Broken, Description, Layout, Recipe
from medley.envs.worker import CLOSE, DONE, RENDER
from medley.errors import ConfigError, MedleyError

START_SECONDS = 300.0  # imports and models take their time
START_ATTEMPTS = 3
CLOSE_SECONDS = 5.0
_COMMAND = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from medley.envs.worker import main; main()"


class Gone(Exception):
    """The process has died or does not answer."""


class Worker:
    """A process and the way to talk to it."""

    def __init__(self, number: int, slots: Array, recipes: Sequence[Recipe], memory: int) -> None:
        self.number, self.slots = number, slots
        # By value, so that envs registered in a script or a notebook can be made as well.
        self._recipes = cloudpickle.dumps({int(slot): recipes[slot] for slot in slots})
        self._memory = memory
        self.start()

    def start(self) -> None:
        self._connection, theirs = Pipe()
        arguments = [json.dumps(sys.path), str(self.number), str(theirs.fileno()), str(self._memory)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *arguments],
            stdin=subprocess.PIPE,
            pass_fds=(theirs.fileno(), self._memory),
            process_group=0,  # Ctrl-C is for the parent alone, which says when to end
        )
        theirs.close()
        self._poll = select.poll()
        self._poll.register(self._connection.fileno(), select.POLLIN)
        self._asked = False
        with contextlib.suppress(Gone):  # then waiting for its answer says so
            self.ask(self._recipes)

    def describe(self) -> list[Description]:
        described: list[Description] = self.answer(time.monotonic() + START_SECONDS)
        return described

    def attach(self, layout: Layout) -> None:
        with contextlib.suppress(OSError):
            self._connection.send_bytes(pickle.dumps(tuple(layout)))

    def ask(self, command: bytes) -> None:
        if self._asked:
            raise Gone("its last call was interrupted")
        self._asked = True
        try:
            self._connection.send_bytes(command)
        except OSError:
            raise Gone(self._fate()) from None

    def answer(self, deadline: float) -> Any:
        if not self._poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            raise Gone("it gave no answer in time")
        try:
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            raise Gone(self._fate()) from None
        self._asked = False
        if answer == DONE:
            return None
        value = pickle.loads(answer)
        if isinstance(value, MedleyError):
            raise value
        return value

    def _fate(self) -> str:
        self._kill_group()
        code = self._process.wait()  # how it ended of itself, if it had before the signal
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with status {code}"

    def _kill_group(self) -> None:
        """With whatever its envs have started."""
        if self._process.returncode is None:  # else its number may belong to somebody else by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        self._kill_group()
        self._process.wait()
        self._connection.close()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def part(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.send_bytes(CLOSE)

    def end(self, deadline: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        self.kill()


class WorkerSlots:
    """Slot i is in worker i % workers: the copies of a task, which cost the same, are spread evenly."""

    def __init__(self, recipes: Sequence[Recipe], workers: int, timeout: float) -> None:
        if os.name != "posix":
            raise ConfigError("env.workers needs Linux or macOS; env.workers=0 steps the envs in this process.")
        self._tasks, self._timeout = [recipe.task for recipe in recipes], timeout
        self._memory = _nameless_file()
        count = min(workers, len(recipes))
        rows = np.arange(len(recipes))
        self._workers: list[Worker] = []
        self._end = weakref.finalize(self, _shut_down, self._workers, self._memory, os.getpid())
        try:
            for k in range(count):
                self._workers.append(Worker(k, rows[k::count], recipes, self._memory))
            described: dict[int, Description] = {}
            for worker in self._workers:
                described |= dict(zip(worker.slots.tolist(), self._started(worker), strict=True))
            self.descriptions: list[Description] = [described[row] for row in range(len(recipes))]
            self._layout = Layout.of(self.descriptions)
            os.truncate(self._memory, self._layout.size())
            self.block = Block.at(mmap.mmap(self._memory, self._layout.size()), self._layout)
            for worker in self._workers:
                self.block.busy[worker.number] = worker.slots[0]
                worker.attach(self._layout)
        except BaseException:
            self._end()
            raise

    def run(self, command: bytes, slots: Array) -> list[Broken]:
        """Waits for all that were asked. Those that died or hung are started anew, and are what is returned."""
        self.block.wanted[:] = 0
        self.block.wanted[slots] = 1
        asked = [worker for worker in self._workers if self.block.wanted[worker.slots].any()]
        error: MedleyError | None = None
        gone: dict[Worker, str] = {}
        for worker in asked:
            try:
                worker.ask(command)
            except Gone as e:
                gone[worker] = str(e)
        deadline = time.monotonic() + self._timeout
        for worker in asked:
            if worker in gone:
                continue
            try:
                worker.answer(deadline)
            except Gone as e:
                gone[worker] = str(e)
            except MedleyError as e:
                error = error or self._explained(worker, e)
        if error is not None:
            raise error
        return [self._restart(worker, why) for worker, why in gone.items()]

    def render(self, slot: int, width: int, height: int) -> npt.NDArray[np.uint8] | Broken:
        worker = self._workers[slot % len(self._workers)]
        try:
            worker.ask(RENDER + f"{slot} {width} {height}".encode())
            picture: npt.NDArray[np.uint8] = worker.answer(time.monotonic() + self._timeout)
            return picture
        except Gone as e:
            return self._restart(worker, str(e))

    def processes(self) -> list[int]:
        """Their ids."""
        return [worker._process.pid for worker in self._workers]

    def close(self) -> None:
        self._end()

    def _restart(self, worker: Worker, why: str) -> Broken:
        for attempt in range(START_ATTEMPTS):
            worker.kill()
            worker.start()
            try:
                worker.describe()
                break
            except Gone as e:
                if attempt == START_ATTEMPTS - 1:
                    raise self._no_start(worker, e) from None
        worker.attach(self._layout)
        return Broken(worker.slots, int(self.block.busy[worker.number]), why)

    def _started(self, worker: Worker) -> list[Description]:
        try:
            return worker.describe()
        except Gone as e:
            raise self._no_start(worker, e) from None

    def _no_start(self, worker: Worker, why: Gone) -> MedleyError:
        tasks = ", ".join(sorted({self._tasks[slot] for slot in worker.slots}))
        return MedleyError(f"the worker process of {tasks} could not be started: {why}.")

    def _explained(self, worker: Worker, error: MedleyError) -> MedleyError:
        slot = int(self.block.busy[worker.number])
        return MedleyError(f"{self._tasks[slot]} (slot {slot}) failed in its worker process:\n{error}")


def _nameless_file() -> int:
    """Memory that exists as long as somebody holds it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("medley")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _shut_down(workers: list[Worker], memory: int, parent: int) -> None:
    if os.getpid() != parent:
        return  # a fork of the process that they belong to
    for worker in workers:
        worker.part()
    deadline = time.monotonic() + CLOSE_SECONDS
    for worker in workers:
        worker.end(deadline)
    os.close(memory)
