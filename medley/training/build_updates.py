"""How updates are carried out: as captured graphs, as compiled code or operation by operation."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.util import find_spec

import torch

from medley.agents.api import Agent, NativeUpdate
from medley.config.schema import Config
from medley.errors import ConfigError
from medley.replay.ring import Replay
from medley.training.graphs import GraphedUpdates
from medley.training.learner import EagerUpdates, NativeUpdates, Updates
from medley.training.seed import Seed


def build_updates(config: Config, seeds: Sequence[Seed]) -> list[Updates]:
    """Updates as they are fastest on the device, or as `experiment.learner` says: one way for each seed."""
    wanted = config.experiment.learner
    if wanted == "native" and not isinstance(seeds[0].replay, Replay):
        raise ConfigError("experiment.learner=native learns from numbers, not from pictures: use auto or eager.")
    if not seeds[0].replay.traceable:
        if wanted in ("graph", "compiled"):
            raise ConfigError(
                f"experiment.learner={wanted} needs all frames on the GPU: replay_buffer.frames=memory, "
                f"not {config.replay_buffer.frames}."
            )
        wanted = "eager"
    if seeds[0].replay.device.type == "cuda" and wanted in ("auto", "graph", "compiled"):
        compiled = wanted == "compiled" or (wanted == "auto" and _can_compile())
        return [GraphedUpdates(seeds, compiled)] * len(seeds)
    if wanted in ("graph", "compiled"):
        raise ConfigError(f"experiment.learner={wanted} needs a GPU: setup.device=cuda.")
    return [_cpu_updates(wanted, seed) for seed in seeds]


def _cpu_updates(wanted: str, seed: Seed) -> Updates:
    native = _build_native(wanted, seed.agent) if isinstance(seed.replay, Replay) else None
    return EagerUpdates(seed) if native is None else NativeUpdates(seed, native)


def _can_compile() -> bool:
    """Triton needs a C compiler for what it launches."""
    return find_spec("triton") is not None and any(shutil.which(name) for name in ("cc", "gcc", "clang"))


def _build_native(wanted: str, agent: Agent) -> NativeUpdate | None:
    """The agent's update as compiled code, where it is wanted and there is one."""
    if wanted == "eager":
        return None
    made = agent.native(torch.get_num_threads())
    if not isinstance(made, str):
        return made
    if wanted == "native":
        raise ConfigError(f"experiment.learner=native: {made}. experiment.learner=auto takes what there is.")
    return None
