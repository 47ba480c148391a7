"""From a Config to the parts of a run."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch

from medley.agents.api import Agent, NativeUpdate, Spaces, agent_kind
from medley.config.schema import Config
from medley.envs.api import MultiTaskEnv
from medley.envs.registry import env_kind
from medley.errors import ConfigError, MedleyError
from medley.replay.ring import Replay
from medley.training.collector import Act, Collector
from medley.training.evaluator import Evaluator
from medley.training.graphs import GraphedUpdates
from medley.training.learner import Learner
from medley.training.protocols import PROTOCOLS
from medley.training.rewards import RewardScale


@dataclass
class Parts:
    env: MultiTaskEnv
    agent: Agent
    replay: Replay
    rewards: RewardScale
    collector: Collector
    learner: Learner
    evaluator: Evaluator
    device: torch.device

    @property
    def act(self) -> Act:
        """How the agent acts while it learns: by the learner's compiled code where there is some."""
        native = self.learner.native
        return self.agent.act if native is None else native.act


def build(config: Config) -> Parts:
    device = prepare_device(config)
    c = config.replay_buffer
    assert c.capacity is not None
    assert c.batch_size is not None
    env = env_kind(config.env.builder).build(config.env, config.env.slots_per_task, config.setup.seed, False)
    spaces = spaces_of(env)
    tasks = len(env.tasks)
    agent_seed, replay_seed, collector_seed = _streams(config.setup.seed)
    agent = agent_kind(config.agent.builder).build(config.agent, spaces, device, agent_seed)
    replay = Replay(
        tasks,
        env.slots_per_task,
        c.capacity // tasks,
        spaces.obs_dim,
        spaces.action_dim,
        device,
        replay_seed,
        config.agent.n_step,
        config.agent.discount,
        c.sampling == "uniform",
    )
    rewards = RewardScale(tasks, config.agent.reward_scale, config.agent.reward_normalization, device)
    return Parts(
        env=env,
        agent=agent,
        replay=replay,
        rewards=rewards,
        collector=Collector(env, device, collector_seed),
        learner=build_learner(config, agent, replay, rewards, env.tasks),
        evaluator=build_evaluator(config, device),
        device=device,
    )


def build_learner(
    config: Config, agent: Agent, replay: Replay, rewards: RewardScale, tasks: tuple[str, ...]
) -> Learner:
    """Updates as they are fastest on the device, or as `experiment.learner` says."""
    wanted = config.experiment.learner
    assert config.replay_buffer.batch_size is not None
    per_task = config.replay_buffer.batch_size // len(tasks)
    if replay.device.type == "cuda" and wanted in ("auto", "graph", "compiled"):
        compiled = wanted == "compiled" or (wanted == "auto" and _can_compile())
        return Learner(
            agent, replay, rewards, per_task, tasks, graphs=GraphedUpdates(agent, replay, rewards, per_task, compiled)
        )
    if wanted in ("graph", "compiled"):
        raise ConfigError(f"experiment.learner={wanted} needs a GPU: setup.device=cuda.")
    return Learner(agent, replay, rewards, per_task, tasks, native=_build_native(wanted, agent))


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


def build_evaluator(config: Config, device: torch.device) -> Evaluator:
    """An env of its own, with the protocol's options, so that evaluation never disturbs training."""
    assert config.experiment.protocol is not None
    protocol = PROTOCOLS[config.experiment.protocol]
    known = {f.name for f in dataclasses.fields(config.env)}
    options = dataclasses.replace(config.env, **{k: v for k, v in protocol.env.items() if k in known})
    slots = config.experiment.eval_slots_per_task
    env = env_kind(options.builder).build(options, slots, config.setup.seed, True)
    return Evaluator(env, protocol, device)


def prepare_device(config: Config) -> torch.device:
    """`auto` takes a GPU where there is one. Threads are part of a CPU run's exact arithmetic."""
    name = config.setup.device
    if config.setup.threads is not None:
        torch.set_num_threads(config.setup.threads)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise MedleyError(f"setup.device={name}: this machine has no such GPU. setup.device=cpu works everywhere.")
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if config.setup.precision == "fp32" else "high")
    return device


def spaces_of(env: MultiTaskEnv) -> Spaces:
    observation, action = env.single_observation_space.shape, env.single_action_space.shape
    assert observation is not None
    assert action is not None
    return Spaces(env.tasks, observation[0], action[0], env.action_mask)


def _streams(seed: int) -> list[int]:
    """Independent seeds for the agent, replay and the collector."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint32)]
