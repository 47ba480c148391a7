"""Run folders that look like real ones, written in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import yaml

from medley.bench.browser import Browser, find_browser

MakeRun = Callable[..., Path]

# Runs as a script, as an attribute, and as a formula, wherever a text is taken for one of them.
HOSTILE = "$\\frac{$</title><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def _write_run(
    root: Path,
    env: str = "metaworld-mt10",
    config: str = "state_sac",
    seed: int = 1,
    tasks: Sequence[str] = ("reach", "push", "pick-place"),
    steps: Sequence[int] = tuple(range(0, 100_001, 10_000)),
    speed: float = 1.0,
    status: str = "finished",
    protocol: str = "metaworld+",
    folder: str = "",
    options: str = "agent: {batch_size: 128, lr: 0.0003}",
    agent: str = "state_sac",
) -> Path:
    run = root / (folder or f"{env}/{config}/seed_{seed}")
    run.mkdir(parents=True)
    rng = np.random.default_rng([seed, len(tasks), len(config)])
    pace = rng.uniform(0.4, 2.0, len(tasks)) * speed
    last = max(steps)
    evaluations, eval_rows, train_rows = [], [], []
    for step in steps:
        level = 1 / (1 + np.exp(-8 * (pace * step / last - 0.5)))
        success = np.round(np.clip(level + rng.normal(0, 0.05, len(tasks)), 0, 1) * 50) / 50
        returns = 900 * level + rng.normal(0, 20, len(tasks))
        counts = {"step": step, "frames": step * len(tasks), "updates": step // 2}
        evaluations.append(
            {
                **counts,
                "success": success.mean(),
                "return": returns.mean(),
                "per_task": {
                    task: {"success": s, "return": r, "episodes": 50}
                    for task, s, r in zip(tasks, success, returns, strict=True)
                },
                "episodes": [],
            }
        )
        row = {**counts, "success": success.mean(), "episode_reward": returns.mean(), "protocol": protocol}
        for index in range(len(tasks)):
            row[f"success_env_index_{index}"] = success[index]
            row[f"episode_reward_env_index_{index}"] = returns[index]
        eval_rows.append(row)
    for index, step in enumerate(np.linspace(0, last, 400).astype(int)):
        row = {
            "step": int(step),
            "frames": int(step) * len(tasks),
            "updates": int(step) // 2,
            "episode": index,
        }
        row |= {"duration": 0.8, "episode_reward": 400 * step / last + rng.normal(0, 30)}
        row |= {
            "success": float(np.clip(step / last + rng.normal(0, 0.1), 0, 1)),
            "batch_reward": step / last,
        }
        if step:  # the first rows of a log come before the first update
            row |= {"critic_loss": 200 * np.exp(-6 * step / last) + rng.uniform(0.1, 0.5)}
            row |= {"actor_loss": -20 * step / last + rng.normal(0, 1)}
            row |= {"alpha_value": float(np.exp(-3 * step / last))}
            row |= {f"alpha_{i}": float(np.exp(-(2 + i / len(tasks)) * step / last)) for i in range(len(tasks))}
        train_rows.append(row)
    info = {
        "format": 1,
        "env": env,
        "agent": agent,
        "config_name": config,
        "seed": seed,
        "tasks": list(tasks),
        "protocol": protocol,
        "status": status,
        "step": last,
        "frames": last * len(tasks),
        "updates": last // 2,
        "minutes": 12.5,
        "command": f"medley train env={env} agent=state_sac seed={seed}",
        "versions": {"medley": "0.1.0", "torch": "2.13.0"},
        "machine": {"cpu": "two cores"},
        "commit": "0123abc",
    }
    (run / "run.json").write_text(json.dumps(info))
    tree = yaml.safe_load(options) | {"setup": {"seed": seed}}
    (run / "config.yaml").write_text(yaml.safe_dump(tree))
    results = {"format": 1, "protocol": protocol, "tasks": list(tasks), "evaluations": evaluations}
    (run / "results.json").write_text(json.dumps(results))
    (run / "eval.log").write_text("".join(json.dumps(row) + "\n" for row in eval_rows))
    (run / "train.log").write_text("".join(json.dumps(row) + "\n" for row in train_rows))
    return run


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writes a run below tmp_path/runs and returns its folder; see `_write_run` for what can be chosen."""

    def make(**options: object) -> Path:
        return _write_run(tmp_path / "runs", **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def hostile() -> str:
    return HOSTILE


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests: it takes a second to start."""
    if find_browser() is None:
        pytest.skip("no Chromium on this machine")
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def write_run() -> MakeRun:
    """For runs that many tests share: the folder above them comes first."""
    return _write_run


@pytest.fixture(scope="session")
def film() -> Callable[[Path], None]:
    """Writes a video of two seconds that a browser plays."""

    def write(path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        writer = imageio_ffmpeg.write_frames(str(path), (64, 48), fps=10, macro_block_size=1, codec="libx264")
        writer.send(None)
        for index in range(20):
            writer.send(np.full((48, 64, 3), 10 * index, np.uint8).tobytes())
        writer.close()

    return write
