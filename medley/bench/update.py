"""`medley bench update`: single-task SAC on reach, batch 256, two layers of 256, beside Stable-Baselines3.

Both sides run in this process, in turns, so that a noisy machine disturbs both alike. Two figures each:
environment steps per second of the whole loop (act, step, store, one update), and updates per second alone.

A third side is a yardstick: the same loop with the update replaced by the matrix products of a plain SAC update in
32-bit floats, by PyTorch, with no activation, loss, optimiser or bookkeeping (`ceiling`). It is not a bound: medley's
compiled update leaves some of these products out (the policy's gradient goes back through the smaller critic only).
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from medley.errors import MedleyError

OPTIONS = [
    "env=metaworld-mt1",
    "env.task=reach",
    "agent.actor.num_layers=2",
    "agent.actor.hidden_dim=256",
    "agent.critic.num_layers=2",
    "agent.critic.hidden_dim=256",
    "replay_buffer.batch_size=256",
    "setup.device=cpu",
    "setup.seed=1",
]
WARM_UP = 500  # steps before anything is timed, enough to fill a batch
ROUNDS = 5


def bench(seconds: float, as_json: bool) -> dict[str, Any]:
    """Runs both sides for about `seconds` each and prints a table; returns the figures."""
    peer_steps, peer_updates = _stable_baselines3()
    with TemporaryDirectory() as folder:
        own_steps, own_updates, ceiling_steps = _medley(Path(folder))
        print("warming up", flush=True)
        for run in (peer_steps, own_steps):
            run(WARM_UP)
        names = ("medley_sps", "sb3_sps", "medley_ups", "sb3_ups", "ceiling_sps")
        figures: dict[str, list[float]] = {name: [] for name in names}
        each = seconds / (2 * ROUNDS)
        for i in range(ROUNDS):
            for name, run in (
                ("sb3_sps", peer_steps),
                ("medley_sps", own_steps),
                ("sb3_ups", peer_updates),
                ("medley_ups", own_updates),
                ("ceiling_sps", ceiling_steps),
            ):
                figures[name].append(_rate(run, each))
            print(
                f"round {i + 1} of {ROUNDS}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in figures.items()), flush=True
            )
    import torch

    result: dict[str, Any] = {name: round(median(values), 1) for name, values in figures.items()}
    result |= {
        "ratio": round(median(m / s for m, s in zip(figures["medley_sps"], figures["sb3_sps"], strict=True)), 2),
        "ceiling_ratio": round(
            median(c / s for c, s in zip(figures["ceiling_sps"], figures["sb3_sps"], strict=True)), 2
        ),
        "ratio_updates": round(
            median(m / s for m, s in zip(figures["medley_ups"], figures["sb3_ups"], strict=True)), 2
        ),
        "task": "reach",
        "batch": 256,
        "network": "2x256",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(f"{'':24}{'medley':>10}{'SB3':>10}{'ratio':>8}")
    print(f"{'env steps/s, whole loop':24}{result['medley_sps']:>10}{result['sb3_sps']:>10}{result['ratio']:>8}")
    print(f"{'updates/s alone':24}{result['medley_ups']:>10}{result['sb3_ups']:>10}{result['ratio_updates']:>8}")
    print(f"{'ceiling, env steps/s':24}{result['ceiling_sps']:>10}{'':>10}{result['ceiling_ratio']:>8}")
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _rate(run: Callable[[int], None], seconds: float) -> float:
    """Calls per second, in blocks small enough to stop near the time asked for."""
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        run(20)
        done += 20
    return done / (time.perf_counter() - start)


def _medley(folder: Path) -> tuple[Callable[[int], None], Callable[[int], None], Callable[[int], None]]:
    """The parts of a run and its real loop, without evaluations or checkpoints: the peer makes none either."""
    from medley.config.load import load_config
    from medley.training.build import build

    config = load_config([*OPTIONS, f"setup.save_dir={folder}"])
    parts = build(config)
    taken = 0

    def steps(count: int) -> None:
        nonlocal taken
        for _ in range(count):
            explore = "random" if taken < WARM_UP // 2 else "policy"
            chunk, _ = parts.collector.collect(parts.acting, 1, explore, taken)
            parts.replay.add(chunk[0])
            taken += 1
            if taken >= WARM_UP // 2:
                parts.learner.learn(1)

    products = _matrix_products(batch=256, width=256, obs=39, action=4)

    def ceiling(count: int) -> None:
        for _ in range(count):
            chunk, _ = parts.collector.collect(parts.acting, 1, "policy", taken)
            parts.replay.add(chunk[0])
            products()

    return steps, parts.learner.learn, ceiling


def _matrix_products(batch: int, width: int, obs: int, action: int) -> Callable[[], None]:
    """Every matrix product of one SAC update with two hidden layers and twin critics, and nothing else."""
    import torch

    def layer(members: int, rows: int, columns: int) -> Any:
        return torch.randn(members, rows, columns)

    x, h = layer(2, batch, obs + action), layer(2, batch, width)
    w0, w1 = layer(2, obs + action, width), layer(2, width, width)
    ax, ah = layer(1, batch, obs)[0], layer(1, batch, width)[0]
    a0, a1, a2 = layer(1, obs, width)[0], layer(1, width, width)[0], layer(1, width, 2 * action)[0]
    out = layer(1, batch, 2 * action)[0]

    def run() -> None:
        for _ in range(3):  # forward: target, critic, critic again for the actor (one output: no matrix product)
            torch.bmm(x, w0)
            torch.bmm(h, w1)
        torch.bmm(h.transpose(1, 2), h)  # backward of the critic's loss
        torch.bmm(h, w1.transpose(1, 2))
        torch.bmm(x.transpose(1, 2), h)
        torch.bmm(h, w1.transpose(1, 2))  # backward through the critic to the action
        torch.bmm(h, w0.transpose(1, 2))
        for _ in range(2):  # forward of the actor, at the next and at the present observation
            ax @ a0
            ah @ a1
            ah @ a2
        ah.t() @ out  # backward of the actor
        out @ a2.t()
        ah.t() @ ah
        ah @ a1.t()
        ax.t() @ ah

    return run


def _stable_baselines3() -> tuple[Callable[[int], None], Callable[[int], None]]:
    sb3 = _peer_package()
    import gymnasium
    import metaworld  # noqa: F401  (registers Meta-World/MT1)

    env = gymnasium.make("Meta-World/MT1", env_name="reach-v3", seed=1)
    model = sb3.SAC(
        "MlpPolicy",
        env,
        batch_size=256,
        buffer_size=100_000,
        learning_starts=WARM_UP // 2,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
        seed=1,
    )

    def steps(count: int) -> None:
        model.learn(count, reset_num_timesteps=False)

    def updates(count: int) -> None:
        model.train(gradient_steps=count, batch_size=256)

    return steps, updates


def _peer_package() -> Any:
    """Stable-Baselines3, installed on first use; torch is pinned to what is there already."""
    try:
        return importlib.import_module("stable_baselines3")
    except ImportError:
        pass
    import torch

    print("installing stable-baselines3 for the comparison", flush=True)
    pin = f"torch=={torch.__version__.partition('+')[0]}"
    command = [sys.executable, "-m", "pip", "install", "-q", "stable-baselines3==2.9.2", pin]
    if subprocess.run(command).returncode:
        raise MedleyError("stable-baselines3 could not be installed: pip install 'medley[bench]'")
    importlib.invalidate_caches()
    return importlib.import_module("stable_baselines3")
