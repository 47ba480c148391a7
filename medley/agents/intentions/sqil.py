"""SQIL from examples of success (Reddy et al. 2020), and with the value penalty VPACE (Ablett et al. 2024).

r = 1 for examples of an intention, label (-1) for everything else, times c
values lie between c label / (1 - discount) and c / (1 - discount)

With `rnd.weight` above 0 rows of replay get a bonus for what is new (`novelty.py`) before they are scaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from medley.agents.api import AgentKind, Metrics, Spaces, register_agent
from medley.agents.intentions.batch import IntentionBatch
from medley.agents.intentions.expert_sac import ExpertSAC
from medley.agents.intentions.novelty import Features, NoveltyConfig, surprise
from medley.agents.intentions.options import ExampleConfig
from medley.agents.intentions.options import check as check_intentions
from medley.agents.sac_options import OptimizersConfig
from medley.config.options import opt
from medley.errors import ConfigError
from medley.nn.optimizer import Optimizer, OptimizerConfig


@dataclass
class SQILOptimizersConfig(OptimizersConfig):
    novelty: OptimizerConfig = opt(OptimizerConfig(lr=1e-4), "")


@dataclass
class SQILConfig(ExampleConfig):
    rnd: NoveltyConfig = opt(NoveltyConfig(), "")
    optimizers: SQILOptimizersConfig = opt(SQILOptimizersConfig(), "")


class SQIL(ExpertSAC):
    options: SQILConfig

    def __init__(self, options: SQILConfig, spaces: Spaces, device: torch.device, seed: int) -> None:
        super().__init__(options, spaces, device, seed)
        self.known: Features | None = None
        if options.rnd.weight > 0:
            init = torch.Generator().manual_seed(seed + 6)
            self.known, self.guess = (Features(spaces.obs_dim, options.rnd.hidden_dim, init) for _ in range(2))
            self.known.to(device).requires_grad_(False)
            self.guess.to(device)
            self.networks |= {"known": self.known, "novelty": self.guess}
            self.optimizers["novelty"] = Optimizer(list(self.guess.parameters()), options.optimizers.novelty)

    def _learn_first(self, batch: IntentionBatch, numbers: Iterator[Tensor]) -> Metrics:
        """The bonus is what could not be foretold before this batch was seen."""
        if self.known is None:
            return {}
        found = surprise(self.known, self.guess, batch.obs)
        self._bonus = self.options.rnd.weight * found.detach()
        optimizer = self.optimizers["novelty"]
        optimizer.step(list(torch.autograd.grad(found.mean(), optimizer.parameters)), None)
        return {"novelty": found.detach().mean()}

    def _rewards(self, batch: IntentionBatch, obs: Tensor, action: Tensor, own: Tensor) -> Tensor:
        o = self.options
        replay = torch.full_like(batch.reward, o.label)
        if self.known is not None:
            replay = replay + self._bonus
        return o.reward_scale * torch.cat([replay, torch.where(own > 0, 1.0, o.label)], 1)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        o = self.options
        most = torch.full_like(self.weight, o.reward_scale / (1 - o.discount))
        return o.label * most, most


def check(options: SQILConfig, intentions: int) -> None:
    check_intentions(options, intentions)
    if options.rnd.weight < 0 or options.rnd.hidden_dim < 1:
        raise ConfigError("agent.rnd: weight must not be negative, hidden_dim at least 1.")


register_agent("sqil", AgentKind(SQILConfig, SQIL, check))
