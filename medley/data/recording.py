"""From an env and somebody who acts in it to recordings of examples and demonstrations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medley.data.examples import DEMONSTRATIONS, EXAMPLES, About, Array, Recorded
from medley.data.rollouts import Act, Found, Recorder, Wish
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError

SLOTS = 8  # episodes at a time, shared between tasks


def env_id(cfg: Any) -> str:
    """What an env's recordings are known by: its name, and its task where there is one to choose."""
    task = getattr(cfg, "task", None)
    if not task:
        return str(cfg.name)
    from medley.envs.metaworld.names import resolve_task

    return f"{cfg.name}-{resolve_task(task)[0]}"


def default_file(cfg: Any) -> Path:
    """Where `medley demos` writes the examples of an env unless told otherwise."""
    return Path("demos", f"{env_id(cfg)}.npz")


def describe(cfg: Any, env: MultiTaskEnv, seed: int, source: str) -> About:
    from medley.training.machine import describe_machine

    made_by = describe_machine()
    space: Any = env.single_action_space
    return About(
        env_id(cfg),
        tuple(env.intentions or env.tasks),
        layout={name: list(span) for name, span in env.layout.items()},
        control_hz=env.control_hz,
        action_low=space.low.tolist(),
        action_high=space.high.tolist(),
        seed=seed,
        source=source,
        versions=made_by["versions"],
        commit=made_by["commit"],
    )


def has_script(env: MultiTaskEnv) -> bool:
    return type(env).expert_actions is not MultiTaskEnv.expert_actions


def has_examples(env: MultiTaskEnv) -> bool:
    return type(env).success_examples is not MultiTaskEnv.success_examples


def record(
    env: MultiTaskEnv,
    act: Act,
    wish: Wish,
    about: About,
    able: Sequence[int],
    on_progress: Callable[[int], None] = lambda rows: None,
) -> tuple[Recorded | None, Recorded | None, Found]:
    """Examples, demonstrations (None where none were asked for), and how often it went well."""
    if env.single_observation_space.shape is None or len(env.single_observation_space.shape) != 1:
        raise ConfigError("recordings hold observations of numbers; this env shows pictures.")
    env.terminate_on_success = False  # what comes after a success is wanted too
    found = Recorder(env, wish, able, about.seed).run(act, on_progress)
    rates = {about.tasks[k]: round(found.done[k] / n, 4) for k, n in enumerate(found.tried) if n}
    about = dataclasses.replace(about, success_rate=rates)
    examples = _joined(about, EXAMPLES, found.examples) if found.examples else None
    demos = _joined(about, DEMONSTRATIONS, found.demos) if found.demos else None
    return examples, demos, found


def made_up(env: MultiTaskEnv, wish: Wish, about: About) -> Recorded:
    """Examples that the env itself gives: single states, which nobody has travelled to."""
    rng = np.random.default_rng([about.seed, 0xDE31])
    parts = []
    for task in wish.tasks:
        rows = env.success_examples(task, wish.examples, rng)
        own = np.arange(len(about.tasks)) == task
        parts += [
            {
                "observations": row[None],
                "rewards": np.zeros((1, len(own))),
                "success": own[None],
                "terminations": np.zeros(1),
                "truncations": np.zeros(1),
                "step": np.zeros(1),
                "task_id": np.full(1, task),
            }
            for row in rows
        ]
    return _joined(about, EXAMPLES, parts)


def _joined(about: About, holds: str, parts: list[dict[str, Array]]) -> Recorded:
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    rows["episode_id"] = np.repeat(np.arange(len(parts)), [len(part["step"]) for part in parts])
    return Recorded(dataclasses.replace(about, holds=holds), **rows)
