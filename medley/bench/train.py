"""`medley bench train`: a whole multi-task run on MT10, evaluations and checkpoints included.

On a CPU Stable-Baselines3's SAC runs beside it, on the same ten tasks with a one-hot task label, in worker
processes, with the same batch, network width and number of updates. On a GPU the figures that others reached on the
same kind of GPU stand beside medley's.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medley.bench.peers import peer_package

TASKS, BATCH, WIDTH, DEPTH = 10, 1280, 400, 3
# One H200 and 16 cores, the same network, batch and one update per step of every task (metaworld-algorithms, JAX).
PUBLISHED = {"metaworld-algorithms on an H200, env steps/s": 1438}


def bench(seconds: float, as_json: bool, options: list[str]) -> dict[str, Any]:
    """Trains for about `seconds` on each side and prints a table; returns the figures."""
    result = _medley(seconds, options)
    print(f"{'':44}{'env steps/s':>12}{'updates/s':>12}")
    print(f"{'medley, MT10, the whole run':44}{result['medley_sps']:>12}{result['medley_ups']:>12}")
    if result["device"].startswith("cuda"):
        for name, figure in PUBLISHED.items():
            print(f"{name:44}{figure:>12}")
            result["ratio_published"] = round(result["medley_sps"] / figure, 2)
    else:
        result |= _stable_baselines3(seconds)
        result["ratio"] = round(result["medley_sps"] / result["sb3_sps"], 2)
        print(f"{'Stable-Baselines3, the same ten tasks':44}{result['sb3_sps']:>12}{result['sb3_ups']:>12}")
        print(f"ratio {result['ratio']}")
    if as_json:
        print(json.dumps(result), flush=True)
    return result


def _medley(seconds: float, options: list[str]) -> dict[str, Any]:
    """A real run, cut off after `seconds` of training; compiling and building count separately."""
    from medley.bench.learner import plain_agent
    from medley.config.load import load_config
    from medley.training.build import build
    from medley.training.experiment import Experiment
    from medley.training.run import Run

    words = [
        "env=metaworld-mt10",
        "agent.trunk=multi_head",
        "agent.alpha_per_task=true",
        f"replay_buffer.batch_size={BATCH}",
        "experiment.init_steps=400",
        "experiment.eval_at_start=false",
        "experiment.save_video=false",
        "logger.console=none",
    ]
    with TemporaryDirectory() as folder:
        config = load_config(plain_agent([*words, *options, f"setup.save_dir={folder}/run"]))
        run = Run(Path(folder) / "run")
        run.create(config)
        began = time.monotonic()
        parts = build(config)
        experiment = Experiment(config, run, parts)
        first: list[tuple[float, int, int]] = []  # time, steps and updates when the first updates were done

        def should_stop() -> bool:
            if not first and parts.learner.updates:
                first.append((time.monotonic(), experiment.step, parts.learner.updates))
            return bool(first) and time.monotonic() - first[0][0] > seconds

        experiment.train(should_stop)
        ended = time.monotonic()
    at, steps, updates = first[0]
    return {
        "medley_sps": round((experiment.step - steps) * TASKS / (ended - at), 1),
        "medley_ups": round((parts.learner.updates - updates) / (ended - at), 1),
        "ready_s": round(at - began, 1),
        "seconds": round(ended - at, 1),
        "evaluations": len(experiment.evaluations.made),
        "device": str(parts.device),
        "slots_per_task": config.env.slots_per_task,
        "options": options,
    }


def _make_env(task: int) -> Any:
    import gymnasium
    import metaworld
    import numpy as np

    name = sorted(metaworld.MT10(seed=1).train_classes)[task]
    env = gymnasium.make("Meta-World/MT1", env_name=name, seed=1)
    label = np.eye(TASKS)[task]
    space = gymnasium.spaces.Box(-np.inf, np.inf, (39 + TASKS,), np.float64)
    return gymnasium.wrappers.TransformObservation(env, lambda obs: np.concatenate([obs, label]), space)


def _stable_baselines3(seconds: float) -> dict[str, Any]:
    sb3 = peer_package("stable_baselines3")
    from stable_baselines3.common.vec_env import SubprocVecEnv

    envs = SubprocVecEnv([partial(_make_env, task) for task in range(TASKS)])
    model = sb3.SAC(
        "MlpPolicy",
        envs,
        batch_size=BATCH,
        learning_starts=400 * TASKS,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [WIDTH] * DEPTH},
        device="cpu",
        seed=1,
    )
    model.learn(401 * TASKS)
    steps, updates, began = model.num_timesteps, model._n_updates, time.monotonic()
    while time.monotonic() - began < seconds:
        model.learn(5 * TASKS, reset_num_timesteps=False)
    spent = time.monotonic() - began
    envs.close()
    return {
        "sb3_sps": round((model.num_timesteps - steps) / spent, 1),
        "sb3_ups": round((model._n_updates - updates) / spent, 1),
    }
