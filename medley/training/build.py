"""From a Config to the parts of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch

from medley.agents.api import Agent, Spaces, agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.envs.registry import env_kind
from medley.replay.base import ReplayBase
from medley.training.acting import Acting, CopyOnCPU, CopyOnGPU, OwnPolicy, acts_on_gpu
from medley.training.build_intentions import build_intention_collector
from medley.training.build_replay import build_replay
from medley.training.build_updates import build_updates
from medley.training.collector import Collecting, Collector
from medley.training.device import prepare_device
from medley.training.evaluator import Evaluator
from medley.training.learner import Learner, NativeUpdates, Updates
from medley.training.protocols import PROTOCOLS
from medley.training.return_scales import make_rewards
from medley.training.rewards import RewardScale
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

    def close(self) -> None:
        with ExitStack() as both:
            both.callback(self.evaluator.close)
            both.callback(self.collector.close)


def build(config: Config) -> Parts:
    return build_together([config])[0]


def build_together(configs: Sequence[Config]) -> list[Parts]:
    """The parts of several runs that differ in their seeds alone; their updates are done at once where that pays."""
    device = prepare_device(configs[0])
    with ExitStack() as if_it_fails:
        worlds = [_build_world(config, device, if_it_fails) for config in configs]
        updates = build_updates(configs[0], [seed for _, seed in worlds])
        parts = [_build_rest(c, *w, how, if_it_fails) for c, w, how in zip(configs, worlds, updates, strict=True)]
        if_it_fails.pop_all()
    return parts


def _build_world(config: Config, device: torch.device, if_it_fails: ExitStack) -> tuple[MultiTaskEnv, Seed]:
    """What is acted on, and what learns from it."""
    assert config.replay_buffer.batch_size is not None
    away = config.collect.on != "local"
    slots = 1 if away else config.env.slots_per_task
    env = training_env(config, slots)
    if_it_fails.callback(env.close)
    if away:
        env.speak_for(config.env.slots_per_task)
    kind = agent_kind(config.agent.builder)
    spaces = spaces_of(env, kind.has_intentions)
    agent_seed, replay_seed, _ = _streams(config.setup.seed)
    agent = kind.build(config.agent, spaces, device, agent_seed)
    if config.setup.precision == "bf16" and (device.type == "cuda" or agent.sees_pictures):
        agent.reduce_precision()
    replay = build_replay(config, env, spaces, device, replay_seed)
    rewards = make_rewards(config.agent, len(spaces.tasks), env.slots_per_task, device)
    return env, Seed(agent, replay, rewards, config.replay_buffer.batch_size // len(env.tasks))


def _build_rest(config: Config, env: MultiTaskEnv, seed: Seed, updates: Updates, if_it_fails: ExitStack) -> Parts:
    agent, device, e = seed.agent, seed.replay.device, config.experiment
    assert e.collect_steps is not None
    on_gpu = device.type == "cuda"
    overlap = on_gpu if e.overlap is None else e.overlap
    in_background = on_gpu if e.eval_in_background is None else e.eval_in_background
    evaluator = build_evaluator(config)
    if_it_fails.callback(evaluator.close)

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
        return Spaces(env.tasks, observation[0], *rest, max_reward=env.max_reward)
    channels, height, width = observation
    return Spaces(env.tasks, 0, *rest, image=(channels, height, width), max_reward=env.max_reward)


def collector_seed(config: Config) -> int:
    return _streams(config.setup.seed)[2]


def _streams(seed: int) -> list[int]:
    """Independent seeds for the agent, replay and the collector."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint32)]
