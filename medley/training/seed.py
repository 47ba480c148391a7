"""What the updates of one seed work on, and one update of it: sample, learn, gather metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from medley.agents.api import Agent, Metrics
from medley.replay.base import ReplayBase
from medley.training.rewards import RewardScale


@dataclass
class Seed:
    """What the updates of one seed work on. `sums` gathers its metrics, `names` says which a phase has."""

    agent: Agent
    replay: ReplayBase
    rewards: RewardScale
    per_task: int
    sums: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    traceable: bool = False

    def set_traceable(self) -> None:
        """From now on `update` consists of operations that a compiler understands."""
        self.traceable = True
        self.agent.set_traceable()

    def draw(self, phase: str) -> list[Tensor]:
        """All random numbers of one update."""
        return [*self.agent.draw_noise(self.per_task, phase), *self.replay.draw(self.per_task)]

    def update(self, phase: str, random: Sequence[Tensor]) -> None:
        """One update with the numbers that `draw` gave."""
        noises = len(random) - self.replay.draws
        batch = self.replay.take(random[noises:])
        batch.reward = batch.reward * self.rewards.factor
        noise = (random[:noises],) if noises else ()  # an agent without `draw_noise` draws its own
        self.gather(phase, self.agent.update(batch, phase, *noise))

    def gather(self, phase: str, metrics: Metrics) -> None:
        """Add up what an update said of itself; nothing is read from the device."""
        if phase not in self.names:
            self.names[phase] = list(metrics)
            for name, value in metrics.items():
                self.sums.setdefault(name, torch.zeros_like(value))
        with torch.no_grad():
            if self.traceable:
                for name, value in metrics.items():
                    self.sums[name].add_(value)
            else:
                torch._foreach_add_([self.sums[name] for name in metrics], list(metrics.values()))

    def generators(self) -> list[torch.Generator]:
        return [*self.agent.generators(), self.replay.generator]

    def state(self) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
        """A copy of everything an update changes."""
        agent = {name: value.clone() for name, value in self.agent.state_dict().items()}
        return agent, self.replay.generator.get_state(), {name: value.clone() for name, value in self.sums.items()}

    def set_state(self, agent: dict[str, Tensor], generator: Tensor, sums: dict[str, Tensor]) -> None:
        self.agent.load_state_dict(agent)
        self.replay.generator.set_state(generator)
        for name, value in self.sums.items():
            value.copy_(sums[name]) if name in sums else value.zero_()
