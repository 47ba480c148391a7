"""DeepMDP from states: actor and critics see latents that foretell the next latent and the reward (Gelada et al. 2019).

    h = E(s),  h^' = T(h, z, a),  r^ = R(h^', z)                                 E: an encoder of its own, no trunk
    L_Q     as in SAC, of h                                                      trains critics, their labels and E
    L_pi    as in SAC, of sg(h)                                                  trains the actor alone
    L_model = mean_i mean_b w (mean .5 ((h^' - sg(h')) / sigma)^2 + log sigma  +  (r^ - r)^2)     trains T, R and E

The trunk gets h in place of the state. The model is learnt last, in every update, by optimisers of its own: E has one
here and another one in the critic's loss. Tasks' gradients are combined as those of the critic are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.latent_model import LatentModel, check_model
from medley.agents.mtrl_options import EncoderConfig
from medley.agents.sac import SAC
from medley.agents.sac_options import OptimizersConfig, SACConfig
from medley.agents.sac_options import check as check_sac
from medley.config.options import opt
from medley.errors import ConfigError
from medley.gradients.combiners import Combiner, Mean, make_combiner
from medley.gradients.task_loss import Extras, TaskLoss
from medley.nn.encoded import EncodedTrunk, StateEncoder
from medley.nn.optimizer import Optimizer, OptimizerConfig
from medley.nn.trunks import Shape, Trunk


@dataclass
class FeedforwardConfig:
    feature_dim: int = opt(50, "numbers that a state becomes")
    num_layers: int = opt(2, "hidden layers of the state encoder; one linear layer follows")
    hidden_dim: int = opt(50, "units per hidden layer of the state encoder")


@dataclass
class StateEncoderConfig(EncoderConfig):
    feedforward: FeedforwardConfig = opt(FeedforwardConfig(), "")


@dataclass
class StateDeepMDPOptimizersConfig(OptimizersConfig):
    encoder: OptimizerConfig = opt(OptimizerConfig(), "")  # by the loss of the model
    transition: OptimizerConfig = opt(OptimizerConfig(), "")
    reward: OptimizerConfig = opt(OptimizerConfig(), "")


@dataclass
class StateDeepMDPConfig(SACConfig):
    encoder: StateEncoderConfig = opt(StateEncoderConfig(), "")
    encoder_tau: float = opt(0.05, "share of the state encoder that flows into its target per target update")
    optimizers: StateDeepMDPOptimizersConfig = opt(StateDeepMDPOptimizersConfig(), "")
    model_dim: int = opt(512, "units of the transition and reward models")
    probabilistic: bool = opt(False, "the transition model says how sure it is")


class StateDeepMDP(SAC):
    options: StateDeepMDPConfig
    critic: EncodedTrunk
    target: EncodedTrunk

    def __init__(self, options: StateDeepMDPConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        o, init, tasks = options, torch.Generator().manual_seed(seed + 4), len(spaces.tasks)
        latent, told = o.encoder.feedforward.feature_dim, self.task_input.width
        self.model = LatentModel(latent, told, spaces.action_dim, o.model_dim, o.probabilistic, init)
        learning = {name: network.to(device) for name, network in self.model.networks().items()}
        self.networks |= learning
        assert self.critic.encoder is not None
        learning["encoder"] = self.critic.encoder
        self.model_loss = TaskLoss(self._model_losses, {**learning, "task": self.task_input}, list(learning))
        self.combine_model = make_combiner(o.gradients, tasks, o, device)
        if self.combine_model.needs_positive and o.probabilistic:
            self.combine_model = Mean(tasks, o, device)  # log sigma may be negative
        for name, network in learning.items():
            self.optimizers[name] = Optimizer(list(network.parameters()), getattr(o.optimizers, name))

    def _make_trunk(self, shape: Shape, generator: torch.Generator) -> Trunk:
        cfg = self.options.encoder.feedforward
        encoder = StateEncoder([shape.obs, *[cfg.hidden_dim] * cfg.num_layers, cfg.feature_dim], generator)
        return EncodedTrunk(super()._make_trunk(dataclasses.replace(shape, obs=cfg.feature_dim), generator), encoder)

    def _combiners(self) -> dict[str, Combiner]:
        return super()._combiners() | {"model": self.combine_model}

    # ---- one update

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        shape = self.combine_model.random_shape()
        return super().draw_noise(per_task, phase) + ([] if shape is None else [self._uniform(shape)])

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        noise = self.draw_noise(batch.obs.shape[1], phase) if noise is None else noise
        metrics = super().update(batch, phase, noise)
        random = None if self.combine_model.random_shape() is None else noise[-1]
        return metrics | self.update_model(self._normalized(batch), random)

    def update_model(self, batch: Batch, random: Tensor | None = None) -> Metrics:
        with torch.no_grad():
            h_next = self.critic.encode(batch.next_obs)
        inputs = (batch.obs, batch.action, h_next, batch.reward, batch.weight)
        done = self.combine_model(self.model_loss, inputs, random)
        for name in ("transition", "reward", "encoder"):
            optimizer = self.optimizers[name]
            optimizer.step([done.gradients[p] for p in optimizer.parameters], self.options.grad_clip)
        self.combine_model.after_step(self.model_loss, inputs, done.losses)
        return {
            "ae_transition_loss": done.extras["transition"].mean(),
            "reward_loss": done.extras["reward"].mean(),
            **{f"{name}_model": value for name, value in done.metrics.items()},
        }

    def _model_losses(
        self, obs: Tensor, action: Tensor, h_next: Tensor, reward: Tensor, weight: Tensor
    ) -> tuple[Tensor, Extras]:
        h, z = self.critic.encode(obs), self._task(detach=True)
        of_latents, of_rewards = self.model.errors(h, z, action, h_next, reward)
        transition = (of_latents.mean(-1) * weight).mean(-1)
        rewards = (of_rewards * weight).mean(-1)
        return transition + rewards, {"transition": transition.detach(), "reward": rewards.detach()}

    def update_target(self) -> None:
        assert self.critic.encoder is not None
        assert self.target.encoder is not None
        heads = [*self.target.inner.parameters(), *self.target_task.parameters()]
        learning = [*self.critic.inner.parameters(), *self.task_input.parameters()]
        encoders, sources = list(self.target.encoder.parameters()), list(self.critic.encoder.parameters())
        with torch.no_grad():
            self._follow(heads, learning, self.options.critic_tau)
            self._follow(encoders, sources, self.options.encoder_tau)


def check(options: StateDeepMDPConfig, tasks: int) -> None:
    check_sac(options, tasks)
    check_model(options.model_dim, options.n_step)
    if options.encoder.type_to_select == "identity":
        raise ConfigError(
            "agent.encoder.type_to_select=identity: actor and critics would have nothing of the model that is learnt. "
            "Take feedforward, or agent=state_sac."
        )
    for key, number in vars(options.encoder.feedforward).items():
        if number < 1:
            raise ConfigError(f"agent.encoder.feedforward.{key}={number} must be at least 1.")
    if not 0 < options.encoder_tau <= 1:
        raise ConfigError(f"agent.encoder_tau={options.encoder_tau} must lie in (0, 1].")


register_agent("state_deepmdp", AgentKind(StateDeepMDPConfig, StateDeepMDP, check))
