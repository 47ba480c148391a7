"""The parts of a run that are different where one world has several intentions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from medley.agents.api import Agent, Spaces, agent_kind
from medley.config.schema import Config
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
    rest = {k: v for k, v in shared.items() if k not in ("tasks", "uniform")}
    return IntentionReplay(len(spaces.tasks), experts, options.expert.share, obs_dim=spaces.obs_dim, **rest)


def build_intention_collector(config: Config, env: MultiTaskEnv, agent: Agent, seed: int) -> IntentionCollector:
    options: Any = config.agent
    scheduler = IntentionScheduler(
        options.scheduler, len(env.intentions), env.num_envs, env.horizon, options.discount, seed + 1
    )
    return IntentionCollector(env, seed, scheduler, by_success=agent.uses_experts)


def _experts(config: Config, env: MultiTaskEnv, spaces: Spaces, device: torch.device) -> Experts:
    options: Any = config.agent
    return Experts(_made_up(config, env, spaces), device, options.expert.noise)


def _made_up(config: Config, env: MultiTaskEnv, spaces: Spaces) -> list[Array]:
    """Examples that the env makes up, the same for every run with this seed."""
    options: Any = config.agent
    random = np.random.default_rng(np.random.SeedSequence([config.setup.seed, 0xE8A3]))
    try:
        frames = [env.success_examples(k, options.expert.examples, random) for k in range(len(spaces.tasks))]
    except NotImplementedError:
        raise ConfigError(
            f"{config.env.name} cannot make up examples of success: record some with `medley demos "
            f"env={config.env.name}` and name the file, agent.expert.path=..."
        ) from None
    times, rest = divmod(spaces.obs_dim, frames[0].shape[1])
    if rest:
        raise ConfigError(f"examples of {frames[0].shape[1]} numbers do not fit observations of {spaces.obs_dim}.")
    return [np.tile(own, (1, times)) for own in frames]
