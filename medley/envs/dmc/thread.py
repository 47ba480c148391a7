"""Slots in this process that one thread of their own steps and draws: an OpenGL context belongs to a thread, and who
calls may be another one each time."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.envs.api import Array
from medley.envs.slots import Block, Broken, Description, LocalSlots, Recipe

_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class ThreadSlots:
    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        # A daemon, so that it is still there when everything is put away at the end of the program.
        threading.Thread(target=_work, args=(self._calls,), daemon=True).start()
        self._slots: LocalSlots = self._do(LocalSlots, recipes)
        self.descriptions: list[Description] = self._slots.descriptions
        self.block: Block = self._slots.block
        self._end = weakref.finalize(self, _close, self._calls, self._slots)

    def run(self, command: bytes, slots: Array) -> list[Broken]:
        broken: list[Broken] = self._do(self._slots.run, command, slots)
        return broken

    def render(self, slot: int, width: int, height: int) -> npt.NDArray[np.uint8] | Broken:
        picture: npt.NDArray[np.uint8] = self._do(self._slots.render, slot, width, height)
        return picture

    def close(self) -> None:
        self._end()

    def _do(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return _ask(self._calls, call, *arguments).result()


def _ask(calls: queue.SimpleQueue[_Call | None], call: Callable[..., Any], *arguments: Any) -> Future[Any]:
    answer: Future[Any] = Future()
    calls.put((answer, call, arguments))
    return answer


def _work(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (asked := calls.get()) is not None:
        answer, call, arguments = asked
        try:
            answer.set_result(call(*arguments))
        except BaseException as error:
            answer.set_exception(error)
        del asked, answer, call, arguments  # hold nothing while waiting


def _close(calls: queue.SimpleQueue[_Call | None], slots: LocalSlots) -> None:
    _ask(calls, slots.close).result(timeout=10)
    calls.put(None)
