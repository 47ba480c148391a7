"""`medley bench pixels`: SAC+AE from pictures, beside the same algorithm as people write it from the paper.

Updates alone (sampling included), and the whole loop of acting, drawing and learning. Both sides take turns on the same
task, batch and device; `pixels_peer.py` is the other side.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

OPTIONS = ["env=dmc-cheetah-run", "env.action_repeat=4", "agent=sac_ae", "replay_buffer.capacity=2000"]
FILLED = 250  # random steps in replay: an episode
TURNS = 5


def bench(seconds: float, as_json: bool, options: list[str]) -> dict[str, Any]:
    """About `seconds` for each side of each comparison; prints a table and returns it."""
    import torch

    from medley.bench.learner import device_name

    ours = Ours(options)
    theirs = Theirs(ours)
    result: dict[str, Any] = {
        "device": device_name(ours.parts.device),
        "threads": torch.get_num_threads(),
        "batch": ours.batch,
        "torch": torch.__version__,
        "options": options,
    }
    print(f"{'':20} {'medley':>9} {'plain':>9} {'ratio':>6}   on {result['device']}", flush=True)
    for name, mine, other in (
        ("updates_per_second", ours.update, theirs.update),
        ("frames_per_second", ours.loop, theirs.loop),
    ):
        mine()  # the first time prepares
        other()
        turns = [(_rate(mine, seconds / TURNS), _rate(other, seconds / TURNS)) for _ in range(TURNS)]
        row = [median(m for m, _ in turns), median(t for _, t in turns), median(m / t for m, t in turns)]
        result[name] = {"medley": round(row[0], 3), "plain": round(row[1], 3), "ratio": round(row[2], 3)}
        print(f"{name:20} {row[0]:9.2f} {row[1]:9.2f} {row[2]:6.2f}", flush=True)
    ours.close()
    theirs.close()
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _rate(once: Callable[[], int], seconds: float) -> float:
    """What `once` counts, per second."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds or not done:
        done += once()
    return done / (time.perf_counter() - began)


class Ours:
    def __init__(self, options: list[str]) -> None:
        import torch

        from medley.config.load import load_config
        from medley.training.build import build

        with TemporaryDirectory() as folder:
            words = [*OPTIONS, *options, f"setup.save_dir={Path(folder) / 'run'}"]
            self.config = load_config(words)
        self.parts = build(self.config)
        assert self.config.replay_buffer.batch_size is not None
        self.batch = self.config.replay_buffer.batch_size
        self.block = 16 if self.parts.device.type == "cuda" else 1
        self._synchronize: Any = torch.cuda.synchronize if self.parts.device.type == "cuda" else lambda: None
        for step in self.parts.collector.collect(self.parts.acting, FILLED, "random", 0)[0]:
            self.parts.replay.add(step)

    def update(self) -> int:
        self.parts.learner.learn(self.block)
        self._synchronize()
        return self.block

    def loop(self) -> int:
        """As many steps of the env as updates; frames are what was drawn. As in training, a GPU learns meanwhile."""
        p = self.parts
        p.acting.refresh()
        if p.overlap:
            p.learner.learn(self.block)
        chunk, _ = p.collector.collect(p.acting, self.block, "policy", FILLED)
        for step in chunk:
            p.replay.add(step)
        if not p.overlap:
            p.learner.learn(self.block)
        self._synchronize()
        return self.block

    def close(self) -> None:
        self.parts.env.close()
        self.parts.evaluator.close()


class Theirs:
    """One env of its own, by the same task and pictures."""

    def __init__(self, ours: Ours) -> None:
        from medley.bench.pixels_peer import Peer
        from medley.envs.registry import env_kind

        config = ours.config
        self.env = env_kind(config.env.builder).build(config.env, 1, config.setup.seed, False)
        self.obs = self.env.reset(seed=1)[0][0]
        actions = self.env.single_action_space.shape[0]  # type: ignore[index]
        self.peer = Peer(self.obs.shape, actions, 2000, ours.batch, ours.parts.device)
        self.random, self.steps = np.random.default_rng(1), 0
        for _ in range(FILLED):
            self._step(self.random.uniform(-1, 1, actions).astype(np.float32))

    def _step(self, action: Any) -> None:
        obs, reward, terminated, truncated, info = self.env.step(action[None])
        last = info["final_obs"][0] if terminated[0] or truncated[0] else obs[0]
        self.peer.add(self.obs, action, float(reward[0]), last, bool(terminated[0]))
        self.obs = obs[0]

    def update(self) -> int:
        from torch.backends import cudnn

        self.steps += 1
        # As PyTorch has it for whoever sets nothing.
        with cudnn.flags(enabled=True, benchmark=False, deterministic=False, allow_tf32=True):
            self.peer.update(self.steps)
        return 1

    def loop(self) -> int:
        self._step(self.peer.act(self.obs))
        return self.update()

    def close(self) -> None:
        self.env.close()
