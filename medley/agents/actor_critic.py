"""What algorithms of the SAC family have in common: networks, optimisers, acting and saving, but no losses."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from medley.agents.api import Agent, Spaces
from medley.agents.sac_options import SACConfig
from medley.agents.task_label import make_task_input
from medley.errors import ConfigError
from medley.gradients.combiners import Combiner, Mean, make_combiner
from medley.gradients.task_loss import Extras, Gradients, TaskLoss
from medley.nn.obs_norm import ObsNorm
from medley.nn.optimizer import Optimizer
from medley.nn.squashed_gaussian import bound_log_std, sample
from medley.nn.trunks import Shape, Trunk, forward_beside, make_trunk

if TYPE_CHECKING:
    from medley.replay.ring import Step


class ActorCritic(Agent):
    def __init__(self, options: SACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        self.options, self.spaces = options, spaces
        tasks = len(spaces.tasks)
        init = torch.Generator().manual_seed(seed)  # on the CPU: a seed gives the same start on every device
        self.task_input = make_task_input(options, spaces, init).to(device)
        self.actor = self._make_trunk(self._actor_shape(spaces), init).to(device)
        self.critic = self._make_trunk(self._critic_shape(spaces), init).to(device)
        self.actor.link(self.critic)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        # Labels that are learnt belong to the critic: a target that had them at once would chase itself.
        learnt = any(p.requires_grad for p in self.task_input.parameters())
        self.target_task = copy.deepcopy(self.task_input).requires_grad_(False) if learnt else self.task_input
        log_alpha = torch.full((tasks if options.alpha_per_task else 1,), options.init_temperature).log()
        self.log_alpha = nn.Parameter(log_alpha.to(device))
        # Padding dimensions neither move anything nor count as entropy.
        self.action_mask = torch.as_tensor(spaces.action_mask, dtype=torch.float32, device=device).unsqueeze(1)
        real_dims = self.action_mask.sum(-1)  # [T, 1]
        wanted = options.target_entropy
        per_dim = options.target_entropy_per_dim
        self.target_entropy = per_dim * real_dims if wanted is None else torch.full_like(real_dims, wanted)
        self.obs_norm = ObsNorm(spaces.obs_dim, device) if options.normalize_obs else None
        self.generator = torch.Generator(device).manual_seed(seed + 1)

        self.networks: dict[str, nn.Module] = {  # what is saved
            "actor": self.actor,
            "critic": self.critic,
            "target": self.target,
            "task": self.task_input,
            "target_task": self.target_task,
        }
        self.critic_loss = TaskLoss(self._critic_losses, *self._critic_networks())
        self.actor_loss = TaskLoss(
            self._actor_losses, {"actor": self.actor, "critic": self.critic, "task": self.task_input}, ["actor"]
        )
        self.combine_critic = make_combiner(options.gradients, tasks, options, device)
        self.combine_actor = make_combiner(options.gradients, tasks, options, device)
        if self.combine_actor.needs_positive:
            self.combine_actor = Mean(tasks, options, device)  # an actor's loss may be negative
        self.optimizers = self._make_optimizers()
        self._traceable = False
        self._critic_tensors: list[Tensor] = [*self.critic.parameters(), *self.task_input.parameters()]
        self._target_tensors: list[Tensor] = [*self.target.parameters(), *self.target_task.parameters()]

    # ---- what an algorithm provides

    @abstractmethod
    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        """The critic's loss of every task, and what else it has to say."""

    @abstractmethod
    def _actor_losses(
        self, obs: Tensor, noise: Tensor, weight: Tensor, alpha: Tensor, mask: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        """The same for the actor; extras hold `log_prob`."""

    # ---- how networks and optimisers are made

    def _make_trunk(self, shape: Shape, generator: torch.Generator) -> Trunk:
        return make_trunk(self.options.trunk, shape, generator)

    def _critic_networks(self) -> tuple[dict[str, nn.Module], list[str]]:
        """All networks of the critic's loss, and those that it trains."""
        return {"critic": self.critic, "task": self.task_input}, ["critic", "task"]

    def _actor_shape(self, spaces: Spaces) -> Shape:
        o, z = self.options.actor, self.task_input.width
        tasks, out = len(spaces.tasks), 2 * spaces.action_dim
        return Shape(spaces.obs_dim, out, tasks, 1, o.hidden_dim, o.num_layers, 1e-3, z, 0, self.options, spaces.tasks)

    def _critic_shape(self, spaces: Spaces, out: int = 1) -> Shape:
        o, z = self.options.critic, self.task_input.width
        tasks, actions = len(spaces.tasks), spaces.action_dim
        return Shape(
            spaces.obs_dim, out, tasks, 2, o.hidden_dim, o.num_layers, 3e-3, z, actions, self.options, spaces.tasks
        )

    def _make_optimizers(self) -> dict[str, Optimizer]:
        lr = self.options.optimizers
        critic, actor = self.critic_loss.parameters_trained, self.actor_loss.parameters_trained
        encoder = list(self.task_input.parameters())
        common = [p for p in critic if _holds(actor, p)]  # trained by both losses
        made = {
            "actor": Optimizer([p for p in actor if not _holds(common, p)], lr.actor),
            "critic": Optimizer([p for p in critic if not _holds([*common, *encoder], p)], lr.critic),
            "alpha": Optimizer([self.log_alpha], lr.alpha),
        }
        if encoder:
            made["task_encoder"] = Optimizer(encoder, lr.task_encoder)
        if common:
            made["common"] = Optimizer(common, lr.common)
        return made

    # ---- acting

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        with torch.no_grad():
            return self._act(self._seen(obs), self._task(), noise, self.action_mask)

    def knows_unseen(self) -> bool:
        return not self.actor.per_task()  # no part of a network belongs to a task

    def act_unseen(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        with torch.no_grad():
            z, mask = self._task(), self.action_mask.amax(0, keepdim=True)
            z = None if z is None else self._unseen_task(z).expand(obs.shape[0], -1)
            return self._act(self._seen(obs), z, noise, mask)

    def _act(self, seen: Tensor, z: Tensor | None, noise: Tensor | None, mask: Tensor) -> Tensor:
        mean, log_std = self._distribution(self.actor.act(seen, z))
        return torch.tanh(mean) * mask if noise is None else sample(mean, log_std, noise, mask)[0]

    def _unseen_task(self, z: Tensor) -> Tensor:
        """A label for tasks that were not trained, from the labels of those that were."""
        return z.mean(0)

    def policy_tensors(self) -> list[Tensor]:
        norm = [] if self.obs_norm is None else self.obs_norm.acting_tensors()
        return [t.data for t in (*self.actor.acting_tensors(), *self.task_input.parameters(), *norm)]

    def policy_names(self) -> list[str]:
        places = {t.data_ptr() for t in self.policy_tensors()}
        return [name for name, value in self._tensors().items() if value.data_ptr() in places]

    # ---- pieces

    def _task(self, detach: bool = False) -> Tensor | None:
        z: Tensor | None = self.task_input()
        return z.detach() if detach and z is not None else z

    def _alpha(self) -> Tensor:
        return self.log_alpha.detach().exp().unsqueeze(1)  # [T or 1, 1]

    def _distribution(self, out: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = out[0].chunk(2, dim=-1)
        low, high = self.options.actor.log_std_bounds
        return mean, bound_log_std(log_std, low, high, self.options.actor.log_std_bounding)

    def _q(
        self, critic: Callable[..., Tensor], obs: Tensor, action: Tensor, z: Tensor | None, *beside: Tensor
    ) -> Tensor:
        return forward_beside(critic, (obs, z, action), beside).squeeze(-1)

    def _seen(self, obs: Tensor) -> Tensor:
        return obs if self.obs_norm is None else self.obs_norm(obs)

    def _noise(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.action_mask.device)

    def _uniform(self, shape: tuple[int, ...]) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.action_mask.device)

    def _frozen_critic(self) -> Callable[..., Tensor]:
        """The critic for the actor's loss: parameters common to both learn there by what the actor does alone."""
        if "common" not in self.optimizers:
            return steady(self.critic)
        frozen = {name: p.detach() for name, p in self.critic.named_parameters()}
        return lambda *inputs: functional_call(self.critic, frozen, inputs, tie_weights=False)

    def _descend(self, network: str, gradients: Gradients) -> Tensor:
        """Step every optimiser whose parameters have gradients; the norm of the network's own comes back."""
        norms = {}
        for name in (network, "task_encoder", "common"):
            if name in self.optimizers and self.optimizers[name].parameters[0] in gradients:
                optimizer = self.optimizers[name]
                norms[name] = optimizer.step([gradients[p] for p in optimizer.parameters], self.options.grad_clip)
        return norms[network]

    def update_target(self) -> None:
        with torch.no_grad():
            self._follow(self._target_tensors, self._critic_tensors, self.options.critic_tau)

    def _follow(self, targets: Sequence[Tensor], sources: Sequence[Tensor], rate: float) -> None:
        if self._traceable:
            for target, source in zip(targets, sources, strict=True):
                target.lerp_(source, rate)
        else:
            torch._foreach_lerp_(list(targets), list(sources), rate)

    def generators(self) -> list[torch.Generator]:
        return [self.generator]

    def set_traceable(self) -> None:
        self._traceable = True
        for optimizer in self.optimizers.values():
            optimizer.traceable = True

    def reduce_precision(self) -> None:
        for network in (self.actor, self.critic, self.target):
            network.reduce_precision()

    # ---- between chunks

    def observe(self, chunk: Sequence[Step], updates: int) -> None:
        if self.obs_norm is not None:
            seen = [one.obs if one.active is None else one.obs[one.active] for one in chunk]
            self.obs_norm.observe(np.concatenate([obs.reshape(-1, obs.shape[-1]) for obs in seen]))

    def anneal(self, share: float) -> None:
        for optimizer in self.optimizers.values():
            optimizer.anneal(share)

    def entropy_reward(self) -> Tensor | None:
        return self._alpha() * self.target_entropy

    def reset(self, seed: int) -> None:
        """All but what is known about observations, how far exploration has come, and the stream of random numbers."""
        fresh = type(self)(self.options, self.spaces, self.action_mask.device, seed)._tensors()
        _copy_into({k: v for k, v in self._tensors().items() if not k.startswith(("obs_norm.", "exploration."))}, fresh)

    # ---- saving

    def _combiners(self) -> dict[str, Combiner]:
        return {"critic": self.combine_critic, "actor": self.combine_actor}

    def _weights(self) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {"log_alpha": self.log_alpha.data}
        seen: set[int] = set()  # a parameter that two networks have in common is saved once
        for name, network in self.networks.items():
            for key, value in network.state_dict(keep_vars=True).items():
                if id(value) not in seen:
                    out[f"{name}.{key}"] = value.data
                    seen.add(id(value))
        if self.obs_norm is not None:
            out |= {f"obs_norm.{key}": value for key, value in self.obs_norm.state().items()}
        return out

    def _tensors(self) -> dict[str, Tensor]:
        out = self._weights()
        for name, combiner in self._combiners().items():
            out |= {f"combiner.{name}.{key}": value for key, value in combiner.state().items()}
        for name, optimizer in self.optimizers.items():
            out |= {f"optimizer.{name}.{key}": value for key, value in optimizer.state().items()}
        return out

    def state_dict(self) -> dict[str, Tensor]:
        return self._tensors() | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        _copy_into(self._tensors(), _completed(state))
        self.generator.set_state(state["generator"].to("cpu", torch.uint8))

    def load_weights(self, state: dict[str, Tensor]) -> None:
        _copy_into(self._weights(), _completed(state))


def steady(network: Trunk) -> Callable[..., Tensor]:
    """A network as it acts: what it says of a row does not depend on the other rows."""
    return network.act if network.mixes_rows else network


def _holds(tensors: Sequence[Tensor], tensor: Tensor) -> bool:
    return any(t is tensor for t in tensors)


def _completed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Agents that were saved before targets had task labels of their own begin with those of the critic."""
    return {f"target_{name}": value for name, value in state.items() if name.startswith("task.")} | state


def _copy_into(tensors: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name not in state:
            raise ConfigError(f"the saved agent has no {name!r}: it was trained with another kind of network.")
        if state[name].shape != tensor.shape:
            raise ConfigError(
                f"{name!r} is {tuple(state[name].shape)} in the saved agent and {tuple(tensor.shape)} here: "
                "the tasks or the network sizes differ."
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(state[name])
