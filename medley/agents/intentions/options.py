"""Options of agents that learn several intentions in one world, and which combinations of them make sense."""

from __future__ import annotations

import math
from dataclasses import dataclass

from medley.agents.sac_options import SACConfig
from medley.agents.sac_options import check as check_sac
from medley.config.options import opt
from medley.errors import ConfigError, closest
from medley.nn.trunks import mixes_rows
from medley.training.intention_schedulers import IntentionSchedulerConfig, check_intention_scheduler

PENALTIES = ("none", "value", "c2f", "cql")


@dataclass
class ExpertConfig:
    path: str | None = opt(None, "file of examples or demonstrations (`medley demos`); null: the env makes examples up")
    examples: int = opt(200, "how many examples of every intention are used")
    share: float = opt(0.5, "share of a batch that are experts' rows, divided between intentions")
    decay: float = opt(1.0, "factor per update on the weight of experts' rows")
    shared: bool = opt(False, "every intention learns from the rows of all experts, not of its own alone; actors too")
    noise: float = opt(0.1, "noise on examples, relative to the deviation of each number over them")
    boot: bool = opt(True, "the value of an example goes on with that of its successor; else it ends there")


@dataclass
class PriorConfig:
    path: str | None = opt(None, "demonstrations whose steps and rewards are part of every batch (RLPD); null: none")
    share: float = opt(0.5, "of the rows that are not experts', how many come from there")


@dataclass
class PenaltyConfig:
    kind: str = opt(
        "none",
        "what keeps values within bounds: none | value (VPACE: those that rewards allow, and on replay those that "
        "examples have) | c2f (all towards zero) | cql (what the policy would do, below what was done)",
    )
    weight: float = opt(10.0, "its weight in the critic's loss")
    window: int = opt(50, "kind=value: batches whose median is the bound on replay")


@dataclass
class IntentionConfig(SACConfig):
    scheduler: IntentionSchedulerConfig = opt(IntentionSchedulerConfig(), "")
    expert: ExpertConfig = opt(ExpertConfig(), "")
    prior: PriorConfig = opt(PriorConfig(), "")
    penalty: PenaltyConfig = opt(PenaltyConfig(), "")
    main_weight: float = opt(1.0, "weight of the main intention in the losses, relative to the others")
    entropy_in_target: bool = opt(True, "values count the policy's entropy to come")


@dataclass
class ExampleConfig(IntentionConfig):
    label: float = opt(-1.0, "reward of everything but examples, whose reward is 1")


def check(options: IntentionConfig, intentions: int) -> None:
    check_sac(options, intentions)
    check_intention_scheduler(options.scheduler, intentions)
    e, p = options.expert, options.penalty
    if mixes_rows(options.trunk):
        raise ConfigError(f"agent.trunk={options.trunk} mixes the rows of a batch: experts' rows need another trunk.")
    if options.reward_normalization != "none":
        raise ConfigError("agent.reward_normalization: intentions take rewards as they are; use agent.reward_scale.")
    if p.kind not in PENALTIES:
        raise ConfigError(f"agent.penalty.kind={p.kind!r} does not exist.{closest(p.kind, PENALTIES)}")
    if p.kind == "value" and options.discount >= 1:
        raise ConfigError("agent.penalty.kind=value needs agent.discount below 1: values must be bounded.")
    if not 0 <= e.share < 1 or not 0 < e.decay <= 1:
        raise ConfigError(f"agent.expert: share={e.share} must lie in [0, 1), decay={e.decay} in (0, 1].")
    if not 0 < options.prior.share < 1:
        raise ConfigError(f"agent.prior.share={options.prior.share} must lie between 0 and 1.")
    for key, number, least in (
        ("expert.examples", e.examples, 1),
        ("penalty.window", p.window, 1),
        ("expert.noise", e.noise, 0),
        ("penalty.weight", p.weight, 0),
    ):
        if number < least:
            raise ConfigError(f"agent.{key}={number} must be at least {least}.")
    if not 0 < options.main_weight < math.inf:
        raise ConfigError(f"agent.main_weight={options.main_weight} must be positive.")
