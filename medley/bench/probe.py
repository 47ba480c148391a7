"""`medley probe`: is this machine quick enough for this agent in this env, and has it the memory?

Times one action (an observation of every slot in, actions out) and one update, on every device there is; the env's
control rate, where it has one, says what they may take. Takes a run folder or the options of a run, and leaves nothing
behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from medley.config.schema import Config

FILLED = 300  # random steps in replay
LEAST = 30  # measurements of each kind


def probe(words: Sequence[str], seconds: float, as_json: bool) -> dict[str, Any]:
    """About `seconds` for actions and for updates on each device; prints a table and returns it."""
    import torch

    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    found = [_on(_config(words, device), device, seconds) for device in devices]
    rate = found[0]["control_hz"]
    said = "" if rate is None else f", which is controlled {rate:g} times a second: {1e3 / rate:.0f} ms"
    print(f"{found[0]['agent']} in {found[0]['env']}{said}")
    for one in found:
        print(f"on {one['device_name']}:")
        for name, what in (("action_ms", "an action"), ("update_ms", "an update")):
            p = one[name]
            print(f"  {what}: {p['p50']:.2f} ms; 95 of 100 within {p['p95']:.2f}, 99 within {p['p99']:.2f}")
        print(f"  memory: networks and optimisers {one['agent_mb']:.1f} MB, replay {one['replay_mb']:.1f} MB when full")
    best = min(found, key=lambda one: one["action_ms"]["p95"])
    print(f"acts soonest on {best['device']}.{_room(best, rate)}")
    result = {"devices": found, "acting_device": best["device"]}
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _room(best: dict[str, Any], rate: float | None) -> str:
    if rate is None:
        return ""
    left = 1e3 / rate - best["action_ms"]["p99"]
    return f" Updates that fit beside an action in a step: {max(0, int(left / best['update_ms']['p95']))}."


def _config(words: Sequence[str], device: str) -> Config:
    from medley.config.load import load_config
    from medley.training.run import Run

    if words and "=" not in words[0]:
        config = Run(Path(words[0])).config([*words[1:], f"setup.device={device}"])
    else:
        config = load_config([*words, f"setup.device={device}"])
    config.collect.on = "local"  # what is measured is this machine
    return config


def _on(config: Config, device: str, seconds: float) -> dict[str, Any]:
    import torch

    from medley.bench.learner import device_name
    from medley.training.build import build
    from medley.training.collector import Collector

    with TemporaryDirectory() as folder:
        config.setup.save_dir = str(Path(folder) / "run")
        parts = build(config)
        collector = parts.collector
        assert isinstance(collector, Collector)
        for step in collector.collect(parts.acting, FILLED // parts.env.slots_per_task + 1, "random", 0)[0]:
            parts.replay.add(step)

        def act() -> None:
            collector.choose(parts.acting, "policy", 0)

        def update() -> None:
            parts.learner.learn(1)
            if device == "cuda":
                torch.cuda.synchronize()

        found = {
            "device": device,
            "device_name": device_name(parts.device),
            "env": config.env.name,
            "agent": config.agent.name,
            "control_hz": parts.env.control_hz,
            "action_ms": _percentiles(act, seconds),
            "update_ms": _percentiles(update, seconds),
            "agent_mb": sum(t.numel() * t.element_size() for t in parts.agent.state_dict().values()) / 1e6,
            "replay_mb": sum(r.lanes * r.places * r.record_bytes for r in parts.replay.records()) / 1e6,
        }
        if device == "cuda":
            found["peak_gpu_mb"] = torch.cuda.max_memory_allocated() / 1e6
        parts.env.close()
        parts.evaluator.close()
    return found


def _percentiles(once: Callable[[], None], seconds: float) -> dict[str, float]:
    """Milliseconds, after a few times that do not count."""
    for _ in range(5):
        once()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < LEAST or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        once()
        times.append(1e3 * (time.perf_counter() - start))
    return {f"p{p}": round(float(np.percentile(times, p)), 4) for p in (50, 95, 99)}
