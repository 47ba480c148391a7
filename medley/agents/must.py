"""MUST: SAC on shared networks of which every task uses its own part, chosen by generated binary masks.

A generator for each network (pi, q1, q2) makes masks M_i from a task's number and its recent trajectories. The losses
are SAC's with W * M_i in place of every W. They always train their networks; while masks are refreshed they train the
generators too, after some steps on a similarity loss (medley/agents/mask_makers.py). In all other updates masks are
constants. They lie in the networks that use them, so that whoever acts, learns, evaluates or saves has the same ones.

New masks make another function of the same weights: right after a refresh a critic's values can be off by more than
they are worth, and a target that followed at once would teach them to the critic, for as long as values take to spread.
So targets stay what they were, masks and weights, until the critics have learnt those values with their new masks; then
they become copies of them. Until then the actor rests.

A refresh is made of phases of their own ("no_target+refresh", ...) that stay outside captured graphs: they are rare,
and an LSTM over episodes of any length is not worth tracing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from medley.agents.api import AgentKind, Batch, Metrics, Spaces, register_agent
from medley.agents.mask_makers import HardMasks, MaskMakers
from medley.agents.must_options import MustSACConfig, check
from medley.agents.refresh_clock import RefreshClock
from medley.agents.sac import SAC
from medley.gradients.task_loss import Gradients, TaskLoss
from medley.nn.must import MaskedTrunk
from medley.nn.trunks import Trunk

if TYPE_CHECKING:
    from medley.replay.ring import Step

# Phases of SAC, and these without a step of the target.
NO_TARGET = {"all": "no_target", "no_target": "no_target", "critic_target": "critic", "critic": "critic"}
ROLES = {"actor": ("pi",), "critic": ("q1", "q2")}  # of a network's members


class MUST(SAC):
    def __init__(self, options: MustSACConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        self.must = options.must
        shapes = {
            role: [(mask.shape[-2], mask.shape[-1]) for mask in self._masks_of(network)]
            for network, roles in ROLES.items()
            for role in roles
        }
        init = torch.Generator().manual_seed(seed + 2)
        self.makers = MaskMakers(shapes, options, spaces, device, init)
        self.clock = RefreshClock(spaces.horizon, len(spaces.tasks), self.must)
        self.version = torch.zeros((), device=device)
        with self._masks_with_gradients():  # these losses train masks, which is what trains generators
            networks: dict[str, nn.Module] = {"critic": self.critic, "task": self.task_input}
            self._refresh_losses = (
                TaskLoss(self._critic_losses, networks, ["critic", "task"]),
                TaskLoss(self._actor_losses, {"actor": self.actor, **networks}, ["actor"]),
            )
        self._put(self.makers.current())
        self._settle()

    # ---- when

    def observe(self, chunk: Sequence[Step], updates: int) -> None:
        super().observe(chunk, updates)
        for step in chunk:
            self.makers.store.add(step)
        self.clock.advance(sum(_frames(step) for step in chunk), updates)

    def phase(self, update: int) -> str:
        """SAC's, and what a refresh adds to it."""
        marks = []
        place = self.clock.place(update)
        if place is not None:
            marks.append("refresh")
            if place == 0 and self.must.supervised and self.clock.iteration > 0:
                marks.append("supervise")
            if place % self.must.encoder_interval == 0 and self.must.trajectories:
                marks.append("encode")
            if place == self.must.refresh_updates - 1:
                marks.append("publish")
        if self.clock.settles(update):
            marks.append("settle")
        plain = super().phase(update)
        if self.clock.is_unsettled(update):
            # An actor that followed critics with new masks would unlearn what it knows.
            plain = NO_TARGET[plain] if place is not None else "critic"
        return "+".join([plain, *marks])

    def is_eager(self, phase: str) -> bool:
        return "+" in phase

    # ---- learning

    def draw_noise(self, per_task: int, phase: str) -> list[Tensor]:
        return super().draw_noise(per_task, phase.split("+")[0])

    def update(self, batch: Batch, phase: str, noise: Sequence[Tensor] | None = None) -> Metrics:
        plain, *marks = phase.split("+")
        metrics: Metrics = {}
        if "supervise" in marks:
            metrics |= self.makers.supervise()
        if "refresh" in marks:
            changed = self._put(self.makers.make("encode" in marks))
            with self._refreshing():
                metrics |= super().update(batch, plain, noise)
            metrics["mask_change"] = changed
        else:
            metrics |= super().update(batch, plain, noise)
        if "publish" in marks:
            self._put(self.makers.current())
            self.version += 1
        if "settle" in marks:
            self._settle()
        return metrics | {"mask_version": self.version}

    @contextlib.contextmanager
    def _refreshing(self) -> Iterator[None]:
        """Within this, the losses train what made the masks."""
        usual = self.critic_loss, self.actor_loss
        self.critic_loss, self.actor_loss = self._refresh_losses
        try:
            with self._masks_with_gradients():
                yield
        finally:
            self.critic_loss, self.actor_loss = usual
            self.makers.forget()

    def _descend(self, network: str, gradients: Gradients) -> Tensor:
        norm = super()._descend(network, gradients)
        masks = self._masks_of(network)
        if masks[0] in gradients:
            for member, role in enumerate(ROLES[network]):
                self.makers.descend(role, [gradients[mask][member] for mask in masks])
        return norm

    # ---- masks

    def _masks_of(self, network: str) -> list[Tensor]:
        return _masked(getattr(self, network)).masks()

    def _put(self, masks: HardMasks) -> Tensor:
        """Into all networks; returns the share of a mask that changed, mean over layers and roles."""
        changes = []
        with torch.no_grad():
            for network, roles in ROLES.items():
                for member, role in enumerate(roles):
                    for place, mask in zip(self._masks_of(network), masks[role], strict=True):
                        changes.append((place[member] - mask).abs().mean())
                        place[member].copy_(mask)
        return torch.stack(changes).mean()

    def _settle(self) -> None:
        self.target.load_state_dict(self.critic.state_dict())
        self.target_task.load_state_dict(self.task_input.state_dict())

    @contextlib.contextmanager
    def _masks_with_gradients(self) -> Iterator[None]:
        masks = [mask for network in ROLES for mask in self._masks_of(network)]
        for mask in masks:
            mask.requires_grad_(True)
        try:
            yield
        finally:
            for mask in masks:
                mask.requires_grad_(False)

    # ---- saving

    def _weights(self) -> dict[str, Tensor]:
        return super()._weights() | {f"must.{name}": value for name, value in self.makers.weights().items()}

    def _tensors(self) -> dict[str, Tensor]:
        out = super()._tensors() | {f"must.{name}": value for name, value in self.makers.state().items()}
        return out | {"must.clock": self.clock.numbers, "must.version": self.version}

    def state_dict(self) -> dict[str, Tensor]:
        """Masks as a byte for each weight, not four."""
        networks = (*ROLES, "target")
        masks = {f"{network}.{name}" for network in networks for name in _masked(getattr(self, network)).per_task()}
        return {name: value.bool() if name in masks else value for name, value in super().state_dict().items()}


def _masked(trunk: Trunk) -> MaskedTrunk:
    assert isinstance(trunk, MaskedTrunk)
    return trunk


def _frames(step: Step) -> int:
    """Steps of single slots; a scheduler may let tasks rest."""
    tasks, slots = step.ended.shape
    return int(slots * (tasks if step.active is None else step.active.sum()))


register_agent("must", AgentKind(MustSACConfig, MUST, check))
