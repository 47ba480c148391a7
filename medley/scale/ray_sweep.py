"""A sweep on a Ray cluster: every pack of runs is a task, and `resources.gpus=0.2` lets five share a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medley.scale.folder import note
from medley.scale.launch import packs, summary
from medley.scale.ray_cluster import connect
from medley.scale.sweep import Request
from medley.scale.worker import Worker
from medley.training.stopping import StopRequest


class Keeper:
    """Looks after one pack; a node that is lost takes it along, and Ray starts it anew elsewhere."""

    def __init__(self, pack: list[Path], retries: int) -> None:
        self.worker = Worker(pack, retries, "ray")

    def work(self) -> dict[str, str]:
        return self.worker()

    def stop(self) -> None:
        self.worker.stop()


def carry_out(folders: list[Path], request: Request, say: Callable[[str], None]) -> int:
    """Waits for all of them. Ctrl-C asks them to save themselves."""
    ray, r = connect(), request.resources

    keeper_of: Any = ray.remote(num_cpus=r.cpus, num_gpus=r.gpus, max_restarts=-1, max_task_retries=-1)(Keeper)
    keepers = []
    for pack in packs(folders, r):
        keeper = keeper_of.options(max_concurrency=2).remote(pack, request.retries)
        keepers.append((keeper, keeper.work.remote()))
        for folder in pack:
            note(folder, id=keeper._actor_id.hex())
    ends: dict[str, str] = {}
    with StopRequest() as stop:
        waiting, told = [ref for _, ref in keepers], False
        while waiting:
            done, waiting = ray.wait(waiting, timeout=0.2)
            for ref in done:
                found = ray.get(ref)
                ends.update(found)
                for folder, end in found.items():
                    say(f"{folder}: {end}")
            if stop() and not told:
                told = True
                for keeper, _ in keepers:
                    keeper.stop.remote()
            time.sleep(0.01)
    return summary(ends, say)
