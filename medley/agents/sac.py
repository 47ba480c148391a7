"""Soft actor-critic on one task or many (Haarnoja et al. 2018, arXiv 1812.05905).

Every tensor is ordered by task: obs [T, b, D], Q [2, T, b]. The losses, with weights w (1 unless replay says so):

    y    = r + discount * (min_k Qbar_k(s', a') - alpha_i log pi(a'|s'))
    L_Q  = mean_i mean_b w mean_k (Q_k(s, a) - y)^2          trains both critics and the task encoder
    L_pi = mean_i mean_b w (alpha_i log pi(a~|s) - min_k Q_k(s, a~))      trains the actor alone
    L_al = -mean_i mean_b log alpha_i (log pi + target entropy)             trains the temperatures alone
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from medley.agents.api import Agent, AgentKind, Batch, Metrics, NativeUpdate, Spaces, register_agent
from medley.agents.sac_options import SACConfig, check
from medley.errors import ConfigError
from medley.gradients.combiners import make_combiner
from medley.nn.optimizer import Optimizer
from medley.nn.squashed_gaussian import bound_log_std, sample
from medley.nn.task_input import NoTaskInput, OneHot, TaskEncoder, TaskInput, with_task
from medley.nn.trunks import Shape, make_trunk


class SAC(Agent):
    def __init__(self, options: SACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        self.options = options
        tasks = len(spaces.tasks)
        init = torch.Generator().manual_seed(seed)  # on the CPU: a seed gives the same start on every device
        # One task needs no label; with several, someone must tell the networks apart.
        self.task_input: TaskInput
        if options.task_input == "encoder":
            cfg = options.multitask.task_encoder_cfg
            self.task_input = TaskEncoder(
                tasks, init, cfg.embedding_dim, cfg.hidden_dim, cfg.num_layers, cfg.output_dim
            )
        elif options.task_input == "one_hot" and tasks > 1 and options.trunk != "disjoint":
            # GPUs multiply matrices fast only if rows hold a multiple of four numbers: a few zeros see to that.
            inputs = spaces.obs_dim + tasks + spaces.action_dim
            self.task_input = OneHot(tasks, tasks + -inputs % 4)
        else:
            self.task_input = NoTaskInput()
        z = self.task_input.width
        actor_shape = Shape(
            spaces.obs_dim + z,
            2 * spaces.action_dim,
            tasks,
            1,
            options.actor.hidden_dim,
            options.actor.num_layers,
            1e-3,
        )
        critic_shape = Shape(
            spaces.obs_dim + z + spaces.action_dim,
            1,
            tasks,
            2,
            options.critic.hidden_dim,
            options.critic.num_layers,
            3e-3,
        )
        self.task_input.to(device)
        self.actor = make_trunk(options.trunk, actor_shape, init).to(device)
        self.critic = make_trunk(options.trunk, critic_shape, init).to(device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        log_alpha = torch.full((tasks if options.alpha_per_task else 1,), options.init_temperature).log()
        self.log_alpha = nn.Parameter(log_alpha.to(device))
        # Padding dimensions neither move anything nor count as entropy.
        self.action_mask = torch.as_tensor(spaces.action_mask, dtype=torch.float32, device=device).unsqueeze(1)
        real_dims = self.action_mask.sum(-1)  # [T, 1]
        wanted = options.target_entropy
        self.target_entropy = -real_dims if wanted is None else torch.full_like(real_dims, wanted)
        self.generator = torch.Generator(device).manual_seed(seed + 1)

        self.actor_shared, self.actor_heads = _split(self.actor)
        self.critic_shared, self.critic_heads = _split(self.critic)
        self.encoder_parameters = list(self.task_input.parameters())
        self.combine_actor = make_combiner(options.gradients, tasks)
        self.combine_critic = make_combiner(options.gradients, tasks)
        lr = options.optimizers
        self.optimizers = {
            "actor": Optimizer([*self.actor_shared, *self.actor_heads], lr.actor),
            "critic": Optimizer([*self.critic_shared, *self.critic_heads], lr.critic),
            "alpha": Optimizer([self.log_alpha], lr.alpha),
        }
        if self.encoder_parameters:
            self.optimizers["task_encoder"] = Optimizer(self.encoder_parameters, lr.task_encoder)
        self._traceable = False
        self._critic_tensors: list[Tensor] = list(self.critic.parameters())
        self._target_tensors: list[Tensor] = list(self.target.parameters())

    # ---- acting

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        with torch.no_grad():
            mean, log_std = self._distribution(obs, self._task())
            if noise is None:
                return torch.tanh(mean) * self.action_mask
            return sample(mean, log_std, noise, self.action_mask)[0]

    def policy_tensors(self) -> list[Tensor]:
        return [p.data for p in (*self.actor.parameters(), *self.task_input.parameters())]

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
        return [self._noise((tasks, per_task, dims)) for _ in range(2 if phase in ("all", "no_target") else 1)]

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        noise = self.draw_noise(batch.obs.shape[1], phase) if noise is None else noise
        metrics = self.update_critic(batch, noise[0])
        if phase in ("all", "no_target"):
            metrics |= self.update_actor(batch, noise[1])
        if phase in ("all", "critic_target"):
            self.update_target()
        return metrics

    def native(self, threads: int) -> NativeUpdate | str:
        if type(self) is not SAC:
            return f"{type(self).__name__} may differ from the SAC that is compiled"
        from medley.agents.native.learner import native_sac  # Numba takes a while to import

        return native_sac(self, threads)

    def update_critic(self, batch: Batch, noise: Tensor) -> Metrics:
        z = self._task()
        with torch.no_grad():
            y = self._bootstrap(batch, z, noise)
        q = self._q(self.critic, batch.obs, batch.action, z)
        task_losses = ((q - y).square().mean(0) * batch.weight).mean(-1)
        shared = [*self.critic_shared, *self.encoder_parameters]
        gradients = self.combine_critic(task_losses, shared, self.critic_heads)
        n, e = len(self.critic_shared), len(self.encoder_parameters)
        if e:
            self.optimizers["task_encoder"].step(gradients[n : n + e], self.options.grad_clip)
        norm = self.optimizers["critic"].step([*gradients[:n], *gradients[n + e :]], self.options.grad_clip)
        task_losses = task_losses.detach()
        return {
            "critic_loss": task_losses.mean(),
            "critic_loss_per_task": task_losses,
            "q_mean_per_task": q.detach().mean((0, 2)),
            "grad_norm_critic": norm,
            "batch_reward": batch.reward.mean(),
        }

    def update_actor(self, batch: Batch, noise: Tensor) -> Metrics:
        z = self._task(detach=True)
        alpha = self._alpha()
        mean, log_std = self._distribution(batch.obs, z)
        action, log_prob = sample(mean, log_std, noise, self.action_mask)
        q = self._q(self.critic, batch.obs, action, z).amin(0)
        task_losses = ((alpha * log_prob - q) * batch.weight).mean(-1)
        gradients = self.combine_actor(task_losses, self.actor_shared, self.actor_heads)
        norm = self.optimizers["actor"].step(gradients, self.options.grad_clip)
        log_prob = log_prob.detach()
        metrics = {
            "actor_loss": task_losses.detach().mean(),
            "actor_entropy": -log_prob.mean(),
            "actor_target_entropy": self.target_entropy.mean(),
            "alpha_value": alpha.mean(),
            "alpha_per_task": alpha.expand(log_prob.shape[0], 1)[:, 0],
            "grad_norm_actor": norm,
        }
        return metrics | (self.update_alpha(log_prob) if self.options.learn_temperature else {})

    def update_alpha(self, log_prob: Tensor) -> Metrics:
        loss = -(self.log_alpha.unsqueeze(1) * (log_prob + self.target_entropy)).mean()
        (gradient,) = torch.autograd.grad(loss, [self.log_alpha])
        self.optimizers["alpha"].step([gradient], None)
        return {"alpha_loss": loss.detach()}

    def update_target(self) -> None:
        with torch.no_grad():
            if self._traceable:
                for target, critic in zip(self._target_tensors, self._critic_tensors, strict=True):
                    target.lerp_(critic, self.options.critic_tau)
            else:
                torch._foreach_lerp_(self._target_tensors, self._critic_tensors, self.options.critic_tau)

    def _bootstrap(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        mean, log_std = self._distribution(batch.next_obs, z)
        action, log_prob = sample(mean, log_std, noise, self.action_mask)
        q = self._q(self.target, batch.next_obs, action, z).amin(0)
        return batch.reward + batch.discount * (q - self._alpha() * log_prob)

    # ---- pieces

    def _task(self, detach: bool = False) -> Tensor | None:
        z: Tensor | None = self.task_input()
        return z.detach() if detach and z is not None else z

    def _alpha(self) -> Tensor:
        return self.log_alpha.detach().exp().unsqueeze(1)  # [T or 1, 1]

    def _distribution(self, obs: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(with_task(obs, z))[0].chunk(2, dim=-1)
        low, high = self.options.actor.log_std_bounds
        return mean, bound_log_std(log_std, low, high, self.options.actor.log_std_bounding)

    def _q(self, critic: nn.Module, obs: Tensor, action: Tensor, z: Tensor | None) -> Tensor:
        out: Tensor = critic(torch.cat([with_task(obs, z), action], dim=-1))
        return out.squeeze(-1)

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

    # ---- saving

    def _weights(self) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {"log_alpha": self.log_alpha.data}
        networks = {"actor": self.actor, "critic": self.critic, "target": self.target, "task": self.task_input}
        for name, network in networks.items():
            out |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        return out

    def _tensors(self) -> dict[str, Tensor]:
        out = self._weights()
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


def _split(network: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Parameters that tasks share, and those that belong to one task alone."""
    own = list(network.per_task_parameters())  # type: ignore[operator]
    ids = {id(p) for p in own}
    return [p for p in network.parameters() if id(p) not in ids], own


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
