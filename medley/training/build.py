"""From a Config to the parts of a run."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medley.agents.api import Agent, NativeUpdate, Spaces, agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.envs.registry import env_kind
from medley.errors import ConfigError, MedleyError
from medley.replay.base import ReplayBase
from medley.replay.frames import FrameReplay
from medley.replay.ring import Replay
from medley.training.acting import Acting, CopyOnCPU, CopyOnGPU, OwnPolicy, acts_on_gpu
from medley.training.build_intentions import build_intention_collector, build_intention_replay
from medley.training.collector import Collecting, Collector
from medley.training.evaluator import Evaluator
from medley.training.graphs import GraphedUpdates
from medley.training.learner import EagerUpdates, Learner, NativeUpdates, Updates
from medley.training.protocols import PROTOCOLS
from medley.training.return_scales import make_rewards
from medley.training.rewards import RewardScale
from medley.training.run import default_path
from medley.training.seed import Seed


@dataclass
class Parts:
    env: MultiTaskEnv
    agent: Agent
    replay: ReplayBase
    rewards: RewardScale
    collector: Collecting
    learner: Learner
    acting: Acting
    evaluator: Evaluator
    device: torch.device
    overlap: bool
    eval_in_background: bool


def build(config: Config) -> Parts:
    return build_together([config])[0]


def build_together(configs: Sequence[Config]) -> list[Parts]:
    """The parts of several runs that differ in their seeds alone; their updates are done at once where that pays."""
    device = prepare_device(configs[0])
    worlds = [_build_world(config, device) for config in configs]
    updates = build_updates(configs[0], [seed for _, seed in worlds])
    return [_build_rest(c, *world, how) for c, world, how in zip(configs, worlds, updates, strict=True)]


def _build_world(config: Config, device: torch.device) -> tuple[MultiTaskEnv, Seed]:
    """What is acted on, and what learns from it."""
    assert config.replay_buffer.batch_size is not None
    away = config.collect.on != "local"
    slots = 1 if away else config.env.slots_per_task
    env = training_env(config, slots)
    if away:
        env.speak_for(config.env.slots_per_task)
    kind = agent_kind(config.agent.builder)
    spaces = spaces_of(env, kind.has_intentions)
    agent_seed, replay_seed, _ = _streams(config.setup.seed)
    agent = kind.build(config.agent, spaces, device, agent_seed)
    if config.setup.precision == "bf16" and (device.type == "cuda" or agent.sees_pictures):
        agent.reduce_precision()
    replay = _build_replay(config, env, spaces, device, replay_seed)
    rewards = make_rewards(config.agent, len(spaces.tasks), env.slots_per_task, device)
    return env, Seed(agent, replay, rewards, config.replay_buffer.batch_size // len(env.tasks))


def _build_replay(config: Config, env: MultiTaskEnv, spaces: Spaces, device: torch.device, seed: int) -> ReplayBase:
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


def _build_rest(config: Config, env: MultiTaskEnv, seed: Seed, updates: Updates) -> Parts:
    agent, device, e = seed.agent, seed.replay.device, config.experiment
    assert e.collect_steps is not None
    on_gpu = device.type == "cuda"
    overlap = on_gpu if e.overlap is None else e.overlap
    in_background = on_gpu if e.eval_in_background is None else e.eval_in_background
    evaluator = build_evaluator(config)

    def copy(rows: int, steps: int, unseen: bool = False) -> Acting:
        return copy_policy(config, agent, spaces_of(env, agent.has_intentions), rows, steps, device, unseen)

    learner = Learner(seed, updates, env.intentions if agent.has_intentions else env.tasks)
    acting: Acting
    if config.collect.on == "ray":
        acting = _broadcast(config, agent, env, learner)
    elif on_gpu or overlap:
        acting = copy(env.num_envs, e.collect_steps)
    else:
        acting = OwnPolicy(agent, device, updates.native.act if isinstance(updates, NativeUpdates) else None)
    if on_gpu or in_background:
        evaluator.acting = copy(evaluator.env.num_envs, evaluator.env.horizon)
        if agent.knows_unseen():
            _add_sets(config, evaluator, lambda other: copy(other.num_envs, other.horizon, unseen=True))
    else:
        evaluator.acting = OwnPolicy(agent, device)
        if agent.knows_unseen():
            _add_sets(config, evaluator, lambda other: OwnPolicy(agent, device, agent.act_unseen))
    return Parts(
        env=env,
        agent=agent,
        replay=seed.replay,
        rewards=seed.rewards,
        collector=_build_collector(config, env, agent),
        learner=learner,
        acting=acting,
        evaluator=evaluator,
        device=device,
        overlap=overlap,
        eval_in_background=in_background,
    )


def _build_collector(config: Config, env: MultiTaskEnv, agent: Agent) -> Collecting:
    seed = collector_seed(config)
    if config.collect.on == "ray":
        from medley.scale.ray_collect import RayCollector

        return RayCollector(config, env)
    if agent.has_intentions:
        return build_intention_collector(config, env, agent, seed)
    return Collector(env, seed, config.agent.noise_hold)


def _broadcast(config: Config, agent: Agent, env: MultiTaskEnv, learner: Learner) -> Acting:
    """A copy on the CPU, for workers elsewhere."""
    from medley.scale.ray_collect import Broadcast

    copy = agent_kind(config.agent.builder).build(config.agent, spaces_of(env), torch.device("cpu"), 0)
    return Broadcast(CopyOnCPU(agent, copy), lambda: learner.updates)


def copy_policy(
    config: Config, agent: Agent, spaces: Spaces, rows: int, steps: int, device: torch.device, unseen: bool = False
) -> Acting:
    """A copy of the agent's policy where it acts quickest: `rows` at a time, `steps` times with the same weights.

    `unseen`: it acts in tasks that are not trained.
    """
    where = device if acts_on_gpu(agent, rows, steps, device) else torch.device("cpu")
    copy = agent_kind(config.agent.builder).build(config.agent, spaces, where, 0)
    act = copy.act_unseen if unseen else None
    return CopyOnGPU(agent, copy, act) if where.type == "cuda" else CopyOnCPU(agent, copy, act)


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


def build_evaluator(config: Config) -> Evaluator:
    """An env of its own, with the protocol's options, so that evaluation never disturbs training."""
    assert config.experiment.protocol is not None
    assert config.experiment.eval_slots_per_task is not None
    protocol = PROTOCOLS[config.experiment.protocol]
    known = {f.name for f in dataclasses.fields(config.env)}
    options = dataclasses.replace(config.env, **{k: v for k, v in protocol.env.items() if k in known})
    return Evaluator(
        evaluation_env(dataclasses.replace(config, env=options), config.experiment.eval_slots_per_task), protocol
    )


