"""Where everything lies: the record that SAC's compiled update reads, and the memory it works in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.agents.native.blas import NARROW, Blas
from medley.agents.native.job import JOB
from medley.agents.native.mlp import LAYER, PARAMETER, TARGET
from medley.agents.native.tiles import WIDTH, tiles
from medley.agents.native.vectors import has_wide_vectors
from medley.native.workers import aligned
from medley.nn.optimizer import Optimizer
from medley.nn.stacked import StackedLinear
from medley.nn.trunks import Trunk

if TYPE_CHECKING:
    from medley.agents.sac import SAC

Array = npt.NDArray[Any]


class Memory:
    """For batches of `per_task` rows; without `learning` only what acting needs. Nothing is allocated later."""

    def __init__(self, agent: SAC, blas: Blas, threads: int, per_task: int, learning: bool = True) -> None:
        self._kept: list[Any] = []
        self.job = job = np.zeros((), JOB)
        self.address = job.ctypes.data
        job["sgemm"], job["tiles"], job["threads"] = blas.sgemm, tiles() if has_wide_vectors() else 0, threads
        mask = self._keep(agent.action_mask[:, 0].contiguous())
        self.tasks, self.actions = mask.shape
        self.rows, self.per_task = self.tasks * per_task, per_task
        job["rows"], job["per_task"] = self.rows, per_task
        job["tasks"], job["action_dim"], job["mask"] = self.tasks, self.actions, mask.data_ptr()
        o = agent.options.actor
        job["rescale"], (job["low"], job["high"]) = o.log_std_bounding == "tanh", o.log_std_bounds
        actor = self._layers(agent.actor, agent.optimizers["actor"], learning)
        self._network("actor", actor)
        self._inputs(int(actor[0]["inputs"]), agent.task_input())
        self._columns(self.actions, "action", "squashed", "spread", "bounded")
        self.noise = self._tensor("noise", self.actions)
        widest = max(self.rows, int(job["stride"]), _widest(actor))
        if learning:
            widest = max(widest, self._learning(agent, actor))
        scratch = self._zeros(threads, max(NARROW, WIDTH) * widest)  # some columns of whatever there is
        job["scratch"], job["scratch_size"] = scratch.ctypes.data, scratch.strides[0]

    def _learning(self, agent: SAC, actor: Array) -> int:
        o, job = agent.options, self.job
        job["grad_clip"] = np.inf if o.grad_clip is None else o.grad_clip
        job["max_value"] = agent.max_value
        job["tau"], job["learn_alpha"] = o.critic_tau, o.learn_temperature
        job["target_entropy"] = self._keep(agent.target_entropy[:, 0].contiguous()).data_ptr()
        for name, optimizer in agent.optimizers.items():
            config, place = optimizer.config, job[f"{name}_optimizer"]
            place["lr"] = optimizer.lr.data_ptr()
            place["beta1"], place["beta2"], place["eps"] = config.beta1, config.beta2, config.eps
        alpha = agent.optimizers["alpha"]
        job["alphas"] = agent.log_alpha.numel()
        job["log_alpha"] = self._trained(alpha, agent.log_alpha, None)
        job["alpha_step"] = alpha.steps[0].data_ptr()
        critic = self._layers(agent.critic, agent.optimizers["critic"], True, agent.target)
        self._network("critic", critic)
        # These leave no deltas, so they may use the memory of those that do, before they do.
        self._network("actor_next", _without_deltas(actor))
        target = _without_deltas(critic)
        for name in ("weight", "bias"):
            target[name][:, PARAMETER] = critic[name][:, TARGET]
        self._network("target", target)
        self._columns(1, "reward", "discount", "log_prob", "y", "critic_losses", "q_means", "actor_losses")
        self._columns(self.actions, "d_action")
        self.noise_next = self._tensor("noise_next", self.actions)
        self.weight = self._tensor("weight")
        self.uniform = self._tensor("uniform", dtype=torch.float64)
        order = self._zeros(self.rows, kind=np.int64)
        order[:] = np.arange(self.rows)
        job["order"], job["chosen"] = order.ctypes.data, self._zeros(2, self.rows, kind=np.int64).ctypes.data
        job["squares"] = self._zeros(int(job["threads"]), kind=np.float64).ctypes.data
        return _widest(critic)

    def _inputs(self, width: int, labels: Tensor | None) -> None:
        """What the networks see: the observation, the task's label (written here, once), and room for the action."""
        label_dim = 0 if labels is None else labels.shape[1]
        obs_dim = width - label_dim
        self.job["obs_dim"], self.job["label_dim"] = obs_dim, label_dim
        self.job["stride"] = stride = -(-(width + self.actions) // 16) * 16
        for name in ("x", "x_next"):
            x = self._zeros(self.tasks, self.per_task, stride)
            if labels is not None:
                x[:, :, obs_dim:width] = labels.unsqueeze(1)
            self.job[name] = x.ctypes.data

    # ---- pieces

    def _keep(self, thing: Any) -> Any:
        """What the record knows by its address must not go away."""
        self._kept.append(thing)
        return thing

    def _zeros(self, *shape: int, kind: Any = np.float32) -> Array:
        made: Array = self._keep(aligned(int(np.prod(shape)), kind).reshape(shape))
        return made

    def _columns(self, width: int, *names: str) -> None:
        for name in names:
            self.job[name] = self._zeros(self.rows, width).ctypes.data

    def _tensor(self, name: str, *more: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Memory that PyTorch fills: [tasks, per_task, ...]."""
        made = torch.zeros(self.tasks, self.per_task, *more, dtype=dtype)
        self.job[name] = made.data_ptr()
        return made

    def _network(self, name: str, layers: Array) -> None:
        self.job[name] = self._keep(layers).ctypes.data, len(layers)

    def _layers(self, network: Trunk, optimizer: Optimizer, learning: bool, target: Trunk | None = None) -> Array:
        stacked = stacked_layers(network)
        targets = stacked_layers(target) if target is not None else [None] * len(stacked)
        layers = np.zeros(len(stacked), LAYER)
        for record, layer, other in zip(layers, stacked, targets, strict=True):
            record["inputs"], record["outputs"] = layer.in_features, layer.out_features
            record["members"] = layer.members[0]
            record["tasks"] = layer.members[1] if len(layer.members) > 1 else 1
            record["values"] = self._zeros(layer.members[0], self.rows, layer.out_features).ctypes.data
            if not learning:
                record["weight"][PARAMETER], record["bias"][PARAMETER] = layer.weight.data_ptr(), layer.bias.data_ptr()
                continue
            record["deltas"] = self._zeros(layer.members[0], self.rows, layer.out_features).ctypes.data
            record["weight"] = self._trained(optimizer, layer.weight, None if other is None else other.weight)
            record["bias"] = self._trained(optimizer, layer.bias, None if other is None else other.bias)
            record["steps"] = [optimizer.steps[_index(optimizer, p)].data_ptr() for p in (layer.weight, layer.bias)]
        return layers

    def _trained(self, optimizer: Optimizer, parameter: Tensor, target: Tensor | None) -> list[int]:
        """Addresses of a parameter, its gradient, its moments and its target."""
        i = _index(optimizer, parameter)
        places = [optimizer.means[i].data_ptr(), optimizer.squares[i].data_ptr()]
        gradient = self._zeros(*parameter.shape).ctypes.data
        return [parameter.data_ptr(), gradient, *places, 0 if target is None else target.data_ptr()]


def stacked_layers(network: Trunk) -> list[StackedLinear]:
    """The layers of a trunk, in order."""
    return [module for module in network.modules() if isinstance(module, StackedLinear)]


def _index(optimizer: Optimizer, parameter: Tensor) -> int:
    return [p.data_ptr() for p in optimizer.parameters].index(parameter.data_ptr())


def _widest(layers: Array) -> int:
    return int(max(layers["inputs"].max(), layers["outputs"].max()))


def _without_deltas(layers: Array) -> Array:
    other = layers.copy()
    other["values"], other["deltas"] = layers["deltas"], 0
    return other
