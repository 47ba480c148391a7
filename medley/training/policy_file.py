"""A trained policy and nothing else, to be given to others: `config.yaml` and `policy.safetensors` in a folder.

`medley evaluate`, `medley export` and `medley.load` take such a folder like a run's; nothing goes on learning from it.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import medley
from medley.agents.api import Agent, agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.errors import ConfigError, DamagedError, MedleyError
from medley.training.build import evaluation_env, spaces_of
from medley.training.checkpoints import Checkpoints, checkpoint_step, load_agent
from medley.training.device import prepare_device
from medley.training.run import POLICY, Run
from medley.training.start import checkpoint_folder


def build_agent(config: Config, env: MultiTaskEnv, device: torch.device) -> Agent:
    """The agent of a run, its weights still untrained."""
    return agent_kind(config.agent.builder).build(config.agent, spaces_of(env), device, config.setup.seed)


def policy_folder(run: Path, checkpoint: int | None = None, say: Callable[[str], None] = lambda text: None) -> Path:
    """Where the policy of a run is: in a checkpoint, or in the folder itself if it holds nothing else."""
    if (run / POLICY).is_file() and not Checkpoints(run, 1).steps():
        if checkpoint not in (None, step := step_of(run)):
            raise ConfigError(f"{run} has no checkpoint {checkpoint}; its policy is of step {step}.")
        return run
    return checkpoint_folder(run, checkpoint, say)


def step_of(folder: Path) -> int:
    """The step up to which the policy was trained."""
    if not (folder / POLICY).is_file():
        return checkpoint_step(folder)
    try:
        with safe_open(folder / POLICY, "pt") as f:
            return int(f.metadata()["step"])
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as e:
        raise DamagedError(f"{folder / POLICY} cannot be read: {e}") from None


def load_policy(agent: Agent, folder: Path) -> None:
    """Weights, and how much the agent explored by then, where that is not among them."""
    mine = agent.state_dict()
    if (folder / POLICY).is_file():
        try:
            saved = load_file(folder / POLICY)
        except (SafetensorError, OSError) as e:
            raise DamagedError(f"{folder / POLICY} cannot be read: {e}") from None
        if missing := [name for name in agent.policy_names() if name not in saved]:
            raise ConfigError(f"{folder / POLICY} has no {missing[0]!r}: it is of another kind of network.")
        saved = {**mine, **saved}  # nobody asks what it does not hold
    else:
        saved = load_agent(folder)
    agent.load_weights(saved)
    for name, tensor in mine.items():
        if name.startswith("exploration."):
            tensor.copy_(saved[name])


def save_policy(run_folder: str | Path, out: str | Path | None = None, checkpoint: int | None = None) -> Path:
    """Writes the policy of a run into a new folder, `policy` in its own or `out`, once it is seen to act alike."""
    run = Run(Path(run_folder))
    config = _for_others(run.config())
    target = run.path / "policy" if out is None else Path(out)
    if target.exists():
        raise ConfigError(f"{target} exists: name a new folder with --out, or move it away.")
    folder = policy_folder(run.path, checkpoint)
    env = evaluation_env(config, 1)
    spaces = spaces_of(env)
    here = dataclasses.replace(config, setup=dataclasses.replace(config.setup, device="cpu"))
    device = prepare_device(here)
    agent, other = (build_agent(here, env, device) for _ in range(2))
    load_policy(agent, folder)
    names, state = agent.policy_names(), agent.state_dict()
    about = {
        "agent": config.agent.name,
        "env": config.env.name,
        "step": str(step_of(folder)),
        "medley": medley.__version__,
    }
    draft = target.with_name(f".{target.name}.tmp")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        Run(draft).create(config)
        save_file({name: state[name].contiguous() for name in names}, draft / POLICY, about)
        load_policy(other, draft)
        generator = torch.Generator().manual_seed(0)
        shape = (len(env.tasks), 5, *(spaces.image or (spaces.obs_dim,)))
        obs = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        obs = obs if len(shape) > 3 else obs / 128 - 1
        if not torch.equal(agent.act(obs, None), other.act(obs, None)):
            raise MedleyError(f"{config.agent.name} needs more to act than its policy_names say.")
        draft.rename(target)
    except OSError as e:
        raise MedleyError(f"{target} cannot be written: {e.strerror}.") from None
    finally:
        env.close()
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _for_others(config: Config) -> Config:
    """Without the places, the device and the cores of whoever trained it."""
    setup = dataclasses.replace(config.setup, save_dir=None, base_path=".", device="auto", threads=None)
    fewer: dict[str, Any] = {"threads": None} if hasattr(config.env, "threads") else {}
    return dataclasses.replace(config, setup=setup, env=dataclasses.replace(config.env, **fewer))
