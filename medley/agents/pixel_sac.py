"""SAC from pictures, with one set of convolutions for actor and critic; with shifted pictures, DrQ.

    features = convs(picture),  h = tanh(LayerNorm(linear(features)))      a linear of its own for actor and critic

The critic's loss trains convolutions, projection and heads; the actor's loss its own projection and head, and stops at
the features. The target is a copy of all of it; its encoder follows at a rate of its own.

An update looks at pictures as seldom as the algorithm allows: features of the current pictures, taken after the
critic's step, serve the actor, its value, and whatever a subclass learns from pictures (`update_model`).

DrQ (Kostrikov et al. 2020): every picture is shifted `views` times; targets are averaged over the shifts of the next
picture, and the critic learns from all shifts of the current one. The actor sees the first.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.pixel_options import PixelSACConfig, check
from medley.agents.sac import ACTOR_TOO, SAC
from medley.gradients.task_loss import Extras
from medley.nn.convs import Convs, shifted
from medley.nn.projected import ProjectedTrunk, init_all
from medley.nn.squashed_gaussian import sample
from medley.nn.trunks import Shape, Trunk

PLAIN = ("shared", "multi_head", "disjoint")  # trunks that start as `linear_init` says; others as they do anyway
MODEL = "+model"  # ends the name of a phase in which `update_model` has its turn


class PixelSAC(SAC):
    sees_pictures = True
    options: PixelSACConfig
    actor: ProjectedTrunk
    critic: ProjectedTrunk
    target: ProjectedTrunk

    def __init__(self, options: PixelSACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        assert spaces.image is not None
        self.image = spaces.image
        self.convs = self._make_convs(options, torch.Generator().manual_seed(seed + 2)).to(device)
        super().__init__(options, dataclasses.replace(spaces, obs_dim=options.pixels.feature_dim), device, seed)
        self.target_convs = copy.deepcopy(self.convs).requires_grad_(False)
        self.networks |= {"convs": self.convs, "target_convs": self.target_convs}

    # ---- how networks are made

    def _make_convs(self, options: PixelSACConfig, generator: torch.Generator) -> Convs:
        p = options.pixels
        return Convs(self.image, p.num_layers, p.num_filters, generator, p.delta_orthogonal)

    def _make_trunk(self, shape: Shape, generator: torch.Generator) -> Trunk:
        trunk, init = super()._make_trunk(shape, generator), self.options.pixels.linear_init
        if self.options.trunk in PLAIN:
            init_all(trunk, init, generator)
        return ProjectedTrunk(trunk, self.convs.features, shape.obs, generator, init)

    def _critic_networks(self) -> tuple[dict[str, nn.Module], list[str]]:
        networks, trained = super()._critic_networks()
        return {**networks, "convs": self.convs}, [*trained, "convs"]

    def reduce_precision(self) -> None:
        super().reduce_precision()
        for network in self.networks.values():
            if isinstance(network, Convs):
                network.reduced = True

    # ---- acting

    def _seen(self, obs: Tensor) -> Tensor:
        return self.convs(obs)  # type: ignore[no-any-return]

    def policy_tensors(self) -> list[Tensor]:
        return [*(p.data for p in self.convs.parameters()), *super().policy_tensors()]

    # ---- one update

    def phase(self, update: int) -> str:
        return super().phase(update) + (MODEL if self._model_due(update) else "")

    def _model_due(self, update: int) -> bool:
        return False

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        o, base = self.options.pixels, phase.removesuffix(MODEL)
        noise = super().draw_noise(per_task, base)
        tasks = len(self.spaces.tasks)
        if o.views > 1:  # a next action for every shift of the next picture
            more = self._noise((tasks, (o.views - 1) * per_task, noise[0].shape[-1]))
            noise[0] = torch.cat([noise[0], more], dim=1)
        if o.augmentation == "shift":
            noise.append(self._uniform((2, tasks, o.views * per_task, 2)))
        return noise + (self._draw_for_model(per_task) if base != phase else [])

    def _draw_for_model(self, per_task: int) -> list[Tensor]:
        return []

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        noise = self.draw_noise(batch.obs.shape[1], phase) if noise is None else noise
        base = phase.removesuffix(MODEL)
        actor_too, model_too = base in ACTOR_TOO, base != phase
        numbers = iter(noise)
        for_critic = next(numbers)
        for_actor = next(numbers) if actor_too else None
        order, actor_order = self._orders(numbers, actor_too)
        batch = self._weighted(batch)
        whole, batch = self._augmented(batch, numbers)
        rows = batch.obs.shape[1]
        whole.obs, whole.next_obs = self.convs.pixels(whole.obs), self.convs.pixels(whole.next_obs)

        metrics = self.update_critic(whole, for_critic, order)
        if actor_too or model_too:
            with torch.set_grad_enabled(model_too):
                features = self._features(whole.obs[:, :rows])
        if for_actor is not None:
            metrics |= self.update_actor(dataclasses.replace(batch, obs=features.detach()), for_actor, actor_order)
        if base in ("all", "critic_target"):
            self.update_target()
        if model_too:
            metrics |= self.update_model(batch, features, list(numbers))
        return metrics

    def _orders(self, numbers: Iterator[Tensor], actor_too: bool) -> list[Tensor | None]:
        """The random numbers of the gradient combiners, where they need some."""
        combiners = [self.combine_critic, self.combine_actor] if actor_too else [self.combine_critic]
        found = [None if c.random_shape() is None else next(numbers) for c in combiners]
        return [*found, None][:2]

    def _augmented(self, batch: Batch, numbers: Iterator[Tensor]) -> tuple[Batch, Batch]:
        """The batch with all shifts of its pictures as more rows, and with the first shift alone."""
        o = self.options.pixels
        if o.augmentation == "none":
            return dataclasses.replace(batch), batch
        rows = batch.obs.shape[1]

        def repeated(x: Tensor) -> Tensor:
            return torch.cat([x] * o.views, dim=1) if o.views > 1 else x

        whole = Batch(**{f.name: repeated(getattr(batch, f.name)) for f in dataclasses.fields(batch)})
        places = next(numbers)
        whole.obs = shifted(whole.obs, places[0], o.shift)
        whole.next_obs = shifted(whole.next_obs, places[1], o.shift)
        first = dataclasses.replace(batch, obs=whole.obs[:, :rows], next_obs=whole.next_obs[:, :rows])
        return whole, first

    def _features(self, obs: Tensor) -> Tensor:
        """What the actor sees of the current pictures, and a model too."""
        return self.convs(obs)  # type: ignore[no-any-return]

    def update_model(self, batch: Batch, features: Tensor, random: list[Tensor]) -> Metrics:
        """What else is learnt from pictures; `features` are those of `batch.obs`, with a gradient."""
        return {}

    # ---- losses

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        q = self._q(self.critic, self.convs(obs), action, self._task())
        losses = ((q - y).square().sum(0) * weight).mean(-1)  # a sum over both critics, as SAC+AE logs it
        return losses, {"q": q.detach().mean((0, 2))}

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        y = super()._targets(batch, z, noise)
        views = self.options.pixels.views
        if views == 1:
            return y
        return y.view(y.shape[0], views, -1).mean(1).repeat(1, views)

    def _next_action(self, batch: Batch, z: Tensor | None, noise: Tensor) -> tuple[Tensor, Tensor]:
        return sample(*self._distribution(self.actor(self.convs(batch.next_obs), z)), noise, self.action_mask)

    def _target_q(self, batch: Batch, next_action: Tensor) -> Tensor:
        return self._q(self.target, self.target_convs(batch.next_obs), next_action, self.target_task())

    def _alpha_loss(self, log_prob: Tensor) -> Tensor:
        return -(self.log_alpha.exp().unsqueeze(1) * (log_prob + self.target_entropy)).mean()

    def update_target(self) -> None:
        o = self.options
        heads = [*self.target.inner.parameters(), *self.target_task.parameters()]
        learning = [*self.critic.inner.parameters(), *self.task_input.parameters()]
        encoders = [*self.target.projection(), *self.target_convs.parameters()]
        sources = [*self.critic.projection(), *self.convs.parameters()]
        with torch.no_grad():
            self._follow(heads, learning, o.critic_tau)
            self._follow(encoders, sources, o.pixels.tau)


register_agent("pixel_sac", AgentKind(PixelSACConfig, PixelSAC, check))
