"""Who makes MUST's masks: for each role (the actor, either critic) an encoder and a generator, and what trains them.

SAC's losses give a gradient of the masks; L_sim = mean_{i<j} (mask similarity_ij - trajectory similarity_ij)^2 has one
of its own. Both go back through the logits of the masks. Trajectories are compared by a slow copy of the actor's
encoder, so that L_sim does not move its own target.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from medley.agents.api import Metrics, Spaces
from medley.agents.must_options import MustSACConfig
from medley.agents.trajectories import Episodes, TrajectoryStore
from medley.nn.mask_generators import Shapes
from medley.nn.mask_maker import MaskMaker, encode_tasks
from medley.nn.mask_similarity import hamming, jaccard, similarity_loss, trajectory_similarity
from medley.nn.masking import Mask
from medley.nn.optimizer import Optimizer

SLOW_RATE = 0.005
Optimizers = dict[str, Optimizer]
HardMasks = dict[str, list[Tensor]]  # by role: [T, in, out] of every layer


class _Made(NamedTuple):
    """Masks in the making: what a gradient goes back through."""

    logits: list[Tensor]
    masks: list[Mask]
    trained: list[str]  # parts of the maker that learn by it


class MaskMakers:
    def __init__(
        self,
        shapes: Mapping[str, Shapes],
        options: MustSACConfig,
        spaces: Spaces,
        device: torch.device,
        generator: torch.Generator,
    ) -> None:
        self.options, self.clip, self.device = options.must, options.grad_clip, device
        self.tasks = len(spaces.tasks)
        self.makers = {
            role: MaskMaker(self.tasks, spaces.obs_dim, own, options.must, generator).to(device)
            for role, own in shapes.items()
        }
        encoder = self.makers["pi"].encoder
        self.slow = None if encoder is None else copy.deepcopy(encoder).to(device).requires_grad_(False)
        self.encodings = {role: torch.zeros(self.tasks, self.options.latent, device=device) for role in shapes}
        self.store = TrajectoryStore(spaces, self.options.window, self.options.stride)
        self.trajectory_similarity = torch.zeros(self.tasks, self.tasks, device=device)  # zeros: not known yet
        self.rl_optimizers: Optimizers = {}
        self.sl_optimizers: Optimizers = {}
        for role in shapes:
            network = options.optimizers.actor if role == "pi" else options.optimizers.critic
            rl_lr = network.lr if self.options.generator_rl_lr is None else self.options.generator_rl_lr
            for part in self._parts(role):
                own = list(getattr(self.makers[role], part).parameters())
                self.rl_optimizers[f"{role}.{part}"] = Optimizer(own, dataclasses.replace(network, lr=rl_lr))
                sl = dataclasses.replace(network, lr=self.options.generator_lr)
                self.sl_optimizers[f"{role}.{part}"] = Optimizer(own, sl)
        self._made: dict[str, _Made] = {}

    def _parts(self, role: str) -> list[str]:
        return ["generator"] if self.makers[role].encoder is None else ["generator", "encoder"]

    # ---- by SAC's losses

    def make(self, encode: bool) -> HardMasks:
        """New masks, with a way back to what made them until `forget`. Between two runs of the encoders, generators
        learn on what those gave last."""
        episodes = self._episodes() if encode else None
        for role, maker in self.makers.items():
            if episodes is not None and maker.encoder is not None:
                self._made[role] = self._masks(role, self._encode(role, episodes), self._parts(role))
            else:
                self._made[role] = self._masks(role, self._last_encoding(role), ["generator"])
        return self._hard(self._made)

    def descend(self, role: str, of_masks: Sequence[Tensor]) -> None:
        """Step by a gradient of the masks made last, if any are."""
        if role in self._made:
            self._descend(role, self._made[role], of_masks, self.rl_optimizers)
            if role == "pi" and "encoder" in self._made[role].trained:
                self._follow()

    def forget(self) -> None:
        self._made = {}

    def current(self) -> HardMasks:
        """The masks that generators, encoders and trajectories give now."""
        episodes = self._episodes()
        with torch.no_grad():
            made = {}
            for role, maker in self.makers.items():
                encoding = None if maker.encoder is None else self._encode(role, episodes)
                made[role] = self._masks(role, encoding, [])
            if self._can_compare():
                self.trajectory_similarity.copy_(self._compare_trajectories(episodes))
        return self._hard(made)

    # ---- by the similarity loss

    def supervise(self) -> Metrics:
        """Some steps for every role; the trajectories' similarity stands still meanwhile."""
        losses = {role: torch.zeros((), device=self.device) for role in self.makers}
        if self._can_compare():
            episodes = self._episodes()
            wanted = self._compare_trajectories(episodes)
            for step in range(self.options.sl_steps):
                for role in self.makers:
                    loss = self._supervise(role, episodes, wanted)
                    losses[role] = loss if step == 0 else losses[role]
                self._follow()
        return {f"similarity_loss_{role}": loss for role, loss in losses.items()}

    def _supervise(self, role: str, episodes: Episodes, wanted: Tensor) -> Tensor:
        made = self._masks(role, self.makers[role].encode(episodes), self._parts(role))
        masks = [mask.hard.requires_grad_(True) for mask in made.masks]
        counts = torch.from_numpy(self.store.succeeded).to(wanted) if self.options.success_only else None
        loss = similarity_loss(self._compare_masks(masks), wanted, counts)
        self._descend(role, made, torch.autograd.grad(loss, masks), self.sl_optimizers)
        return loss.detach()

    def _can_compare(self) -> bool:
        """Similarity needs two tasks, masks that can differ, and an episode of every task."""
        several = self.tasks > 1 and self.options.pruning_ratio > 0 and self.store.is_full()
        return several and (not self.options.success_only or int(self.store.succeeded.sum()) > 1)

    def _compare_masks(self, masks: Sequence[Tensor]) -> Tensor:
        if self.options.mask_similarity == "jaccard":
            return jaccard(masks)
        return hamming(masks, self.options.pruning_ratio)

    def _compare_trajectories(self, episodes: Episodes) -> Tensor:
        with torch.no_grad():
            if self.slow is None:
                return trajectory_similarity(self.store.features().to(self.device))
            return trajectory_similarity(encode_tasks(self.slow, episodes, self.tasks))

    def _follow(self) -> None:
        encoder = self.makers["pi"].encoder
        if self.slow is not None and encoder is not None:
            with torch.no_grad():
                torch._foreach_lerp_(list(self.slow.parameters()), list(encoder.parameters()), SLOW_RATE)

    # ---- pieces

    def _episodes(self) -> Episodes:
        states, lengths, task = self.store.recent(self.options.episodes)
        return Episodes(states.to(self.device), lengths, task)

    def _encode(self, role: str, episodes: Episodes) -> Tensor:
        encoding = self.makers[role].encode(episodes)
        assert encoding is not None
        self.encodings[role].copy_(encoding.detach())
        return encoding

    def _last_encoding(self, role: str) -> Tensor | None:
        return None if self.makers[role].encoder is None else self.encodings[role]

    def _masks(self, role: str, encoding: Tensor | None, trained: list[str]) -> _Made:
        logits = self.makers[role].logits(encoding)
        return _Made(logits, self.makers[role].masks(logits), trained)

    def _hard(self, made: dict[str, _Made]) -> HardMasks:
        return {role: [mask.hard for mask in own.masks] for role, own in made.items()}

    def _descend(self, role: str, made: _Made, of_masks: Sequence[Tensor], optimizers: Optimizers) -> None:
        chosen = [optimizers[f"{role}.{part}"] for part in made.trained]
        parameters = [p for optimizer in chosen for p in optimizer.parameters]
        of_logits = [gradient * mask.slope for gradient, mask in zip(of_masks, made.masks, strict=True)]
        # (an encoder that had no episode to read gets zeros)
        found = iter(torch.autograd.grad(made.logits, parameters, of_logits, materialize_grads=True))
        for optimizer in chosen:
            optimizer.step([next(found) for _ in optimizer.parameters], self.clip)

    # ---- saving

    def weights(self) -> dict[str, Tensor]:
        modules: dict[str, nn.Module] = dict(self.makers)
        if self.slow is not None:
            modules["slow"] = self.slow
        return {
            f"{name}.{key}": value for name, module in modules.items() for key, value in module.state_dict().items()
        }

    def state(self) -> dict[str, Tensor]:
        """All but the weights."""
        out = {f"encoding.{role}": value for role, value in self.encodings.items()}
        for kind, optimizers in (("rl", self.rl_optimizers), ("sl", self.sl_optimizers)):
            for name, optimizer in optimizers.items():
                out |= {f"optimizer.{kind}.{name}.{key}": value for key, value in optimizer.state().items()}
        out |= {f"store.{name}": value for name, value in self.store.state().items()}
        return out | {"trajectory_similarity": self.trajectory_similarity}
