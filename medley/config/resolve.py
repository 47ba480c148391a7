"""Fill in the defaults that depend on other options, and refuse what cannot work, before any work is done."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import re

from medley.agents.api import agent_kind
from medley.agents.intentions.batch import expert_rows
from medley.config.schema import Config
from medley.envs.registry import env_kind
from medley.errors import ConfigError, closest
from medley.replay.frame_stores import KINDS as FRAME_STORES
from medley.replay.frames import NSTEP_MODES
from medley.robots.options import check_update_when
from medley.scale.options import fill_and_check_collect
from medley.training.protocols import PROTOCOLS
from medley.training.return_scales import NORMALIZATIONS
from medley.training.scheduler import check_scheduler

EVAL_SLOTS = 500  # measured: 2.1 GB of simulators for Meta-World, 4 MB each


def fill_and_check(config: Config) -> None:
    """Afterwards no option that the run depends on is null."""
    _check_finite(dataclasses.asdict(config))
    tasks = env_kind(config.env.builder).tasks(config.env)
    if config.env.num_envs is not None and config.env.num_envs != len(tasks):
        raise ConfigError(f"env.num_envs={config.env.num_envs}, but {config.env.name} has {len(tasks)} tasks.")
    agent_kind(config.agent.builder).check(config.agent, len(_intentions(config)) or len(tasks))
    check_scheduler(config.experiment.scheduler, len(tasks))
    _check_numbers(config)
    fill_and_check_collect(config)
    _fill_replay(config, len(tasks))
    _check_experts(config)
    _fill_experiment(config, len(tasks))
    _check_words(config)
    check_update_when(config, len(tasks))


def _intentions(config: Config) -> list[str]:
    """What the agent may want in one world, where it is an agent that wants several things."""
    if not agent_kind(config.agent.builder).has_intentions:
        return []
    found = env_kind(config.env.builder).intentions(config.env)
    if not found:
        raise ConfigError(
            f"agent={config.agent.name} wants several things of one world, and {config.env.name} has no such: take "
            "env=point-aux, metaworld-aux, adroit-door, panda-reach or panda-reach-multitask."
        )
    return found


def _check_experts(config: Config) -> None:
    """Every intention needs rows of its experts, and rows of replay."""
    if not agent_kind(config.agent.builder).uses_experts:
        return
    options, batch, intentions = config.agent, config.replay_buffer.batch_size, len(_intentions(config))
    share: float = options.expert.share  # type: ignore[attr-defined]
    assert batch is not None
    rows = expert_rows(batch, intentions, share)
    if rows < 1 or intentions * rows >= batch:
        raise ConfigError(
            f"replay_buffer.batch_size={batch} with agent.expert.share={share} leaves experts or replay without a row, "
            f"for {intentions} intention{'s' * (intentions > 1)}: take a larger batch or another share."
        )


def check_pictures(config: Config) -> None:
    """Refuse agents that cannot read what the env shows."""
    shown = env_kind(config.env.builder).shows_pictures(config.env)
    if shown and not agent_kind(config.agent.builder).sees_pictures:
        numbers = ", or observations that are numbers, env.observation=states" * hasattr(config.env, "observation")
        raise ConfigError(
            f"agent={config.agent.name} reads numbers, and {config.env.name} shows pictures: take agent=sac_ae, drq or "
            f"drqv2{numbers}."
        )
    if not shown and agent_kind(config.agent.builder).sees_pictures:
        raise ConfigError(
            f"agent={config.agent.name} learns from pictures, and {config.env.name} gives numbers: take "
            "agent=state_sac, or an env that shows pictures (env=dmc-walker-walk)."
        )


def _fill_replay(config: Config, tasks: int) -> None:
    replay = config.replay_buffer
    if replay.batch_size is None:
        wanted = config.agent.batch_size
        replay.batch_size = (128 if wanted is None else max(1, round(wanted / tasks))) * tasks
    if replay.capacity is None:
        per_task = config.agent.replay_per_task
        if agent_kind(config.agent.builder).sees_pictures:  # these take much room: never more than the run will fill
            per_task = min(per_task, config.experiment.num_train_steps)
        replay.capacity = per_task * tasks
    if replay.batch_size < tasks or replay.batch_size % tasks:
        lower = max(1, replay.batch_size // tasks) * tasks
        raise ConfigError(
            f"replay_buffer.batch_size={replay.batch_size} cannot be split equally between {tasks} tasks: "
            f"use {lower} or {lower + tasks}."
        )
    if replay.capacity // tasks < config.env.slots_per_task * config.agent.n_step:
        raise ConfigError(f"replay_buffer.capacity={replay.capacity} is too small for {tasks} tasks.")


def _fill_experiment(config: Config, tasks: int) -> None:
    e = config.experiment
    if e.collect_steps is None:
        e.collect_steps = config.agent.collect_steps
    if e.updates is None:
        e.updates = _whole_updates(config, e.collect_steps * config.env.slots_per_task)
    if config.agent.reset_every is None:
        config.agent.reset_every = max(1, e.num_train_steps // 5) if config.agent.reward_normalization == "ars" else 0
    if e.eval_freq is None:
        e.eval_freq = max(200, e.num_train_steps // 20)
    if e.save_freq is None:
        e.save_freq = e.eval_freq
    if e.protocol is None:
        e.protocol = "metaworld+" if config.env.builder == "metaworld" else "episodes"
    if e.protocol not in PROTOCOLS:
        raise ConfigError(f"experiment.protocol={e.protocol!r} does not exist.{closest(e.protocol, PROTOCOLS)}")
    if e.protocol == "held-out" and not hasattr(config.env, "goals"):
        raise ConfigError(f"experiment.protocol=held-out needs Meta-World: {config.env.name} has no goals to hold out.")
    if e.num_eval_episodes is None:
        e.num_eval_episodes = PROTOCOLS[e.protocol].episodes
    if e.num_final_eval_episodes is None:
        e.num_final_eval_episodes = e.num_eval_episodes
    if e.eval_slots_per_task is None:
        tasks = len(_intentions(config)) or tasks
        e.eval_slots_per_task = max(1, min(e.num_eval_episodes, EVAL_SLOTS // tasks))


def _whole_updates(config: Config, steps: int) -> int:
    updates = steps * config.agent.updates_per_step
    if updates != round(updates):
        raise ConfigError(
            f"agent.updates_per_step={config.agent.updates_per_step} does not give a whole number of updates per chunk "
            f"of {steps} step{'s' * (steps > 1)} of a task: set experiment.collect_steps or experiment.updates."
        )
    return round(updates)


def _check_finite(value: object, key: str = "") -> None:
    """NaN passes every other check: it is never smaller than anything."""
    if isinstance(value, dict):
        for name, below in value.items():
            _check_finite(below, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for one in value:
            _check_finite(one, key)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}={value} must be a finite number.")


def _check_numbers(config: Config) -> None:
    e = config.experiment
    for key, value, least in (
        ("setup.seed", config.setup.seed, 0),
        ("setup.threads", config.setup.threads, 1),
        ("env.slots_per_task", config.env.slots_per_task, 1),
        ("env.horizon", config.env.horizon, 1),
        ("env.train_horizon", config.env.train_horizon, 1),
        ("agent.n_step", config.agent.n_step, 1),
        ("agent.reset_every", config.agent.reset_every, 0),
        ("agent.batch_size", config.agent.batch_size, 1),
        ("agent.replay_per_task", config.agent.replay_per_task, 1),
        ("agent.updates_per_step", config.agent.updates_per_step, 0),
        ("agent.collect_steps", config.agent.collect_steps, 1),
        ("agent.noise_hold", config.agent.noise_hold, 1),
        ("experiment.num_train_steps", e.num_train_steps, 1),
        ("experiment.init_steps", e.init_steps, 1),
        ("experiment.collect_steps", e.collect_steps, 1),
        ("experiment.updates", e.updates, 0),
        ("experiment.eval_freq", e.eval_freq, 0),
        ("experiment.save_freq", e.save_freq, 0),
        ("experiment.num_eval_episodes", e.num_eval_episodes, 1),
        ("experiment.num_final_eval_episodes", e.num_final_eval_episodes, 1),
        ("experiment.eval_slots_per_task", e.eval_slots_per_task, 1),
        ("experiment.seeds_together", e.seeds_together, 1),
        ("collect.workers", config.collect.workers, 1),
        ("collect.lag", config.collect.lag, 0),
        ("collect.cpus", config.collect.cpus, 0),
        ("experiment.video.every", e.video.every, 1),
        ("experiment.video.fps", e.video.fps, 1),
        ("experiment.save.model.long_term_freq", e.save.model.long_term_freq, 1),
        ("logger.train_freq", config.logger.train_freq, 1),
        ("replay_buffer.batch_size", config.replay_buffer.batch_size, 1),
        ("replay_buffer.capacity", config.replay_buffer.capacity, 1),
    ):
        if value is not None and value < least:
            raise ConfigError(f"{key}={value} must be at least {least}.")
    if len(e.video.size) != 2 or min(e.video.size) < 16:
        raise ConfigError(f"experiment.video.size={e.video.size} must be a width and a height of at least 16 pixels.")
    for key, minutes in (("max_minutes", e.max_minutes), ("save_minutes", e.save_minutes)):
        if minutes is not None and minutes <= 0:
            raise ConfigError(f"experiment.{key}={minutes} must be positive.")
    if config.setup.seed >= 2**63:
        raise ConfigError(f"setup.seed={config.setup.seed} must be below 2**63.")
    if e.save.model.retain_last_n == 0 or e.save.model.retain_last_n < -1:
        raise ConfigError("experiment.save.model.retain_last_n must be at least 1, or -1 to keep all.")
    if not 0 <= config.agent.discount <= 1:
        raise ConfigError(f"agent.discount={config.agent.discount} must lie in [0, 1].")
    if not 0 < config.agent.v_max < math.inf:
        raise ConfigError(f"agent.v_max={config.agent.v_max} must be positive.")
    if config.agent.reward_normalization == "return_range" and config.agent.discount == 1:
        raise ConfigError(
            "agent.reward_normalization=return_range needs agent.discount below 1: returns must be finite."
        )


def _check_words(config: Config) -> None:
    for key, name in (
        ("setup.id", config.setup.id),
        ("agent.name", config.agent.name),
        ("env.name", config.env.name),
        ("env.folder", config.env.folder),
    ):
        if name is not None and (name in ("", ".", "..") or "/" in name or "\0" in name):
            raise ConfigError(f"{key}={name!r} cannot be the name of a folder.")
    for key, value, known in (
        ("replay_buffer.sampling", config.replay_buffer.sampling, ["stratified", "uniform"]),
        ("replay_buffer.frames", config.replay_buffer.frames, FRAME_STORES),
        ("replay_buffer.nstep_mode", config.replay_buffer.nstep_mode, NSTEP_MODES),
        ("setup.precision", config.setup.precision, ["tf32", "fp32", "bf16"]),
        ("experiment.learner", config.experiment.learner, ["auto", "native", "graph", "compiled", "eager"]),
        ("agent.reward_normalization", config.agent.reward_normalization, NORMALIZATIONS),
        ("logger.console", config.logger.console, ["auto", "panel", "lines", "none"]),
    ):
        if value not in known:
            raise ConfigError(f"{key}={value!r} does not exist.{closest(value, known)}")
    if config.logger.use_wandb and importlib.util.find_spec("wandb") is None:
        raise ConfigError("logger.use_wandb=true needs Weights & Biases: pip install 'medley[wandb]'.")
    device = config.setup.device
    if device != "auto" and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ConfigError(f"setup.device={device!r} does not exist.{closest(device, ['auto', 'cpu', 'cuda'])}")
