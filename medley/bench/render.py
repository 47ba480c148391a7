"""`medley bench render`: dm_control's own pictures beside those of env.render_profile=fast, in speed and in looks.

Both sides draw the same states of the ten testbed tasks, 84×84 from camera 0, in turns, so that a noisy machine
disturbs both alike. Only drawing is timed.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.envs.dmc.config import PROFILES
from medley.envs.dmc.names import TESTBED
from medley.envs.dmc.rendering import Camera, renderer_of, set_quality
from medley.envs.dmc.suite import import_suite
from medley.envs.gl import how_to_draw, is_software, prepare_gl
from medley.errors import MedleyError

SIZE = 84
BLOCK = 10  # states between two looks at the clock
LEAST = 50  # states
BETWEEN = 4  # control steps from one state to the next
SEEN = 8  # a difference of more than this of 255 counts as one


def bench(seconds: float, as_json: bool, tasks: tuple[str, ...] = TESTBED) -> dict[str, Any]:
    """Draws for about `seconds` on the slower side, divided between the tasks, and prints a table."""
    gl = prepare_gl()
    if gl is None:
        raise MedleyError(how_to_draw())
    rows: list[dict[str, Any]] = []
    print(f"{'task':20}{'exact':>8}{'fast':>8}{'ratio':>8}{'mean |Δ|':>10}{'99.9 %':>8}{'|Δ| > 8':>9}", flush=True)
    for task in tasks:
        row, renderer = _task(import_suite(gl), task, seconds / len(tasks))
        rows.append(row)
        print(
            f"{task:20}{row['exact_fps']:>8}{row['fast_fps']:>8}{row['ratio']:>8}{row['mean_difference']:>10}"
            f"{row['percentile_999']:>8}{100 * row['share_above_8']:>8.2f}%",
            flush=True,
        )
    result = {
        "renderer": renderer,
        "software": is_software(renderer),
        "ratio": round(median(row["ratio"] for row in rows), 2),
        "lowest_ratio": min(row["ratio"] for row in rows),
        "largest_mean_difference": max(row["mean_difference"] for row in rows),
        "tasks": rows,
    }
    print(f"drawn by {renderer}; frames/s at {SIZE}×{SIZE}; differences of 255")
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _task(suite: Any, task: str, seconds: float) -> tuple[dict[str, Any], str]:
    """The figures of one task, and what drew it."""
    envs = [suite.load(*task.split("-"), {"random": 0}) for _ in PROFILES]
    cameras = []
    for env, profile in zip(envs, PROFILES, strict=True):
        set_quality(env.physics, profile, SIZE)
        cameras.append(Camera(env.physics, SIZE, SIZE, 0))
    renderer = renderer_of(envs[0].physics)
    rates: list[list[float]] = []
    differences: list[npt.NDArray[np.int16]] = []
    rng = np.random.default_rng(0)
    for env, camera in zip(envs, cameras, strict=True):
        env.reset()
        camera.take()  # the first picture takes longer
    until = time.perf_counter() + seconds
    while len(differences) < LEAST or time.perf_counter() < until:
        spent = [0.0, 0.0]
        for _ in range(BLOCK):
            _move(envs, rng)
            pictures: list[npt.NDArray[np.int16]] = []
            for side, camera in enumerate(cameras):
                start = time.perf_counter()
                picture = camera.take()
                spent[side] += time.perf_counter() - start
                pictures.append(picture.astype(np.int16))
            differences.append(np.abs(pictures[0] - pictures[1]))
        rates.append([BLOCK / total for total in spent])
    for env in envs:
        env.physics.free()
    difference = np.stack(differences)
    row = {
        "task": task,
        "states": len(differences),
        "exact_fps": round(median(exact for exact, _ in rates), 1),
        "fast_fps": round(median(fast for _, fast in rates), 1),
        "ratio": round(median(fast / exact for exact, fast in rates), 2),
        "mean_difference": round(float(difference.mean()), 3),
        "percentile_999": round(float(np.percentile(difference, 99.9)), 1),
        "share_above_8": round(float((difference > SEEN).mean()), 5),
    }
    return row, renderer


def _move(envs: list[Any], rng: np.random.Generator) -> None:
    """Both to the same next state, by the same random actions from the same start."""
    spec = envs[0].action_spec()
    for _ in range(BETWEEN):
        action = rng.uniform(spec.minimum, spec.maximum)
        for env in envs:
            env.step(action)  # which begins anew after the last step of an episode
