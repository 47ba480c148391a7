"""Updates in processes of their own: compiled side by side, since that takes long, and timed one at a time."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

_COMPILER_THREADS = "2"  # of each process


class Prepared:
    """Begins to prepare at once; the first use waits until everything is ready."""

    def __init__(self, options: Sequence[str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._line, other = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(other, list(options)), daemon=True)
        self._process.start()
        other.close()
        self._facts: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """`device`, and `ready`: the seconds it took. A failure there is raised here."""
        if self._facts is None:
            self._facts = self._receive()
        return self._facts

    def milliseconds(self, seconds: float) -> float:
        self.facts()
        self._line.send(seconds)
        return float(self._receive()["ms"])

    def _receive(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._line.recv()
        except EOFError:
            raise RuntimeError("its process died") from None
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        return answer

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def _serve(line: Any, options: list[str]) -> None:
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", _COMPILER_THREADS)
    from medley.bench.learner import Updates, device_name

    try:
        updates = Updates(options)
        line.send({"device": device_name(updates.device), "ready": updates.ready})
        while True:
            line.send({"ms": updates.milliseconds(line.recv())})
    except EOFError:  # the other side has gone
        pass
    except Exception as error:  # whatever it is, the other methods can still be timed
        line.send({"failure": f"{type(error).__name__}: {error}"})
