"""Many steps of all fifty tasks with random and hostile actions: no crash, only finite numbers, no growing memory.

`python -m tests.envs.metaworld.soak STEPS [SLOTS_PER_TASK]` prints a line per tenth of the way.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from medley.envs.metaworld.config import MetaworldConfig
from medley.envs.metaworld.env import MetaworldEnv

Array = np.ndarray[Any, Any]


def hostile(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """A mixture: ordinary, full speed, huge, infinite, tiny; some slots repeat one move for long."""
    actions = rng.uniform(-1, 1, shape)
    kind = rng.integers(8, size=shape[0])
    actions[kind == 1] = np.sign(actions[kind == 1])
    actions[kind == 2] *= 1e30
    actions[kind == 3] = np.where(actions[kind == 3] > 0, np.inf, -np.inf)
    actions[kind == 4] *= 1e-42
    actions[kind == 5] = [0, 0, -1, 1]
    with np.errstate(over="ignore"):
        return actions.astype(np.float32)


def resident_megabytes() -> float:
    """What the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(steps: int, slots_per_task: int = 1, say: bool = False, seed: int = 0) -> dict[str, Any]:
    """`steps` is the sum over all slots. Returns memory after a tenth and at the end, and instabilities by task."""
    rng = np.random.default_rng(seed)
    versions = {"reward_version": "v1"}, {"reward_version": "v2", "goals": "fresh"}
    envs = [MetaworldEnv(MetaworldConfig(benchmark="mt50", **options), slots_per_task, seed) for options in versions]
    for env in envs:
        env.reset()
    per_call = sum(env.num_envs for env in envs)
    calls, refused = max(steps // per_call, 10), 0
    held = np.stack([hostile(rng, (env.num_envs, 4)) for env in envs])
    memory, start = [], time.perf_counter()
    for call in range(calls):
        for i, env in enumerate(envs):
            actions = hostile(rng, (env.num_envs, 4))
            long_moves = rng.random(env.num_envs) < 0.4
            actions[long_moves] = held[i, long_moves]
            if call % 1000 == 7:  # NaN is refused, and nothing is lost by it
                before = env.state()
                try:
                    env.step(np.where(rng.random(actions.shape) < 0.1, np.nan, actions).astype(np.float32))
                except ValueError:
                    refused += 1
                after = env.state()
                assert all(np.array_equal(before[key], after[key], equal_nan=True) for key in before)
            obs, reward, *_ = env.step(actions)
            assert np.isfinite(obs).all()
            assert np.isfinite(reward).all()
        if call % 200 == 0:
            held = np.stack([hostile(rng, (env.num_envs, 4)) for env in envs])
        if (call + 1) % (calls // 10) == 0:
            memory.append(resident_megabytes())
            if say:
                done = (call + 1) * per_call
                broken = sum(int(env.instabilities.sum()) for env in envs)
                rate = done / (time.perf_counter() - start)
                print(f"{done:,} steps, {rate:,.0f}/s, {memory[-1]:.0f} MB, {broken} instabilities", flush=True)
    by_task = {task: int(sum(env.instabilities[i] for env in envs)) for i, task in enumerate(envs[0].tasks)}
    for env in envs:
        env.close()
    return {
        "steps": calls * per_call,
        "refused": refused,
        "memory": memory,
        "instabilities": {task: count for task, count in by_task.items() if count},
    }


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]] or [10_000_000]
    print(soak(words[0], *words[1:], say=True))
