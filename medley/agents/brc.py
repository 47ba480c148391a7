"""BRC: soft actor-critic with a wide categorical critic (Nauman et al. 2025, arXiv 2505.23150).

The critic gives probabilities p_k of fixed values z, not a number. With alpha and the target entropy of SAC:

    p'   = mean_k softmax(Qbar_k(s', a'))          twin=min: those of the member with the smaller expected value
    y    = projection of (clip(r + discount (z - alpha log pi(a'|s'))), p') onto z
    L_Q  = -mean_i mean_b w sum_k y . log p_k(s, a)
    L_pi = mean_i mean_b w (alpha log pi(a~|s) - z . mean_k p_k(s, a~))    twin=min: the smaller of the z . p_k
    L_al = alpha (entropy - target entropy)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Batch, Spaces, register_agent
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig, check
from medley.config.options import opt
from medley.errors import ConfigError, closest
from medley.gradients.task_loss import Extras
from medley.nn.trunks import Shape
from medley.nn.two_hot import atoms, project


@dataclass
class BRCConfig(SACConfig):
    bins: int = opt(101, "values that a categorical critic tells apart, equally spaced within v_max")
    twin: str = opt("mean", "what two critics say together: mean (of their probabilities) | min (the smaller one)")


class BRC(SAC):
    options: BRCConfig

    def __init__(self, options: BRCConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        self.atoms = atoms(options.bins, options.v_max, device)
        super().__init__(options, spaces, device, seed)

    def _critic_shape(self, spaces: Spaces, out: int = 1) -> Shape:
        return super()._critic_shape(spaces, self.options.bins)

    def _targets(self, batch: Batch, z: Tensor | None, noise: Tensor) -> Tensor:
        """Probabilities of the atoms, [T, b, bins]."""
        action, log_prob = self._next_action(batch, z, noise)
        p = torch.softmax(self._target_q(batch, action), -1)
        if self.options.twin == "min":
            q = (p * self.atoms).sum(-1)
            p = torch.where((q[0] <= q[1]).unsqueeze(-1), p[0], p[1])
        else:
            p = p.mean(0)
        later = self.atoms - (self._alpha() * log_prob).unsqueeze(-1)
        values = batch.reward.unsqueeze(-1) + batch.discount.unsqueeze(-1) * later
        return project(values, p, self.options.v_max, self.options.bins)

    def _bounded(self, y: Tensor) -> Tensor:
        return y  # as the atoms are

    def _critic_losses(
        self, obs: Tensor, action: Tensor, y: Tensor, weight: Tensor, *beside: Tensor
    ) -> tuple[Tensor, Extras]:
        log_p = torch.log_softmax(self._q(self.critic, obs, action, self._task(), *beside), -1)
        losses = (-(y * log_p).sum(-1).sum(0) * weight).mean(-1)
        return losses, {"q": (log_p.detach().exp() * self.atoms).sum(-1).mean((0, 2))}

    def _value(self, obs: Tensor, action: Tensor, z: Tensor | None) -> Tensor:
        p = torch.softmax(self._q(self._frozen_critic(), obs, action, z), -1)
        q = (p * self.atoms).sum(-1)
        return q.amin(0) if self.options.twin == "min" else q.mean(0)

    def _alpha_loss(self, log_prob: Tensor) -> Tensor:
        return -(self.log_alpha.exp().unsqueeze(1) * (log_prob + self.target_entropy)).mean()


def check_brc(options: BRCConfig, tasks: int) -> None:
    check(options, tasks)
    if options.max_value:
        raise ConfigError("agent.max_value: the values of this critic lie between its atoms, see agent.v_max.")
    if options.bins < 2:
        raise ConfigError(f"agent.bins={options.bins} must be at least 2.")
    if options.twin not in (known := ["mean", "min"]):
        raise ConfigError(f"agent.twin={options.twin!r} does not exist.{closest(options.twin, known)}")


register_agent("brc", AgentKind(BRCConfig, BRC, check_brc))
