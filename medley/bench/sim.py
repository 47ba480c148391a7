"""`medley bench sim`: the Meta-World simulator beside Gymnasium's AsyncVectorEnv on the package's envs.

The sides run in turns, with the same random actions, so that a noisy machine disturbs all alike. The ceiling is the
physics alone (five `mj_step` and one `mj_forward` per slot) on the same number of threads. Start-up time and memory are
measured in processes of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np

from medley.envs.api import Array
from medley.envs.cores import available_cores
from medley.envs.metaworld.engine import PHYSICS

ROUNDS = 5
HORIZON = 500


def bench(seconds: float, as_json: bool, slots_per_task: Sequence[int] = (1,)) -> dict[str, Any]:
    """Measures MT10 and MT50 for about `seconds` a side and prints a table; returns the figures."""
    result: dict[str, Any] = {"threads": available_cores(), "cpu": _cpu(), "slots_per_task": list(slots_per_task)}
    for name in ("MT10", "MT50"):
        result[name.lower()] = _compare(name, slots_per_task, seconds)
    result |= _resets() | _start_up()
    print(f"{'slots per task':16}{'AsyncVectorEnv':>16}{'medley':>10}{'ceiling':>10}{'ratio':>8}{'of ceiling':>12}")
    for name in ("mt10", "mt50"):
        row = result[name]
        for slots, side in zip(slots_per_task, [row, *row["more_slots"]], strict=True):
            print(
                f"{name + ', ' + str(slots):16}{row['async_sps']:>16}{side['medley_sps']:>10}"
                f"{side['ceiling_sps']:>10}{side['ratio']:>8}{side['of_ceiling']:>12}   env steps/s"
            )
    print(
        f"a reset takes {result['reset_ms']} ms ({result['first_reset_ms']} ms the first time a goal is met); "
        f"MT50 is ready in {result['ready_first_s']} s the first time and {result['ready_s']} s afterwards; "
        f"MT50 with 4 slots per task needs {result['mt50_4_slots_gb']} GB"
    )
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _compare(name: str, slots_per_task: Sequence[int], seconds: float) -> dict[str, Any]:
    """The peer has one slot per task, whatever we have."""
    tasks = int(name.removeprefix("MT"))
    print(f"{name}: building", flush=True)
    moves = np.random.default_rng(0).uniform(-1, 1, (256, tasks * max(slots_per_task), 4)).astype(np.float32)
    peer, close = _async(name, moves)
    sides = {(0, "async_sps"): peer}
    for slots in slots_per_task:
        sides[slots, "medley_sps"] = _medley(name, moves[:, : tasks * slots])
        sides[slots, "ceiling_sps"] = _ceiling(name, moves[:, : tasks * slots])
    for run in sides.values():
        run(2)  # compile, touch memory
    rates: dict[tuple[int, str], list[float]] = {side: [] for side in sides}
    for i in range(ROUNDS):
        for side, run in sides.items():
            rates[side].append(tasks * max(side[0], 1) * _rate(run, seconds / ROUNDS))
        now = ", ".join(f"{side} {slots or ''} {rate[-1]:.0f}" for (slots, side), rate in rates.items())
        print(f"{name}, round {i + 1} of {ROUNDS}: {now}", flush=True)
    close()
    rows = [
        {
            "slots_per_task": slots,
            "async_sps": round(median(rates[0, "async_sps"])),
            "medley_sps": round(median(rates[slots, "medley_sps"])),
            "ceiling_sps": round(median(rates[slots, "ceiling_sps"])),
            "ratio": _ratio(rates[slots, "medley_sps"], rates[0, "async_sps"]),
            "of_ceiling": _ratio(rates[slots, "medley_sps"], rates[slots, "ceiling_sps"]),
        }
        for slots in slots_per_task
    ]
    return {**rows[0], "more_slots": rows[1:]}


def _ratio(left: list[float], right: list[float]) -> float:
    return round(median(a / b for a, b in zip(left, right, strict=True)), 2)


def _rate(run: Callable[[int], None], seconds: float) -> float:
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        run(25)
        done += 25
    return done / (time.perf_counter() - start)


def _medley(name: str, moves: Array) -> Callable[[int], None]:
    env = gymnasium.make_vec(f"medley/{name}", num_envs=moves.shape[1], seed=1)
    env.reset()
    step = 0

    def run(count: int) -> None:
        nonlocal step
        for _ in range(count):
            env.step(moves[step % len(moves)])
            step += 1

    return run


def _ceiling(name: str, moves: Array) -> Callable[[int], None]:
    from medley.envs.metaworld.env import MetaworldEnv

    env: Any = gymnasium.make_vec(f"medley/{name}", num_envs=moves.shape[1], seed=1)
    assert isinstance(env, MetaworldEnv)
    simulator, everyone = env.simulator, np.arange(env.num_envs)
    env.reset()
    step = 0

    def run(count: int) -> None:
        nonlocal step
        for _ in range(count):
            simulator.slots["action"][:] = moves[step % len(moves)]
            simulator.pool.run(PHYSICS, everyone)
            step += 1
            if step % HORIZON == 0:
                env.reset()

    return run


def _async(name: str, moves: Array) -> tuple[Callable[[int], None], Callable[[], None]]:
    import metaworld  # noqa: F401  (registers Meta-World/...)

    env = gymnasium.make_vec(f"Meta-World/{name}", vector_strategy="async", seed=1)
    env.reset()
    step = 0

    def run(count: int) -> None:
        nonlocal step
        for _ in range(count):
            env.step(moves[step % len(moves), : env.num_envs])
            step += 1

    return run, env.close


def _resets() -> dict[str, float]:
    """Milliseconds of one thread per reset, over all tasks and their fifty goals."""
    from medley.envs.metaworld.config import MetaworldConfig
    from medley.envs.metaworld.env import MetaworldEnv

    env = MetaworldEnv(MetaworldConfig(benchmark="mt50", goals="order", threads=1))
    env.reset()
    times = []
    for _ in range(2):
        start = time.perf_counter()
        for goal in range(50):
            env.reset(options={"episode": np.full(env.num_envs, goal)})
        times.append(1000 * (time.perf_counter() - start) / (50 * env.num_envs))
    return {"first_reset_ms": round(times[0], 3), "reset_ms": round(times[1], 3)}


_CHILD = """
import time
start = time.perf_counter()
import gymnasium, medley, sys
from pathlib import Path
env = gymnasium.make_vec("medley/MT50", num_envs=50 * int(sys.argv[1]), seed=1)
env.reset()
env.step(env.action_space.sample())
print(time.perf_counter() - start)
for _ in range(int(sys.argv[2])):
    env.step(env.action_space.sample())
# Not ru_maxrss, which a process inherits from the one that started it.
peak = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(int(peak[0].split()[1]) * 1024 / 1e9 if peak else "nan")
"""


def _start_up() -> dict[str, float]:
    def child(slots: int, steps: int, environment: dict[str, str]) -> tuple[float, float]:
        command = [sys.executable, "-c", _CHILD, str(slots), str(steps)]
        out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
        return float(out[0]), float(out[1])

    with TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder, "XDG_CACHE_HOME": folder}
        print("MT50: starting for the first time", flush=True)
        first, _ = child(1, 0, environment)
        again, _ = child(1, 0, environment)
        _, memory = child(4, 600, environment)
    return {"ready_first_s": round(first, 1), "ready_s": round(again, 1), "mt50_4_slots_gb": round(memory, 2)}
