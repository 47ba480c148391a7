"""The options of MUST."""

from __future__ import annotations

import math
from dataclasses import dataclass

from medley.agents import sac_options
from medley.agents.sac_options import SACConfig
from medley.config.options import opt
from medley.errors import ConfigError, closest


@dataclass
class MustConfig:
    pruning_ratio: float = opt(0.8, "share of every layer's weights that a task's mask removes, 0 to 1")
    update_interval: int = opt(50, "masks are refreshed every so many iterations (an iteration: an episode per task)")
    update_end: int = opt(3000, "masks stay as they are from this iteration on")
    refresh_updates: int = opt(20, "updates of a refresh, in which SAC's losses train the generators too")
    settle_updates: int = opt(1000, "updates after a refresh in which targets stay as they were and the actor rests")
    supervised: bool = opt(True, "a refresh begins by making masks as alike as the tasks' trajectories are")
    trajectories: bool = opt(True, "masks depend on encoded trajectories of the task, not on its number alone")
    generator: str = opt("lowrank", "how logits are made: lowrank | dense (15 times as many parameters)")
    rank: int = opt(8, "rank of the lowrank generator's product")
    hidden: int = opt(256, "units of the generator's hidden layer")
    latent: int = opt(256, "units of the trajectory encoder, each way, and of what it gives")
    generator_lr: float = opt(1e-4, "learning rate of generators and encoders on the similarity loss")
    generator_rl_lr: float | None = opt(None, "the same on SAC's losses; null: that of the network they mask")
    encoder_interval: int = opt(5, "in a refresh, encoders run and learn in every n-th update")
    sl_steps: int = opt(5, "steps on the similarity loss per refresh")
    mask_similarity: str = opt("hamming", "how alike two masks are: hamming (normalised) | jaccard")
    success_only: bool = opt(False, "the similarity loss takes only tasks that have succeeded")
    window: int = opt(10, "episodes kept per task, successful ones once there was one")
    episodes: int = opt(4, "newest of them that are encoded, and averaged")
    stride: int = opt(10, "every n-th state of an episode is kept")
    mask_bias: bool = opt(False, "mask biases too")


@dataclass
class MustSACConfig(SACConfig):
    must: MustConfig = opt(MustConfig(), "")


def check(options: MustSACConfig, tasks: int) -> None:
    sac_options.check(options, tasks)
    o = options.must
    if options.trunk != "must":
        raise ConfigError(f"agent=must masks a network of its own: agent.trunk={options.trunk} does not go with it.")
    if not 0 <= o.pruning_ratio < 1:
        raise ConfigError(f"agent.must.pruning_ratio={o.pruning_ratio} must lie in [0, 1): 1 would leave no weights.")
    for key, value, known in (
        ("generator", o.generator, ["lowrank", "dense"]),
        ("mask_similarity", o.mask_similarity, ["hamming", "jaccard"]),
    ):
        if value not in known:
            raise ConfigError(f"agent.must.{key}={value!r} does not exist.{closest(value, known)}")
    for key in (
        "update_interval",
        "refresh_updates",
        "rank",
        "hidden",
        "latent",
        "encoder_interval",
        "window",
        "episodes",
        "stride",
    ):
        if getattr(o, key) < 1:
            raise ConfigError(f"agent.must.{key}={getattr(o, key)} must be at least 1.")
    for key in ("update_end", "settle_updates", "sl_steps"):
        if getattr(o, key) < 0:
            raise ConfigError(f"agent.must.{key}={getattr(o, key)} must be at least 0.")
    for key in ("generator_lr", "generator_rl_lr"):
        rate = getattr(o, key)
        if rate is not None and not 0 <= rate < math.inf:
            raise ConfigError(f"agent.must.{key}={rate} must be a number of at least 0.")
