"""The options of agents that learn from pictures."""

from __future__ import annotations

from dataclasses import dataclass

from medley.agents.sac_options import OptimizersConfig, SACConfig
from medley.agents.sac_options import check as check_sac
from medley.config.options import opt
from medley.errors import ConfigError, closest
from medley.nn.optimizer import OptimizerConfig
from medley.nn.trunks import mixes_rows


@dataclass
class PixelsConfig:
    feature_dim: int = opt(50, "numbers that a picture becomes")
    num_layers: int = opt(4, "convolutions")
    num_filters: int = opt(32, "filters of each")
    tau: float = opt(0.05, "share of the encoder that flows into its target per target update")
    augmentation: str = opt("none", "none | shift: pictures of a batch are moved at random")
    shift: int = opt(4, "by at most so many pixels")
    views: int = opt(1, "so many shifts of every picture; targets are averaged over them (DrQ: 2)")
    linear_init: str = opt("orthogonal", "how linear layers start: orthogonal | xavier")
    delta_orthogonal: bool = opt(True, "convolutions start with weights at their centre only")


@dataclass
class DecoderConfig:
    update_freq: int = opt(1, "reconstruction is learnt every n-th update")
    latent_lambda: float = opt(1e-6, "weight of the latent's squared length in the loss (Yarats et al. 2019)")
    weight_lambda: float = opt(1e-7, "weight of the decoder's squared weights")


@dataclass
class PixelOptimizersConfig(OptimizersConfig):
    encoder: OptimizerConfig = opt(OptimizerConfig(lr=1e-3), "")  # by the loss of a decoder or model
    decoder: OptimizerConfig = opt(OptimizerConfig(lr=1e-3), "")


@dataclass
class PixelSACConfig(SACConfig):
    pixels: PixelsConfig = opt(PixelsConfig(), "")
    decoder: DecoderConfig = opt(DecoderConfig(), "")
    optimizers: PixelOptimizersConfig = opt(PixelOptimizersConfig(), "")


def check(options: PixelSACConfig, tasks: int) -> None:
    check_sac(options, tasks)
    p = options.pixels
    for key, value, known in (
        ("augmentation", p.augmentation, ["none", "shift"]),
        ("linear_init", p.linear_init, ["orthogonal", "xavier"]),
    ):
        if value not in known:
            raise ConfigError(f"agent.pixels.{key}={value!r} does not exist.{closest(value, known)}")
    for name, number in (
        ("pixels.feature_dim", p.feature_dim),
        ("pixels.num_layers", p.num_layers),
        ("pixels.num_filters", p.num_filters),
        ("pixels.shift", p.shift),
        ("pixels.views", p.views),
        ("decoder.update_freq", options.decoder.update_freq),
    ):
        if number < 1:
            raise ConfigError(f"agent.{name}={number} must be at least 1.")
    if p.views > 1 and p.augmentation == "none":
        raise ConfigError("agent.pixels.views counts shifted pictures: it needs agent.pixels.augmentation=shift.")
    if not 0 < p.tau <= 1:
        raise ConfigError(f"agent.pixels.tau={p.tau} must lie in (0, 1].")
    if options.trunk == "care":
        raise ConfigError("agent.trunk=care is for numbers: its actor sees through the critic's encoders of states.")
    if mixes_rows(options.trunk):
        raise ConfigError(f"agent.trunk={options.trunk} mixes the rows of a batch: it does not go with pictures.")
    if options.normalize_obs:
        raise ConfigError("agent.normalize_obs is for observations that are numbers.")
