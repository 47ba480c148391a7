"""`medley bench workers`: worker processes beside Gymnasium's AsyncVectorEnv, on the `metaworld` package's MT10 envs.

Both sides have the same envs, number of envs and random actions. They run in turns, in short blocks, so that a noisy
machine disturbs both alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from medley.envs.api import Array
from medley.envs.cores import available_cores
from medley.envs.gym import GymEnv

BLOCKS = 10
WARM_UP = 25


def bench(seconds: float, as_json: bool, slots_per_task: Sequence[int] = (1,)) -> dict[str, Any]:
    """Measures each number of slots for about `seconds` a side and prints a table; returns the figures."""
    workers = available_cores()
    rows = [_compare(slots, workers, seconds) for slots in slots_per_task]
    result: dict[str, Any] = {"workers": workers, **rows[0], "more_slots": rows[1:]}
    print(f"{'envs':8}{'AsyncVectorEnv':>16}{'medley':>10}{'ratio':>8}   (lowest and highest block)")
    for row in rows:
        spread = f"{row['lowest']} to {row['highest']}"
        print(
            f"{row['envs']:<8}{row['async_sps']:>16}{row['medley_sps']:>10}{row['ratio']:>8}   ({spread})   env steps/s"
        )
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _compare(slots_per_task: int, workers: int, seconds: float) -> dict[str, Any]:
    import metaworld

    names = list(metaworld.MT10(seed=1).train_classes)
    moves = np.random.default_rng(0).uniform(-1, 1, (256, len(names) * slots_per_task, 4)).astype(np.float32)
    print(f"{moves.shape[1]} envs: building", flush=True)
    # As `Meta-World/custom-mt-envs` makes it: leaner wrappers than gymnasium.make's, observations in shared memory.
    made = [partial(metaworld.make_mt_envs, name, seed=1) for name in names for _ in range(slots_per_task)]
    peer = AsyncVectorEnv(made, shared_memory=True, autoreset_mode=AutoresetMode.SAME_STEP)
    ids = [{"id": "metaworld:Meta-World/MT1", "env_name": name, "seed": 1} for name in names]
    ours = GymEnv(ids, slots_per_task, workers=workers)
    try:
        sides = [_stepper(peer, moves), _stepper(ours, moves)]
        rates = [[moves.shape[1] * _rate(run, seconds / BLOCKS) for run in sides] for _ in range(BLOCKS)]
    finally:
        peer.close()
        ours.close()
    ratios = sorted(our / their for their, our in rates)
    return {
        "envs": moves.shape[1],
        "async_sps": round(median(their for their, _ in rates)),
        "medley_sps": round(median(our for _, our in rates)),
        "ratio": round(median(ratios), 2),
        "lowest": round(ratios[0], 2),
        "highest": round(ratios[-1], 2),
    }


def _stepper(env: gymnasium.vector.VectorEnv[Any, Any, Any], moves: Array) -> Callable[[], None]:
    env.reset(seed=1)
    step = 0

    def run() -> None:
        nonlocal step
        env.step(moves[step % len(moves)])
        step += 1

    for _ in range(WARM_UP):
        run()
    return run


def _rate(run: Callable[[], None], seconds: float) -> float:
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        run()
        done += 1
    return done / (time.perf_counter() - start)
