"""`medley bench report`: how long a page about 200 runs takes to write, how large it is, and how soon it shows curves.

The runs are made up, but as large as real ones: 20 methods with 10 seeds each, ten tasks, 40 evaluations, 400 lines of
training log, a whole configuration. Times are the browser's own, from the start of the navigation.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from medley.bench.browser import Browser
from medley.reporting.following import Follower
from medley.reporting.report import write_report

METHODS, SEEDS, TASKS, EVALUATIONS, LINES, LAST = 20, 10, 10, 40, 400, 2_000_000
OPENED = 5
TARGET_MS = 1000.0

# What the page notes: curves made, the frame with them done, a small chart per task made, table of runs made.
_MARKS = {"drawn_ms": "drawn", "painted_ms": "painted", "tasks_ms": "tasks drawn", "runs_ms": "ready"}


def bench(as_json: bool, methods: int = METHODS, seeds: int = SEEDS, opened: int = OPENED) -> dict[str, Any]:
    with TemporaryDirectory(prefix="medley-bench-") as folder, Browser() as browser:
        root = Path(folder)
        make_runs(root / "runs", methods, seeds)
        began = time.perf_counter()
        page = write_report([root / "runs"], root)
        written = time.perf_counter() - began
        times = [_open(browser, page) for _ in range(opened + 1)][1:]  # the first one also starts the browser
        follower = Follower([root / "runs"], pause=0)
        polls = [_timed(follower), _timed(follower)]
        size = page.stat().st_size
    result: dict[str, Any] = {
        "runs": methods * seeds,
        "curves": int(times[0]["curves"]),
        "megabytes": round(size / 1e6, 2),
    }
    result["write_s"] = round(written, 1)
    for name in _MARKS:
        result[name] = round(median(each[name] for each in times))
    result["first_poll_ms"], result["idle_poll_ms"] = polls
    result["within_target"] = result["painted_ms"] <= TARGET_MS
    print(
        f"{result['runs']} runs: written in {result['write_s']} s, {result['megabytes']} MB; opened: curves drawn "
        f"after {result['drawn_ms']} ms, on the screen after {result['painted_ms']} ms, tasks after "
        f"{result['tasks_ms']} ms, table of runs after {result['runs_ms']} ms (median of {opened}); served: read "
        f"in {result['first_poll_ms']} ms, asked again {result['idle_poll_ms']} ms",
        flush=True,
    )
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _open(browser: Browser, page: Path) -> dict[str, float]:
    tab = browser.open(page.as_uri())
    times = {}
    for name, mark in _MARKS.items():
        entry = f"performance.getEntriesByName('{mark}')[0]"
        tab.wait_for(f"{entry} !== undefined")
        times[name] = float(tab.value(f"{entry}.startTime"))
    times["curves"] = float(tab.value("document.getElementById('chart').dataset.drawn"))
    if tab.errors:
        raise RuntimeError(f"the page has errors: {tab.errors}")
    tab.close()
    return times


def _timed(follower: Follower) -> int:
    began = time.perf_counter()
    follower.answer()
    return round(1e3 * (time.perf_counter() - began))


def make_runs(root: Path, methods: int, seeds: int) -> None:
    """Folders as `medley train` leaves them, without checkpoints."""
    from medley.config.load import load_config, to_dict

    tasks = [f"task-{index}" for index in range(TASKS)]
    options = to_dict(load_config(["env=metaworld-mt10", "agent=state_sac"]))
    for method in range(methods):
        for seed in range(1, seeds + 1):
            rng = np.random.default_rng([method, seed])
            run = root / "metaworld-mt10" / f"method_{method + 1}" / f"seed_{seed}"
            run.mkdir(parents=True)
            pace = rng.uniform(0.4, 2.0, TASKS) * (0.6 + 0.8 * method / methods)
            _write_logs(run, tasks, pace, rng)
            options["setup"]["seed"] = seed
            options["agent"]["init_temperature"] = round(0.1 + 0.05 * method, 2)
            (run / "config.yaml").write_text(yaml.safe_dump(options, sort_keys=False))
            info = {"env": "metaworld-mt10", "agent": "state_sac", "config_name": run.parent.name, "seed": seed}
            info |= {"tasks": tasks, "protocol": "metaworld+", "status": "finished", "step": LAST, "minutes": 63.0}
            info |= {"command": f"medley train env=metaworld-mt10 setup.seed={seed}", "frames": LAST * TASKS}
            (run / "run.json").write_text(json.dumps(info))


def _write_logs(run: Path, tasks: list[str], pace: Any, rng: np.random.Generator) -> None:
    evaluations = []
    for step in np.linspace(0, LAST, EVALUATIONS).astype(int).tolist():
        level = 1 / (1 + np.exp(-8 * (pace * step / LAST - 0.5)))
        success = np.round(np.clip(level + rng.normal(0, 0.05, len(tasks)), 0, 1) * 50) / 50
        returns = 900 * level + rng.normal(0, 20, len(tasks))
        scores = {
            task: {"success": float(s), "return": float(r), "episodes": 50}
            for task, s, r in zip(tasks, success, returns, strict=True)
        }
        row = {"step": step, "frames": step * len(tasks), "updates": step // 2, "per_task": scores}
        evaluations.append(row | {"success": float(success.mean()), "return": float(returns.mean())})
    (run / "results.json").write_text(json.dumps({"tasks": tasks, "evaluations": evaluations}))
    lines = []
    for step in np.linspace(0, LAST, LINES).astype(int).tolist():
        share = step / LAST
        line = {"step": step, "frames": step * len(tasks), "updates": step // 2, "duration": 9.0}
        line |= {"episode_reward": 400 * share + rng.normal(0, 30), "success": float(np.clip(share, 0, 1))}
        line |= {"critic_loss": 200 * np.exp(-6 * share) + rng.uniform(0.1, 0.5), "actor_loss": -20 * share}
        line |= {"alpha_value": float(np.exp(-3 * share)), "batch_reward": share, "actor_entropy": -4 * share}
        line |= {f"alpha_{index}": float(np.exp(-3 * share - 0.1 * index)) for index in range(len(tasks))}
        lines.append(json.dumps(line))
    (run / "train.log").write_text("\n".join(lines) + "\n")
