"""Soft actor-critic on one task or many (Haarnoja et al. 2018, arXiv 1812.05905).

Every tensor is ordered by task: obs [T, b, D], Q [2, T, b]. The losses, with weights w (1 unless replay says so):

    y    = r + discount * (min_k Qbar_k(s', a') - alpha_i log pi(a'|s'))
    L_Q  = mean_i mean_b w mean_k (Q_k(s, a) - y)^2          trains both critics and the task encoder
    L_pi = mean_i mean_b w (alpha_i log pi(a~|s) - min_k Q_k(s, a~))      trains the actor alone
    L_al = -mean_i mean_b log alpha_i (log pi + target entropy)             trains the temperatures alone
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from medley.agents.api import Agent, AgentKind, Batch, Metrics, NativeUpdate, Spaces, register_agent
from medley.agents.sac_options import SACConfig, check
from medley.agents.task_label import make_task_input
from medley.errors import ConfigError
from medley.gradients.combiners import Mean, make_combiner
from medley.gradients.task_loss import Extras, Gradients, TaskLoss
from medley.nn.obs_norm import ObsNorm
from medley.nn.optimizer import Optimizer
from medley.nn.squashed_gaussian import bound_log_std, sample
from medley.nn.trunks import Shape, Trunk, forward_beside, make_trunk

if TYPE_CHECKING:
    from medley.replay.ring import Step

ACTOR_TOO = ("all", "no_target")  # phases that train the actor


class SAC(Agent):
    def __init__(self, options: SACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        self.options, self.spaces = options, spaces
        tasks = len(spaces.tasks)
        init = torch.Generator().manual_seed(seed)  # on the CPU: a seed gives the same start on every device
        self.task_input = make_task_input(options, spaces, init).to(device)
        self.actor = make_trunk(options.trunk, self._actor_shape(spaces), init).to(device)
        self.critic = make_trunk(options.trunk, self._critic_shape(spaces), init).to(device)
        self.actor.link(self.critic)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
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
        }
        self.critic_loss = TaskLoss(
            self._critic_losses, {"critic": self.critic, "task": self.task_input}, ["critic", "task"]
        )
        self.actor_loss = TaskLoss(
            self._actor_losses, {"actor": self.actor, "critic": self.critic, "task": self.task_input}, ["actor"]
        )
        self.combine_critic = make_combiner(options.gradients, tasks, options, device)
        self.combine_actor = make_combiner(options.gradients, tasks, options, device)
        if self.combine_actor.needs_positive:
            self.combine_actor = Mean(tasks, options, device)  # an actor's loss may be negative
        self.optimizers = self._make_optimizers()
        self._traceable = False
        self._critic_tensors: list[Tensor] = list(self.critic.parameters())
        self._target_tensors: list[Tensor] = list(self.target.parameters())

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
            mean, log_std = self._distribution(self.actor.act(self._seen(obs), self._task()))
            if noise is None:
                return torch.tanh(mean) * self.action_mask
            return sample(mean, log_std, noise, self.action_mask)[0]

    def policy_tensors(self) -> list[Tensor]:
        norm = [] if self.obs_norm is None else self.obs_norm.acting_tensors()
        return [t.data for t in (*self.actor.acting_tensors(), *self.task_input.parameters(), *norm)]

    # ---- learning

    def phase(self, update: int) -> str:
        actor = update % self.options.actor_update_freq == 0
        target = update % self.options.critic_target_update_freq == 0
        return {
            (True, True): "all",
            (True, False): "no_target",
            (False, True): "critic_target",
            (False, False): "critic",
        }[actor, target]

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        tasks, _, dims = self.action_mask.shape
        combiners = [self.combine_critic, self.combine_actor] if phase in ACTOR_TOO else [self.combine_critic]
        shapes = [combiner.random_shape() for combiner in combiners]
        noise = [self._noise((tasks, per_task, dims)) for _ in combiners]
        return noise + [self._uniform(shape) for shape in shapes if shape is not None]

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        noise = self.draw_noise(batch.obs.shape[1], phase) if noise is None else noise
        actor_too = phase in ACTOR_TOO
        orders = iter(noise[2 if actor_too else 1 :])
        batch = self._weighted(self._normalized(batch))
        metrics = self.update_critic(batch, noise[0], next(orders, None))
        if actor_too:
            metrics |= self.update_actor(batch, noise[1], next(orders, None))
        if phase in ("all", "critic_target"):
            self.update_target()
        return metrics

    def native(self, threads: int) -> NativeUpdate | str:
        if type(self) is not SAC:
            return f"{type(self).__name__} may differ from the SAC that is compiled"
        from medley.agents.native.learner import native_sac  # Numba takes a while to import

        return native_sac(self, threads)

    def update_critic(self, batch: Batch, noise: Tensor, random: Tensor | None = None) -> Metrics:
        with torch.no_grad():
            y = self._targets(batch, self._task(), noise)
        inputs = (batch.obs, batch.action, y, batch.weight, *self._beside_critic(batch, noise))
        done = self.combine_critic(self.critic_loss, inputs, random)
        norm = self._descend("critic", done.gradients)
        self.critic.after_step()
        self.combine_critic.after_step(self.critic_loss, inputs, done.losses)
        more = self._after_critic(done.extras)
        return {
            "critic_loss": done.losses.mean(),
            "critic_loss_per_task": done.losses,
            "q_mean_per_task": done.extras["q"],
            "grad_norm_critic": norm,
            "batch_reward": batch.reward.mean(),
            **{f"{name}_critic": value for name, value in done.metrics.items()},
            **more,
        }

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        q = self._q(self.critic, obs, action, self._task(), *beside)
        losses = ((q - y).square().mean(0) * weight).mean(-1)
        return losses, {"q": q.detach().mean((0, 2))}

    def update_actor(self, batch: Batch, noise: Tensor, random: Tensor | None = None) -> Metrics:
        alpha = self._alpha()
        beside = (batch.next_obs,) if self.actor.mixes_rows else ()
        inputs = (batch.obs, noise, batch.weight, alpha.expand(batch.obs.shape[0], 1), self.action_mask, *beside)
        done = self.combine_actor(self.actor_loss, inputs, random)
        norm = self._descend("actor", done.gradients)
        self.actor.after_step()
        log_prob = done.extras["log_prob"]
        more = self._after_actor(batch, done.extras)
        metrics = {
            "actor_loss": done.losses.mean(),
            "actor_entropy": -log_prob.mean(),
            "actor_target_entropy": self.target_entropy.mean(),
            "alpha_value": alpha.mean(),
            "alpha_per_task": alpha.expand(log_prob.shape[0], 1)[:, 0],
            "grad_norm_actor": norm,
            **{f"{name}_actor": value for name, value in done.metrics.items()},
            **more,
        }
        return metrics | (self.update_alpha(log_prob) if self.options.learn_temperature else {})

    def _actor_losses(
        self, obs: Tensor, noise: Tensor, weight: Tensor, alpha: Tensor, mask: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        z = self._task(detach=True)
        action, log_prob = sample(*self._distribution(forward_beside(self.actor, (obs, z), beside)), noise, mask)
        losses = ((alpha * log_prob - self._value(obs, action, z)) * weight).mean(-1)
        return losses, {"log_prob": log_prob.detach()}

    def _descend(self, network: str, gradients: Gradients) -> Tensor:
        """Step every optimiser whose parameters have gradients; the norm of the network's own comes back."""
        norms = {}
        for name in (network, "task_encoder", "common"):
            if name in self.optimizers and self.optimizers[name].parameters[0] in gradients:
                optimizer = self.optimizers[name]
                norms[name] = optimizer.step([gradients[p] for p in optimizer.parameters], self.options.grad_clip)
        return norms[network]

    def update_alpha(self, log_prob: Tensor) -> Metrics:
        loss = -(self.log_alpha.unsqueeze(1) * (log_prob + self.target_entropy)).mean()
        (gradient,) = torch.autograd.grad(loss, [self.log_alpha])
        self.optimizers["alpha"].step([gradient], None)
        if self.options.log_alpha_bounds is not None:
            with torch.no_grad():
                self.log_alpha.clamp_(*self.options.log_alpha_bounds)
        return {"alpha_loss": loss.detach()}

    def update_target(self) -> None:
        with torch.no_grad():
            if self._traceable:
                for target, critic in zip(self._target_tensors, self._critic_tensors, strict=True):
                    target.lerp_(critic, self.options.critic_tau)
            else:
                torch._foreach_lerp_(self._target_tensors, self._critic_tensors, self.options.critic_tau)

    # ---- what an algorithm may do differently

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        """What the critic should say of the batch."""
        action, log_prob = self._next_action(batch, z, noise)
        q = self._target_q(batch, action, z).amin(0)
        return batch.reward + batch.discount * (q - self._alpha() * log_prob)

    def _after_critic(self, extras: Extras) -> Metrics:
        """Called when the critic has stepped, with what its losses said."""
        return {}

    def _after_actor(self, batch: Batch, extras: Extras) -> Metrics:
        """The same for the actor."""
        return {}

    def _value(self, obs: Tensor, action: Tensor, z: Tensor | None) -> Tensor:
        """What the actor is to maximise, [T, b]."""
        return self._q(self._frozen_critic(), obs, action, z).amin(0)

    def _frozen_critic(self) -> Callable[..., Tensor]:
        """The critic for the actor's loss: parameters common to both learn there by what the actor does alone."""
        if "common" not in self.optimizers:
            return steady(self.critic)
        frozen = {name: p.detach() for name, p in self.critic.named_parameters()}
        return lambda *inputs: functional_call(self.critic, frozen, inputs, tie_weights=False)

    # ---- pieces

    def _next_action(self, batch: Batch, z: Tensor | None, noise: Tensor) -> tuple[Tensor, Tensor]:
        """What the policy would do next, and its log-density."""
        return sample(*self._distribution(steady(self.actor)(batch.next_obs, z)), noise, self.action_mask)

    def _target_q(self, batch: Batch, next_action: Tensor, z: Tensor | None) -> Tensor:
        beside = (batch.obs, batch.action) if self.target.mixes_rows else ()
        return self._q(self.target, batch.next_obs, next_action, z, *beside)

    def _beside_critic(self, batch: Batch, noise: Tensor) -> tuple[Tensor, ...]:
        """What goes through the critic beside the batch, if its rows mix: what goes through its target too."""
        if not self.critic.mixes_rows:
            return ()
        with torch.no_grad():
            return batch.next_obs, self._next_action(batch, self._task(), noise)[0]

    def _seen(self, obs: Tensor) -> Tensor:
        return obs if self.obs_norm is None else self.obs_norm(obs)

    def _normalized(self, batch: Batch) -> Batch:
        if self.obs_norm is None:
            return batch
        return dataclasses.replace(batch, obs=self._seen(batch.obs), next_obs=self._seen(batch.next_obs))

    def _weighted(self, batch: Batch) -> Batch:
        """Tasks that are sure of what they do may count for more (Yang et al. 2020)."""
        if self.options.task_weights == "none":
            return batch
        share = torch.softmax(-self.log_alpha.detach(), 0) * self.log_alpha.shape[0]
        return dataclasses.replace(batch, weight=batch.weight * share.unsqueeze(1))

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

    def _uniform(self, shape: tuple[int, ...]) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.action_mask.device)

    def _noise(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.action_mask.device)

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
        """All but what is known about observations, and the stream of random numbers."""
        fresh = type(self)(self.options, self.spaces, self.action_mask.device, seed)._tensors()
        _copy_into({k: v for k, v in self._tensors().items() if not k.startswith("obs_norm.")}, fresh)

    # ---- saving

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
        for name, combiner in (("critic", self.combine_critic), ("actor", self.combine_actor)):
            out |= {f"combiner.{name}.{key}": value for key, value in combiner.state().items()}
        for name, optimizer in self.optimizers.items():
            out |= {f"optimizer.{name}.{key}": value for key, value in optimizer.state().items()}
        return out

    def state_dict(self) -> dict[str, Tensor]:
        return self._tensors() | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        _copy_into(self._tensors(), state)
        self.generator.set_state(state["generator"].to("cpu", torch.uint8))

    def load_weights(self, state: dict[str, Tensor]) -> None:
        _copy_into(self._weights(), state)


def steady(network: Trunk) -> Callable[..., Tensor]:
    """A network as it acts: what it says of a row does not depend on the other rows."""
    return network.act if network.mixes_rows else network


def _holds(tensors: Sequence[Tensor], tensor: Tensor) -> bool:
    return any(t is tensor for t in tensors)


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


register_agent("sac", AgentKind(SACConfig, SAC, check))
