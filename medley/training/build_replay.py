"""From a Config to replay: rows of numbers, or frames."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from medley.agents.api import Spaces, agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError
from medley.replay.base import ReplayBase
from medley.replay.frames import FrameReplay
from medley.replay.ring import Replay
from medley.training.build_intentions import build_intention_replay
from medley.training.folder_name import default_path


def build_replay(config: Config, env: MultiTaskEnv, spaces: Spaces, device: torch.device, seed: int) -> ReplayBase:
    """Rows of numbers, or frames where observations are stacks of pictures."""
    c, tasks = config.replay_buffer, len(env.tasks)
    assert c.capacity is not None
    shared: dict[str, Any] = {
        "tasks": tasks,
        "slots": env.slots_per_task,
        "capacity": c.capacity // tasks,
        "action_dim": spaces.action_dim,
        "device": device,
        "seed": seed,
        "n_step": config.agent.n_step,
        "discount": config.agent.discount,
        "uniform": c.sampling == "uniform",
    }
    if env.frame_channels is None:
        for key, value, default in (("frames", c.frames, "memory"), ("nstep_mode", c.nstep_mode, "shorter")):
            if value != default:
                raise ConfigError(f"replay_buffer.{key}={value} is for pictures: {config.env.name} gives numbers.")
        if agent_kind(config.agent.builder).has_intentions:
            return build_intention_replay(config, env, spaces, shared)
        return Replay(obs_dim=spaces.obs_dim, **shared)
    assert spaces.image is not None
    _check_room(c.capacity, env.frame_channels * spaces.image[1] * spaces.image[2], c.frames, device)
    channels, *image = spaces.image
    return FrameReplay(
        frame_channels=env.frame_channels,
        image=(image[0], image[1]),
        frame_stack=channels // env.frame_channels,
        horizon=env.horizon,
        nstep_mode=c.nstep_mode,
        frames=c.frames,
        folder=default_path(config) if c.frames_dir is None else Path(c.frames_dir),
        **shared,
    )


def _check_room(transitions: int, frame: int, kept: str, device: torch.device) -> None:
    """Frames of so many bytes must fit, or the run would die when replay fills."""
    if kept in ("compressed", "disk"):
        return
    on_gpu = kept == "memory" and device.type == "cuda"
    room = torch.cuda.mem_get_info(device)[0] if on_gpu else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if transitions * frame > room:
        where = "free on the GPU" if on_gpu else "in this machine"
        raise ConfigError(
            f"replay_buffer.capacity={transitions} takes {transitions * frame / 1e9:.0f} GB of frames, and there are "
            f"{room / 1e9:.0f} GB {where}: take less, or replay_buffer.frames=compressed or disk."
        )
