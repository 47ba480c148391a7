"""`medley bench update`: single-task SAC on reach, batch 256, two layers of 256, beside Stable-Baselines3 and SBX.

All sides run in this process, in turns, so that a noisy machine disturbs them alike. Two figures each:
environment steps per second of the whole loop (act, step, store, one update), and updates per second alone.

One more side is a yardstick: the same loop with the update replaced by the matrix products of a plain SAC update in
32-bit floats, by PyTorch, with no activation, loss, optimiser or bookkeeping (`products_sps`). It is not a bound:
medley's compiled update leaves some of these products out (the policy's gradient goes back through the smaller critic
only).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from medley.bench.peers import peer_package

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
    """Runs all sides for about `seconds` each and prints a table; returns the figures."""
    sb3_steps, sb3_updates = _peer("stable_baselines3")
    sbx_steps, sbx_updates = _peer("sbx")
    with TemporaryDirectory() as folder:
        own_steps, own_updates, products_steps = _medley(Path(folder))
        sides = {
            "sb3_sps": sb3_steps,
            "medley_sps": own_steps,
            "sbx_sps": sbx_steps,
            "sb3_ups": sb3_updates,
            "medley_ups": own_updates,
            "sbx_ups": sbx_updates,
            "products_sps": products_steps,
        }
        print("warming up", flush=True)
        for run in (sb3_steps, sbx_steps, own_steps):
            run(WARM_UP)
        figures: dict[str, list[float]] = {name: [] for name in sides}
        for i in range(ROUNDS):
            for name, run in sides.items():
                figures[name].append(_rate(run, seconds / (2 * ROUNDS)))
            latest = ", ".join(f"{k} {v[-1]:.0f}" for k, v in figures.items())
            print(f"round {i + 1} of {ROUNDS}: {latest}", flush=True)
    import torch

    def ratio(one: str, other: str) -> float:
        """The median of the rounds' ratios: within a round the machine is much the same."""
        return round(median(a / b for a, b in zip(figures[one], figures[other], strict=True)), 2)

    result: dict[str, Any] = {name: round(median(values), 1) for name, values in figures.items()}
    result |= {
        "ratio": ratio("medley_sps", "sb3_sps"),
        "ratio_sbx": ratio("medley_sps", "sbx_sps"),
        "ratio_updates": ratio("medley_ups", "sb3_ups"),
        "ratio_updates_sbx": ratio("medley_ups", "sbx_ups"),
        "products_ratio": ratio("products_sps", "sb3_sps"),
        "rounds": {name: [round(v, 1) for v in values] for name, values in figures.items()},
        "task": "reach",
        "batch": 256,
        "network": "2x256",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    _print_table(result)
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _print_table(r: dict[str, Any]) -> None:
    print(f"{'':24}{'medley':>10}{'SB3':>10}{'ratio':>8}{'SBX':>10}{'ratio':>8}")
    for title, key, over_sb3, over_sbx in (
        ("env steps/s, whole loop", "sps", "ratio", "ratio_sbx"),
        ("updates/s alone", "ups", "ratio_updates", "ratio_updates_sbx"),
    ):
        sb3, sbx = f"{r['sb3_' + key]:>10}{r[over_sb3]:>8}", f"{r['sbx_' + key]:>10}{r[over_sbx]:>8}"
        print(f"{title:24}{r['medley_' + key]:>10}{sb3}{sbx}")
    print(f"{'bare products, steps/s':24}{r['products_sps']:>10}{'':>10}{r['products_ratio']:>8}")


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

    def bare_products(count: int) -> None:
        for _ in range(count):
            chunk, _ = parts.collector.collect(parts.acting, 1, "policy", taken)
            parts.replay.add(chunk[0])
            products()

    return steps, parts.learner.learn, bare_products


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


def _peer(package: str) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """SAC of Stable-Baselines3 or of SBX, its sibling in JAX: the same names and options."""
    library = peer_package(package)
    import gymnasium
    import metaworld  # noqa: F401  (registers Meta-World/MT1)

    env = gymnasium.make("Meta-World/MT1", env_name="reach-v3", seed=1)
    model = library.SAC(
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
