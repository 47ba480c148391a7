"""`medley bench checkpoint`: what a checkpoint after every episode costs once 100,000 transitions are in replay.

VPACE with two intentions on the Panda arm, saved after every episode of 50 steps as a robot's run is: 2,000 saves, each
of which writes everything but the transitions that are on the disk already. The last 200 are what counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

OPTIONS = [
    "env=panda-reach-multitask",
    "agent=vpace",
    "replay_buffer.capacity=150000",
    "experiment.save_video=false",
    "setup.threads=1",
    "setup.device=cpu",
    "logger.console=none",
    "logger.use_tb=false",
]
EPISODES, STEPS, COUNTED = 2000, 50, 200
TARGET_MS = 30.0


def bench(as_json: bool, options: Sequence[str] = (), episodes: int = EPISODES) -> dict[str, Any]:
    from medley.config.load import load_config
    from medley.training.experiment import Experiment
    from medley.training.run import Run

    with TemporaryDirectory() as folder:
        config = load_config([*OPTIONS, *options, f"setup.save_dir={Path(folder) / 'run'}"])
        run = Run(Path(folder) / "run")
        run.create(config)
        experiment = Experiment(config, run)
        experiment.begin()
        p, took = experiment.parts, []
        steps, _ = p.collector.collect(p.acting, STEPS, "random", 0)
        for _ in range(episodes):
            for step in steps:
                p.replay.add(step)
            experiment.step += STEPS
            time.sleep(0.005)  # an arm moves meanwhile, and what is superfluous on the disk is deleted
            began = time.perf_counter()
            experiment.save()
            took.append(1e3 * (time.perf_counter() - began))
        size = sum(f.stat().st_size for f in (run.path / "checkpoints").glob("*/*")) / 2
        experiment.close()
    last = took[-COUNTED:]
    names, points = ("p50_ms", "p95_ms", "p99_ms"), np.percentile(last, (50, 95, 99))
    result: dict[str, Any] = {"transitions": p.replay.size, "saves": episodes, "megabytes": round(size / 1e6, 1)}
    result |= {name: round(float(x), 1) for name, x in zip(names, points, strict=True)}
    result["within_target"] = result["p50_ms"] <= TARGET_MS
    print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
    if as_json:
        print(json.dumps(result), flush=True)
    return result
