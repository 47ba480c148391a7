"""A sweep on this machine: a few runs at a time, each a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from medley.scale.launch import packs, summary
from medley.scale.sweep import Request
from medley.scale.worker import Worker
from medley.training.stopping import StopRequest


def carry_out(
    folders: list[Path],
    request: Request,
    say: Callable[[str], None],
    look: Callable[[], Container[Path]] = tuple,
) -> int:
    """Waits for all of them. Ctrl-C asks them to save themselves; `look`, called now and then, names those that nobody
    wants any more."""
    workers = [Worker(pack, request.retries, "local") for pack in packs(folders, request.resources)]
    ends: dict[str, str] = {}

    def work(worker: Worker) -> None:
        found = worker()
        for folder, end in found.items():
            say(f"{folder}: {end}")
        ends.update(found)

    with StopRequest() as stop, ThreadPoolExecutor(max(1, request.jobs)) as threads:
        waiting = [threads.submit(work, worker) for worker in workers]
        wanted = list(workers)
        while not all(future.done() for future in waiting):
            time.sleep(0.1)
            unwanted = look()
            for worker in list(wanted):
                if stop() or all(folder in unwanted for folder in worker.folders):
                    wanted.remove(worker)
                    worker.stop(wait=0.0)  # all save themselves at the same time
        for future in waiting:
            future.result()
    return summary(ends, say)
