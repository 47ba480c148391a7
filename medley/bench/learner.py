"""`medley bench learner`: milliseconds per update on MT10, sampling included, and nothing else.

Multi-head networks of 3x400, a temperature per task, batch 1280, unless options say otherwise; `--seeds 5` does the
updates of five seeds at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

OPTIONS = ["env=metaworld-mt10", "agent.trunk=multi_head", "agent.alpha_per_task=true", "replay_buffer.batch_size=1280"]
FILLED = 200  # random steps in replay
BLOCK = {"cuda": 128, "cpu": 2}  # updates between two looks at the clock
ROUNDS = 5


def plain_agent(words: Sequence[str]) -> list[str]:
    """Words that name an agent: plain SAC where they do not, whatever does best in that env."""
    return [*words] if any(word.startswith("agent=") for word in words) else ["agent=state_sac", *words]


class Updates:
    """Updates of one or several seeds, ready to be timed."""

    def __init__(self, options: Sequence[str], seeds: int = 1) -> None:
        from medley.config.load import load_config
        from medley.training.build import build_together

        began, options = time.monotonic(), plain_agent(options)
        with TemporaryDirectory() as folder:
            places = [f"setup.save_dir={Path(folder) / str(i)}" for i in range(seeds)]
            runs = build_together([load_config([*options, f"setup.seed={i + 1}", places[i]]) for i in range(seeds)])
        for run in runs:
            for step in run.collector.collect(run.acting, FILLED, "random", 0)[0]:
                run.replay.add(step)
        self.learners, self.device = [run.learner for run in runs], runs[0].device
        self.block = BLOCK[self.device.type]
        self._block()
        self.ready = time.monotonic() - began

    def _block(self) -> None:
        import torch

        from medley.training.learner import learn_together

        learn_together(self.learners, self.block)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def milliseconds(self, seconds: float) -> float:
        """Per update, over about so many seconds."""
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            self._block()
            done += self.block
        return (time.perf_counter() - began) / done * 1e3


def device_name(device: Any) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def bench(seconds: float, as_json: bool, options: list[str], seeds: int) -> dict[str, Any]:
    """Times updates for about `seconds` and prints a line; returns the figures."""
    import torch

    updates = Updates([*OPTIONS, *options], seeds)
    rounds = [updates.milliseconds(seconds / ROUNDS) for _ in range(ROUNDS)]
    result = {
        "ms_per_update": round(median(rounds), 4),
        "rounds": [round(r, 4) for r in rounds],
        "seeds": seeds,
        "ready_s": round(updates.ready, 1),
        "device": device_name(updates.device),
        "torch": torch.__version__,
        "options": options,
    }
    print(f"{result['ms_per_update']} ms per update of {seeds} seed{'s' * (seeds > 1)} on {result['device']}")
    if as_json:
        print(json.dumps(result), flush=True)
    return result
