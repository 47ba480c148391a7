"""SQIL from examples of success (Reddy et al. 2020), and with the value penalty VPACE (Ablett et al. 2024).

r = 1 for examples of an intention, label (-1) for everything else, times c
values lie between c label / (1 - discount) and c / (1 - discount)
"""

from __future__ import annotations

import torch
from torch import Tensor

from medley.agents.api import AgentKind, register_agent
from medley.agents.intentions.batch import IntentionBatch
from medley.agents.intentions.expert_sac import ExpertSAC
from medley.agents.intentions.options import ExampleConfig, check


class SQIL(ExpertSAC):
    options: ExampleConfig

    def _rewards(self, batch: IntentionBatch, obs: Tensor, action: Tensor, own: Tensor) -> Tensor:
        o = self.options
        replay = torch.full_like(batch.reward, o.label)
        return o.reward_scale * torch.cat([replay, torch.where(own > 0, 1.0, o.label)], 1)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        o = self.options
        most = torch.full_like(self.weight, o.reward_scale / (1 - o.discount))
        return o.label * most, most


register_agent("sqil", AgentKind(ExampleConfig, SQIL, check))
