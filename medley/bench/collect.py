"""`medley bench collect`: workers on a local Ray cluster beside collection in one process, with the same slots.

Both have all cores: one process steps its simulators by threads, workers are a core each. They run in turns, in short
blocks, so that a noisy machine disturbs both alike. Beside the rates stand the costs that decide how far workers scale:
bytes of a step and of a policy, and the time that the learner's process spends on them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from medley.bench.learner import plain_agent
from medley.config.load import load_config
from medley.errors import MedleyError
from medley.scale.ray_collect import Broadcast, RayCollector
from medley.scale.ray_worker import to_bytes
from medley.scale.wire import pack, size, unpack
from medley.training.build import Parts, build

BLOCKS = 6


def bench(seconds: float, as_json: bool, options: Sequence[str]) -> dict[str, Any]:
    """About `seconds` a side; prints a table and returns the figures."""
    words = plain_agent(["env=metaworld-mt10", "env.slots_per_task=4", "experiment.collect_steps=32", *options])
    words += ["logger.use_tb=false", "setup.device=cpu", "replay_buffer.capacity=10000"]
    away = load_config([*words, "collect.on=ray", "collect.lag=2"])
    here = load_config(words)
    assert here.experiment.collect_steps is not None
    if here.env.slots_per_task != away.env.slots_per_task:
        raise MedleyError(f"give {away.collect.workers} workers as many slots: env.slots_per_task=...")
    with TemporaryDirectory() as folder:
        here.setup.save_dir = away.setup.save_dir = str(Path(folder) / "run")
        with ExitStack() as closing:
            sides = [_Side(build(config), here.experiment.collect_steps, closing) for config in (here, away)]
            for side in sides:
                side.rate(0.0)  # processes start, code compiles
            rates = [[side.rate(seconds / BLOCKS) for side in sides] for _ in range(BLOCKS)]
            row = {"workers": away.collect.workers, "envs": sides[0].parts.env.num_envs, **_costs(*sides)}
    ratios = sorted(ray / local for local, ray in rates)
    row |= {
        "local_sps": round(median(local for local, _ in rates)),
        "ray_sps": round(median(ray for _, ray in rates)),
        "ratio": round(median(ratios), 2),
        "lowest": round(ratios[0], 2),
        "highest": round(ratios[-1], 2),
    }
    print(f"{row['envs']} envs     one process   {row['workers']} workers   ratio")
    spread = f"({row['lowest']} to {row['highest']})"
    print(f"env steps/s {row['local_sps']:>9}{row['ray_sps']:>12}{row['ratio']:>8}   {spread}")
    print(f"an env step: {row['bytes_per_step']} bytes, {row['unpack_us']} us to take it in")
    print(f"a policy: {row['policy_kb']} kB, {row['put_ms']} ms to put it into the cluster's memory")
    if as_json:
        print(json.dumps(row), flush=True)
    return row


class _Side:
    def __init__(self, parts: Parts, steps: int, closing: ExitStack) -> None:
        closing.callback(parts.close)
        self.parts, self.steps, self.taken = parts, steps, 10**9  # long after random actions

    def chunk(self) -> tuple[Any, Any]:
        self.parts.acting.refresh()
        found = self.parts.collector.collect(self.parts.acting, self.steps, "policy", self.taken)
        self.taken += self.steps * self.parts.env.slots_per_task
        return found

    def rate(self, seconds: float) -> float:
        """Env steps per second."""
        chunks, start = 0, time.perf_counter()
        while True:
            self.chunk()
            chunks += 1
            if (passed := time.perf_counter() - start) >= seconds:
                return chunks * self.steps * self.parts.env.num_envs / passed


def _costs(local: _Side, away: _Side) -> dict[str, Any]:
    """Of the learner's process, measured without anybody else at work."""
    collector, acting = away.parts.collector, away.parts.acting
    assert isinstance(collector, RayCollector)
    assert isinstance(acting, Broadcast)
    collector.state()  # what is on its way arrives
    puts = []
    for _ in range(20):
        acting.refresh()
        began = time.perf_counter()
        acting.put(collector.ray)
        puts.append(time.perf_counter() - began)
    chunk, episodes = local.chunk()
    channels = local.parts.env.frame_channels
    packed = pack(chunk, episodes, channels)
    steps = len(chunk) * local.parts.env.num_envs
    began = time.perf_counter()
    for _ in range(10):
        unpack([packed], channels, None)
    taken = (time.perf_counter() - began) / 10
    return {
        "bytes_per_step": round(size(packed) / steps),
        "policy_kb": round(to_bytes(local.parts.agent.policy_tensors()).nbytes / 1e3),
        "put_ms": round(1e3 * median(puts), 2),
        "unpack_us": round(1e6 * taken / steps, 2),
    }
