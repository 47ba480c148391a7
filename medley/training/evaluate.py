"""`medley evaluate`: score a trained run again, by any protocol, in a file of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medley.agents.api import agent_kind
from medley.config.schema import Config
from medley.errors import ConfigError
from medley.files import read_json, write_json
from medley.training.acting import OwnPolicy
from medley.training.build import build_evaluator, prepare_device
from medley.training.checkpoints import load_agent
from medley.training.evaluator import EpisodeScore, Interrupted, episode_from_json, episode_to_json, summarise
from medley.training.policy import build_agent
from medley.training.protocols import PROTOCOLS
from medley.training.run import Run
from medley.training.start import newest_checkpoint


def evaluate(
    path: str | Path,
    words: list[str] | None = None,
    checkpoint: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_episode: Callable[[EpisodeScore, int], None] = lambda score, left: None,
    say: Callable[[str], None] = print,
) -> tuple[Path, dict[str, Any]]:
    """Writes `evaluation_<protocol>_<step>.json` after every episode, so that a stopped evaluation goes on where it
    was and ends with the same file. Returns the file and its content (`complete` is false if it was stopped)."""
    run = Run(Path(path))
    config = run.config()
    chosen = _chosen(config, words or [])
    config = dataclasses.replace(config, experiment=chosen.experiment, agent=chosen.agent)
    folder = _checkpoint_folder(run.path, checkpoint, say)
    step = int(folder.name.removeprefix("long_term_"))
    device = prepare_device(config)
    evaluator = build_evaluator(config)
    tasks = evaluator.env.tasks
    agent = build_agent(config, evaluator.env, device)
    agent.load_weights(load_agent(folder))
    episodes = config.experiment.num_eval_episodes
    assert episodes is not None
    header = {
        "format": 1,
        "protocol": config.experiment.protocol,
        "step": step,
        "tasks": list(tasks),
        "episodes_per_task": episodes,
        **({"agent": acting} if (acting := _acting(config)) else {}),
        "slots_per_task": evaluator.env.slots_per_task,  # part of the exact arithmetic: see Evaluator
    }
    out = run.path / f"evaluation_{config.experiment.protocol}_{step}.json"
    scores = _earlier_scores(out, header)
    if scores:
        say(f"Going on after {len(scores)} of {episodes * len(tasks)} episodes.")

    def record(score: EpisodeScore) -> None:
        scores.append(score)
        ordered = sorted(scores, key=lambda s: (tasks.index(s.task), s.episode))
        rows = [episode_to_json(s) for s in ordered]
        write_json(out, {**header, "complete": False, "episodes": rows})
        on_episode(score, episodes * len(tasks) - len(scores))

    try:
        final = evaluator.run(episodes, OwnPolicy(agent, device), list(scores), record, should_stop)
    except Interrupted:
        return out, {**header, "complete": False}
    finally:
        evaluator.env.close()
    result = {**header, "complete": True, **summarise(final, tasks)}
    write_json(out, result)
    return out, result


def _chosen(config: Config, words: list[str]) -> Config:
    """Options of the evaluation: the run's own, unless another protocol brings its own number of episodes."""
    from medley.config.load import from_dict, to_dict

    saved = to_dict(config)
    if any(w.startswith("experiment.protocol=") for w in words):
        saved["experiment"]["num_eval_episodes"] = None
    else:
        saved["experiment"]["num_eval_episodes"] = saved["experiment"]["num_final_eval_episodes"]
    acting = tuple(f"agent.{name}=" for name in agent_kind(config.agent.builder).acting)
    allowed = ("experiment.protocol=", "experiment.num_eval_episodes=", "experiment.eval_slots_per_task=", *acting)
    for word in words:
        if not word.startswith(allowed):
            more = "".join(f", {name.rstrip('=')}" for name in acting)
            raise ConfigError(
                f"{word}: an evaluation takes experiment.protocol ({', '.join(PROTOCOLS)}), "
                f"experiment.num_eval_episodes and experiment.eval_slots_per_task{more}."
            )
    return from_dict(saved, words)


def _acting(config: Config) -> dict[str, Any]:
    """How the agent was told to act, where there is a choice."""
    out = {}
    for name in agent_kind(config.agent.builder).acting:
        value: Any = config.agent
        for part in name.split("."):
            value = getattr(value, part)
        out[name] = value
    return out


def _checkpoint_folder(run: Path, step: int | None, say: Callable[[str], None]) -> Path:
    if step is None:
        return newest_checkpoint(run, say)
    for name in (str(step), f"long_term_{step}"):
        if (run / "checkpoints" / name / "agent.safetensors").is_file():
            return run / "checkpoints" / name
    there = sorted(p.name for p in (run / "checkpoints").glob("*") if not p.name.startswith("."))
    raise ConfigError(f"{run} has no checkpoint {step}; there are {', '.join(there) or 'none'}.")


def _earlier_scores(out: Path, header: dict[str, Any]) -> list[EpisodeScore]:
    if not out.is_file():
        return []
    earlier = read_json(out)
    if earlier.get("complete") or any(earlier.get(k) != v for k, v in header.items()):
        return []
    return [episode_from_json(row) for row in earlier["episodes"]]
