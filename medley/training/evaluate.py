"""`medley evaluate`: score a trained run again, by any protocol, in a file of its own."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medley.agents.api import agent_kind
from medley.config.schema import Config
from medley.errors import ConfigError
from medley.files import read_json, write_json
from medley.reporting.episodes import AppendedRows, EpisodeRows
from medley.reporting.run_files import file_name
from medley.training.acting import OwnPolicy
from medley.training.build import build_evaluator
from medley.training.device import prepare_device
from medley.training.eval_acting import check_eval_acting, set_acting
from medley.training.evaluator import (
    EpisodeScore,
    Evaluator,
    Interrupted,
    episode_from_json,
    episode_to_json,
    matrix,
    summarise,
)
from medley.training.policy_file import build_agent, load_policy, policy_folder, step_of
from medley.training.protocols import PROTOCOLS
from medley.training.run import Run

WORDS = (
    "setup.device",
    "experiment.protocol",
    "experiment.num_eval_episodes",
    "experiment.eval_slots_per_task",
    "experiment.eval_explore",
    "logger.episodes",
)


def evaluate(
    path: str | Path,
    words: list[str] | None = None,
    checkpoint: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_episode: Callable[[EpisodeScore, int], None] = lambda score, left: None,
    say: Callable[[str], None] = print,
) -> tuple[Path, dict[str, Any]]:
    """Writes `evaluation_<protocol>_<step>.json` after every episode, so that a stopped evaluation goes on where it
    was and ends with the same file. Returns the file and its content (`complete` is false if it was stopped).

    Evaluations that act in another way have names of their own: see `_suffix`."""
    run = Run(Path(path))
    config = run.config()
    chosen = _chosen(config, words or [])
    check_eval_acting(chosen)
    asked = any(word.startswith("setup.device=") for word in words or [])
    config = dataclasses.replace(
        config, setup=chosen.setup, experiment=chosen.experiment, agent=chosen.agent, logger=chosen.logger
    )
    folder = policy_folder(run.path, checkpoint, say)
    step = step_of(folder)
    device = prepare_device(config, or_cpu=not asked)
    evaluator = build_evaluator(config)
    set_acting(evaluator, config)
    tasks = evaluator.env.tasks
    agent = build_agent(config, evaluator.env, device)
    load_policy(agent, folder)
    episodes = config.experiment.num_eval_episodes
    assert episodes is not None
    header = {
        "format": 1,
        "protocol": config.experiment.protocol,
        "step": step,
        **_counters(folder),  # one step can have several checkpoints: a stop within many updates leaves one
        "tasks": list(tasks),
        "episodes_per_task": episodes,
        **({"agent": acting} if (acting := _acting(config)) else {}),
        **_way(config, evaluator),
        "slots_per_task": evaluator.env.slots_per_task,  # part of the exact arithmetic: see Evaluator
    }
    out = run.path / f"evaluation_{config.experiment.protocol}_{step}{_suffix(evaluator)}.json"
    scores = _earlier_scores(out, header)
    if evaluator.scores_intentions:
        scores = [score for score in scores if score.returns]  # an earlier version did not look at all intentions
    if len(scores) == episodes * len(tasks):
        say(f"All {len(scores)} episodes are in {out.name}; without that file they would be run again.")
    elif scores:
        say(f"Going on after {len(scores)} of {episodes * len(tasks)} episodes.")
    rows = EpisodeRows(config, evaluator.env)
    lines = AppendedRows(run.path, out.name) if rows.wanted else None

    def record(score: EpisodeScore) -> None:
        scores.append(score)
        ordered = sorted(scores, key=lambda s: (tasks.index(s.task), s.episode))
        if lines is not None:  # first, since a line that is there twice is not written, and one that is lost stays so
            lines.add(rows.of_score(score, step, evaluator.chosen(score.length)))
        write_json(out, {**header, "complete": False, "episodes": [episode_to_json(s) for s in ordered]})
        on_episode(score, episodes * len(tasks) - len(scores))

    try:
        final = evaluator.run(episodes, OwnPolicy(agent, device), list(scores), record, should_stop)
    except Interrupted:
        return out, {**header, "complete": False}
    finally:
        evaluator.env.close()
    result = {**header, "complete": True, **summarise(final, tasks)}
    if evaluator.scores_intentions:
        result["matrix"] = matrix(final, tasks)
    write_json(out, result)
    return out, result


def _counters(folder: Path) -> dict[str, int]:
    """As results.json has them; a policy by itself knows its step and no more."""
    if not (folder / "counters.json").is_file():
        return {}
    saved = read_json(folder / "counters.json")
    names = {"env_step": "env_step", "frames": "frames", "updates": "updates", "episode": "episodes_ended"}
    return {name: saved[key] for name, key in names.items() if key in saved}  # an earlier version knew less


def _way(config: Config, evaluator: Evaluator) -> dict[str, Any]:
    """How actions come about, where it is not the usual way: every task by itself, without noise."""
    way: dict[str, Any] = {"explore": "stochastic"} if evaluator.stochastic else {}
    if evaluator.schedule is not None:
        way |= {"schedule": config.experiment.eval_schedule, "period": evaluator.schedule.period}
    return way


def _suffix(evaluator: Evaluator) -> str:
    """`_stochastic`, and `_reach-grasp-main_25` for a schedule with a period of 25 steps."""
    suffix = "_stochastic" * evaluator.stochastic
    if evaluator.schedule is not None:
        names = "-".join(file_name(evaluator.env.intentions[k]) for k in evaluator.schedule.numbers)
        if len(names) > 100:  # a file's name has an end
            names = f"{names[:90]}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
        suffix += f"_{names}_{evaluator.schedule.period}"
    return suffix


def _chosen(config: Config, words: list[str]) -> Config:
    """Options of the evaluation: the run's own, unless another protocol brings its own number of episodes."""
    from medley.config.load import from_dict, to_dict

    saved = to_dict(config)
    if any(w.startswith("experiment.protocol=") for w in words):
        saved["experiment"]["num_eval_episodes"] = None
    else:
        saved["experiment"]["num_eval_episodes"] = saved["experiment"]["num_final_eval_episodes"]
    kind = agent_kind(config.agent.builder)
    allowed = [*WORDS, *(f"agent.{name}" for name in kind.acting)]
    if kind.has_intentions:
        allowed += ["experiment.eval_schedule", "agent.scheduler.period"]
    for word in words:
        if word.split("=")[0] == "experiment.eval_schedule" and not kind.has_intentions:
            continue  # there is something better to say about it
        if word.split("=")[0] not in allowed or "=" not in word:
            names = f"{', '.join(allowed[:-1])} and {allowed[-1]}"
            protocols = ", ".join(PROTOCOLS)
            raise ConfigError(f"{word}: an evaluation takes {names}. Protocols are {protocols}.")
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


def _earlier_scores(out: Path, header: dict[str, Any]) -> list[EpisodeScore]:
    if not out.is_file():
        return []
    earlier = read_json(out)
    if any(earlier.get(key) != value for key, value in header.items()):
        return []
    return [episode_from_json(row) for row in earlier["episodes"]]