def training_env(config: Config, slots: int) -> MultiTaskEnv:
    """What is acted on while learning, with the episodes of training."""
    options = config.env
    if options.train_horizon is not None:
        options = dataclasses.replace(options, horizon=options.train_horizon)
    return env_kind(options.builder).build(options, slots, config.setup.seed, False)


def evaluation_env(config: Config, slots: int) -> MultiTaskEnv:
    """An env with a task for everything that the agent learns."""
    kind = env_kind(config.env.builder)
    if agent_kind(config.agent.builder).has_intentions and kind.build_each is not None:
        return kind.build_each(config.env, slots, config.setup.seed)
    return kind.build(config.env, slots, config.setup.seed, True)


def _add_sets(config: Config, evaluator: Evaluator, act: Callable[[MultiTaskEnv], Acting]) -> None:
    """Tasks that are not trained but scored, where the env knows such and the agent can act in them."""
    kind, slots = env_kind(config.env.builder), config.experiment.eval_slots_per_task
    assert slots is not None
    for name, options in kind.evaluation_sets(config.env).items():
        env = kind.build(options, slots, config.setup.seed, True)
        evaluator.sets[name] = Evaluator(env, evaluator.protocol, act(env))


def prepare_device(config: Config, or_cpu: bool = False) -> torch.device:
    """`auto` takes a GPU where there is one. Threads are part of a CPU run's exact arithmetic.

    `or_cpu`: what a GPU trained may act without one.
    """
    name = config.setup.device
    if config.setup.threads is not None:
        torch.set_num_threads(config.setup.threads)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        if or_cpu:
            return torch.device("cpu")
        raise MedleyError(f"setup.device={name}: this machine has no such GPU. setup.device=cpu works everywhere.")
    if device.type == "cuda" and config.setup.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for to promise it
        torch.use_deterministic_algorithms(True)
    if device.type == "cuda":
        if device.index is not None:
            torch.cuda.set_device(device)  # streams, events and transfers go to the current one
        torch.set_float32_matmul_precision("highest" if config.setup.precision == "fp32" else "high")
        torch.backends.cudnn.benchmark = not config.setup.deterministic  # convolutions: the quickest way is looked for
    return device


def spaces_of(env: MultiTaskEnv, intentions: bool = False) -> Spaces:
    """What an agent gets to know of an env; with `intentions` its tasks are what may be wanted there."""
    observation, action = env.single_observation_space.shape, env.single_action_space.shape
    assert observation is not None
    assert action is not None
    rest = action[0], env.action_mask, env.horizon, env.slots_per_task
    if intentions:
        mask = np.repeat(env.action_mask[:1], len(env.intentions), axis=0)
        return Spaces(env.intentions, observation[0], action[0], mask, env.horizon, env.slots_per_task)
    if env.frame_channels is None:
        return Spaces(env.tasks, observation[0], *rest)
    channels, height, width = observation
    return Spaces(env.tasks, 0, *rest, image=(channels, height, width))


def collector_seed(config: Config) -> int:
    return _streams(config.setup.seed)[2]


def _streams(seed: int) -> list[int]:
    """Independent seeds for the agent, replay and the collector."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint32)]
