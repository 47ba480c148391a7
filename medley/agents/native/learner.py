"""SAC's compiled update from Python: what can be compiled, and the calls."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from numba import types
from torch import Tensor

from medley.agents.api import Batch, Metrics
from medley.agents.native.blas import Blas, find_blas
from medley.agents.native.job import CRITIC_METRICS, NUMBERS, PER_TASK, job_type
from medley.agents.native.machine import c_function
from medley.agents.native.memory import Memory, stacked_layers
from medley.agents.native.sac import act, update
from medley.agents.native.team import Team
from medley.agents.task_label import task_input_kind
from medley.gradients.combiners import Mean
from medley.nn.trunks import DisjointTrunk, MultiHeadTrunk, SharedTrunk
from medley.replay.base import ReplayBase
from medley.replay.ring import FIELDS, Replay

if TYPE_CHECKING:
    from medley.agents.sac import SAC

TRUNKS = (SharedTrunk, MultiHeadTrunk, DisjointTrunk)
ROWS_PER_THREAD = 32  # at least: with fewer, threads wait for each other more than they compute


def native_sac(agent: SAC, threads: int) -> NativeSAC | str:
    """The compiled update of `agent`, or why there is none."""
    if agent.log_alpha.device.type != "cpu":
        return f"the agent is on {agent.log_alpha.device}, and compiled updates are for CPUs"
    if list(agent.task_input.parameters()):
        return f"agent.task_input={task_input_kind(agent.options)} is not compiled"
    if agent.options.log_alpha_bounds is not None:
        return "agent.log_alpha_bounds is not compiled"
    if agent.obs_norm is not None:
        return "agent.normalize_obs is not compiled"
    if any(optimizer.config.weight_decay for optimizer in agent.optimizers.values()):
        return "weight decay is not compiled"
    if agent.options.task_weights != "none":
        return f"agent.task_weights={agent.options.task_weights} is not compiled"
    if type(agent.combine_actor) is not Mean or type(agent.combine_critic) is not Mean:
        return f"agent.gradients={agent.options.gradients} is not compiled"
    if type(agent.actor) not in TRUNKS or type(agent.critic) not in TRUNKS:
        return f"agent.trunk={agent.options.trunk} is not compiled"
    if agent.log_alpha.dtype != torch.float32:
        return "compiled updates are in 32-bit floats"
    blas = find_blas()
    if blas is None:
        return "neither PyTorch's nor NumPy's matrix products can be reached on this machine"
    return NativeSAC(agent, threads, blas)


@cache
def _work() -> tuple[int, int]:
    arguments = (job_type, types.int64, types.int64)
    return c_function(update, *arguments), c_function(act, *arguments)


class NativeSAC:
    """`agent.update` and `agent.act` as compiled code, in place on the agent's own tensors."""

    def __init__(self, agent: SAC, threads: int, blas: Blas) -> None:
        self.agent, self._threads, self._blas = agent, threads, blas
        self._learners: Team | None = None
        self._actor = Team(1, _work()[1], blas)
        self._memory: Memory | None = None  # for the size of the last batch
        self._acting: Memory | None = None  # for the number of rows last acted on
        self._ring: Replay | None = None  # what the memory is set to read from
        self._tasks, self._actions = agent.action_mask.shape[0], agent.action_mask.shape[2]
        self._obs_dim = stacked_layers(agent.actor)[0].in_features - agent.task_input.width
        self.metrics = torch.zeros(len(NUMBERS) + len(PER_TASK) * self._tasks)
        views = self.named(self.metrics)
        self._views = {True: views, False: {name: views[name] for name in CRITIC_METRICS}}

    def named(self, metrics: Tensor) -> Metrics:
        numbers, per_task = metrics[: len(NUMBERS)], metrics[len(NUMBERS) :].view(-1, self._tasks)
        views = dict(zip(NUMBERS, numbers, strict=True)) | dict(zip(PER_TASK, per_task, strict=True))
        if not self.agent.options.learn_temperature:
            del views["alpha_loss"]
        return views

    # ---- learning

    def update(self, batch: Batch, phase: str) -> Metrics:
        """One update; the metrics are overwritten by the next."""
        per_task = batch.obs.shape[1]
        memory = self._for_batch(per_task)
        self._ring = None
        widths = {"obs": [self._obs_dim], "next_obs": [self._obs_dim], "action": [self._actions]}
        held = []  # until the update is done: compiled code knows addresses only
        for name in ("obs", "action", "reward", "next_obs", "discount"):
            held.append(_plain(getattr(batch, name), self._tasks, per_task, *widths.get(name, [])))
            memory.job[f"from_{name}"] = held[-1].data_ptr()
        memory.job["ring"] = 0
        memory.weight.copy_(batch.weight)
        return self._run(memory, phase)

    def update_from(self, replay: ReplayBase, reward_factor: Tensor, per_task: int, phase: str) -> Metrics:
        """The same on a fresh sample, without making a Batch of it: the numbers drawn are those of `replay.sample`."""
        if not isinstance(replay, Replay):
            raise ValueError("compiled updates read rings of numbers, not of pictures")
        memory = self._for_batch(per_task)
        job = memory.job
        if self._ring is not replay:
            _check_ring(replay, self._tasks, self._obs_dim, self._actions)
            self._ring = replay
            for name in FIELDS:
                job[f"from_{name}"] = replay.rows[name].data_ptr()
            job["ring"], job["capacity"], job["slots"] = 1, replay.capacity, replay.slots
            job["n_step"], job["gamma"] = replay.n_step, replay.discount
            job["sizes"], job["written"] = replay.sizes.data_ptr(), replay.written_rows.data_ptr()
        job["reward_factor"] = reward_factor.data_ptr()
        drawn = replay.draw(per_task)
        memory.uniform.copy_(drawn[0])
        memory.weight.copy_(replay.weights(drawn))
        return self._run(memory, phase)

    def _for_batch(self, per_task: int) -> Memory:
        if self._memory is None or self._memory.per_task != per_task:
            self.close()
            useful = max(1, self._tasks * per_task // ROWS_PER_THREAD)
            self._learners = Team(min(self._threads, useful), _work()[0], self._blas)
            self._memory = Memory(self.agent, self._blas, self._learners.threads, per_task)
            self._memory.job["metrics"] = self.metrics.data_ptr()
            self._ring = None
        return self._memory

    def _run(self, memory: Memory, phase: str) -> Metrics:
        actor = phase in ("all", "no_target")
        memory.job["update_actor"], memory.job["update_target"] = actor, phase in ("all", "critic_target")
        self._draw(memory.noise_next)
        if actor:
            self._draw(memory.noise)
        assert self._learners is not None
        self._learners.run(memory.address)
        return self._views[actor]

    def _draw(self, noise: Tensor) -> None:
        noise.normal_(generator=self.agent.generator)

    # ---- acting

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """As `agent.act`; for a few rows, PyTorch spends its time on everything but the arithmetic."""
        rows = obs.shape[1]
        if self._acting is None or self._acting.per_task != rows:
            self._acting = Memory(self.agent, self._blas, 1, rows, learning=False)
        memory, obs = self._acting, _plain(obs, self._tasks, rows, self._obs_dim)
        memory.noise.zero_() if noise is None else memory.noise.copy_(noise)
        actions = torch.empty(self._tasks, rows, self._actions)
        memory.job["from_obs"], memory.job["action"] = obs.data_ptr(), actions.data_ptr()
        self._actor.run(memory.address)
        return actions

    def close(self) -> None:
        """End the threads; another update hires new ones."""
        if self._learners is not None:
            self._learners.close()


def _plain(tensor: Tensor, *shape: int) -> Tensor:
    """As compiled code must find it: what it reads by address it cannot check."""
    if tensor.shape != shape:
        raise ValueError(f"expected {list(shape)} numbers, got {list(tensor.shape)}")
    return tensor.to("cpu", torch.float32).contiguous()


def _check_ring(replay: Replay, tasks: int, obs_dim: int, actions: int) -> None:
    obs, action = replay.rows["obs"], replay.rows["action"]
    if (obs.shape[0], obs.shape[2], action.shape[2], replay.device.type) != (tasks, obs_dim, actions, "cpu"):
        raise ValueError("replay holds rows of another environment, or lies on another device")
