"""The parts of a run that are different where one world has several intentions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from medley.agents.api import Agent, Spaces, agent_kind
from medley.config.schema import Config
from medley.data.examples import EXAMPLES, Recorded, stacked
from medley.data.recording import default_file, env_id, has_examples
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError
from medley.replay.experts import Array, Experts
from medley.replay.intentions import IntentionReplay
from medley.training.intention_collector import IntentionCollector
from medley.training.intention_schedulers import IntentionScheduler


def build_intention_replay(
    config: Config, env: MultiTaskEnv, spaces: Spaces, shared: dict[str, Any]
) -> IntentionReplay:
    options: Any = config.agent
    experts = _experts(config, env, spaces, shared["device"]) if agent_kind(options.builder).uses_experts else None
    rest = {k: v for k, v in shared.items() if k not in ("tasks", "uniform")} | {"obs_dim": spaces.obs_dim}
    replay = IntentionReplay(len(spaces.tasks), experts, options.expert.share, **rest)
    if options.prior.path is not None:
        replay.prior, replay.prior_share = _prior(config, spaces, rest), options.prior.share
    return replay


def check_recordings(config: Config) -> None:
    """Files that an agent is to learn from must be there, whole, and of this env."""
    options: Any = config.agent
    if agent_kind(options.builder).has_intentions:
        for path in (options.expert.path, options.prior.path):
            if path is not None:
                Recorded.load(path, env=env_id(config.env))


def build_intention_collector(config: Config, env: MultiTaskEnv, agent: Agent, seed: int) -> IntentionCollector:
    options: Any = config.agent
    scheduler = IntentionScheduler(
        options.scheduler, len(env.intentions), env.num_envs, env.horizon, options.discount, seed + 1
    )
    label = _label(options)
    return IntentionCollector(env, seed, scheduler, agent.uses_experts or label is not None, label)


def _label(options: Any) -> float | None:
    """What an agent that learns from successes gets where there is none."""
    return options.label if getattr(options, "rewards", "env") == "success" else None


def _experts(config: Config, env: MultiTaskEnv, spaces: Spaces, device: torch.device) -> Experts:
    options: Any = config.agent
    path = options.expert.path or (None if has_examples(env) else default_file(config.env))
    if path is None:
        return Experts(_made_up(config, env, spaces), device, options.expert.noise)
    if options.expert.path is None and not Path(path).is_file():
        task = f" env.task={config.env.task}" if hasattr(config.env, "task") else ""
        raise ConfigError(
            f"{config.env.name} cannot make up examples of success, and there is no {path}: record them with `medley "
            f"demos env={config.env.name}{task}`, or name another file, agent.expert.path=..."
        )
    recorded = Recorded.load(path, env=env_id(config.env))
    rows = stacked(recorded, _frames(recorded.observations.shape[1], spaces))
    count = options.expert.examples if recorded.about.holds == EXAMPLES else None
    own = [_first(rows.of_task(name), count) for name in spaces.tasks]
    for name, some in zip(spaces.tasks, own, strict=True):
        if not len(some):
            raise ConfigError(f"{path} has nothing for {name}: record it with `medley demos`.")
    action, after = ([getattr(some, key) for some in own] for key in ("actions", "next_observations"))
    return Experts(
        [some.observations for some in own],
        device,
        options.expert.noise,
        after if after[0] is not None else None,
        action if action[0] is not None else None,
    )


def _prior(config: Config, spaces: Spaces, rest: dict[str, Any]) -> IntentionReplay:
    """Demonstrations of any of the intentions as a replay of their own, with the rewards that all of them had."""
    options: Any = config.agent
    path, label = options.prior.path, _label(options)
    recorded = Recorded.load(path, env=env_id(config.env))
    if recorded.about.holds == EXAMPLES:
        raise ConfigError(f"agent.prior.path={path} holds examples; whole demonstrations are needed.")
    if missing := set(spaces.tasks) - set(recorded.about.tasks):
        raise ConfigError(f"{path} has no rewards for {', '.join(sorted(missing))}: record it again in this env.")
    rows = stacked(recorded, _frames(recorded.observations.shape[1], spaces))
    columns = [recorded.about.tasks.index(name) for name in spaces.tasks]
    last = np.append(rows.begins()[1:], True)
    values = {
        "obs": rows.observations,
        "action": rows.actions,
        "reward": rows.rewards[:, columns] if label is None else np.where(rows.success[:, columns], 1.0, label),
        "next_obs": rows.next_observations,
        "terminated": rows.terminations,
        "ended": last,
        "switched": last,
        "intention": rows.task_id,
    }
    prior = IntentionReplay(len(spaces.tasks), None, 0.0, **{**rest, "slots": 1, "capacity": len(rows)})
    for name, value in values.items():
        prior.rows[name].copy_(torch.from_numpy(np.asarray(value)).unsqueeze(0))
    prior.set_written(len(rows))
    return prior


def _first(rows: Recorded, count: int | None) -> Recorded:
    return rows if count is None else rows.rows(np.arange(min(count, len(rows))))


def _frames(size: int, spaces: Spaces) -> int:
    """How many observations of a recording one of the agent's is."""
    times, rest = divmod(spaces.obs_dim, size)
    if rest:
        raise ConfigError(f"examples of {size} numbers do not fit observations of {spaces.obs_dim}.")
    return times


def _made_up(config: Config, env: MultiTaskEnv, spaces: Spaces) -> list[Array]:
    """Examples that the env makes up, the same for every run with this seed."""
    options: Any = config.agent
    random = np.random.default_rng(np.random.SeedSequence([config.setup.seed, 0xE8A3]))
    frames = [env.success_examples(k, options.expert.examples, random) for k in range(len(spaces.tasks))]
    return [np.tile(own, (1, _frames(own.shape[1], spaces))) for own in frames]
