"""`medley bench realtime`: how promptly an agent answers an arm while it learns.

A simulated arm moves in wall-clock time at 5 Hz, and SAC (batch 256, two layers of 256) learns from it: first while
the arm carries out its actions, then the usual way, between observation and action. Delays are those from an
observation being read to the action that answers it being sent. Drift is by how much the looks at the arm fall behind
the first action of their episode, measured beside the clock that paces them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from medley.robots.delays import Delays

OPTIONS = [
    "env=panda-reach",
    "env.arm=wall_clock",
    "agent=state_sac",
    "agent.actor.num_layers=2",
    "agent.actor.hidden_dim=256",
    "agent.critic.num_layers=2",
    "agent.critic.hidden_dim=256",
    "replay_buffer.batch_size=256",
    "experiment.init_steps=50",
    "experiment.updates=4",
    "experiment.eval_freq=0",
    "experiment.save_freq=0",
    "experiment.eval_at_start=false",
    "experiment.num_eval_episodes=1",
    "experiment.save_video=false",
    "setup.threads=1",
    "setup.device=cpu",
    "logger.console=none",
    "logger.use_tb=false",
]
MODES = ("during_step", "at_step")
TARGETS = {"delay_p99_ms": 5.0, "overruns": 0, "faults": 0, "drift_ms_per_minute": 1.0}


def bench(seconds: float, as_json: bool, options: Sequence[str] = ()) -> dict[str, Any]:
    """`seconds` of arm time a side (100 are 500 steps) after a first episode that is not counted."""
    result: dict[str, Any] = {"steps": round(5 * seconds), "batch": 256, "network": "2x256", "updates_per_step": 4}
    for mode in MODES:
        with TemporaryDirectory() as folder:
            result[mode] = _measure(Path(folder), mode, result["steps"], options)
        print(f"{mode:12} " + ", ".join(f"{k} {v}" for k, v in result[mode].items()), flush=True)
    ours = result["during_step"]
    result["within_targets"] = all(ours[key] <= limit for key, limit in TARGETS.items())
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _measure(folder: Path, mode: str, steps: int, options: Sequence[str]) -> dict[str, float]:
    from medley.config.load import load_config
    from medley.training.experiment import Experiment
    from medley.training.run import Run

    words = [f"experiment.update_when={mode}", f"experiment.num_train_steps={steps + 50}", f"setup.save_dir={folder}"]
    config = load_config([*OPTIONS, *options, *words])
    config.logger.per_episode = True
    run = Run(folder)
    run.create(config)
    x = Experiment(config, run)
    env: Any = x.parts.env
    whole, faults, looks = Delays(), 0, Looks(env.arm)

    def drain() -> dict[str, float]:
        """In place of a training line: all episodes together, without the first, in which code is compiled."""
        nonlocal faults
        episode, more = env.delays.take(), len(env.faults)
        env.faults = []
        if x.episodes_ended > 1:
            whole.add(episode)
            faults += more
        return {}

    env.drain = drain
    began = time.monotonic()
    x.train()
    drain()
    row = {key: round(value, 3) for key, value in whole.summary().items()}
    row |= {"drift_ms_per_minute": round(looks.drift(), 4), "faults": faults}
    row |= {"updates": x.parts.learner.updates, "missed_updates": x.missed}
    return row | {"minutes": round((time.monotonic() - began) / 60, 2)}


class Looks:
    """When an arm was looked at, in seconds after the first action of the episode."""

    def __init__(self, arm: Any) -> None:
        self._send, self._read, self._reset, self._dt = arm.send_action, arm.read_observation, arm.reset, arm.dt
        self.episodes: list[list[float]] = [[]]  # the first has begun already
        arm.send_action, arm.read_observation, arm.reset = self.send_action, self.read_observation, self.reset
        self._first = float("nan")

    def reset(self, position: Any) -> Any:
        self.episodes.append([])
        self._first = float("nan")  # a reset looks, too
        return self._reset(position)

    def send_action(self, action: Any) -> Any:
        receipt = self._send(action)
        if np.isnan(self._first):
            self._first = receipt.t_send
        return receipt

    def read_observation(self, *arguments: Any, **options: Any) -> Any:
        if not np.isnan(self._first):
            self.episodes[-1].append(time.monotonic() - self._first)
        return self._read(*arguments, **options)

    def drift(self) -> float:
        """Milliseconds per minute: the slope of a line through how late looks were, in the middle of all whole episodes
        (a moment in which the machine was busy is no drift)."""
        longest = max(map(len, self.episodes))
        whole = [episode for episode in self.episodes[1:] if len(episode) == longest]
        steps = np.arange(1, longest + 1)
        if not whole or longest < 2:
            return 0.0
        late = np.median([np.array(episode) - steps * self._dt for episode in whole], axis=0)
        return abs(float(np.polyfit(steps * self._dt, late, 1)[0])) * 1000 * 60
