"""What is done between two chunks, when nothing is under way: statistics, learning rates, fresh starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medley.agents.api import Agent
from medley.config.schema import Config
from medley.replay.base import ReplayBase, Step
from medley.training.rewards import RewardScale


class Upkeep:
    """Whether something is due follows from step counts alone, so that a resumed run does the same."""

    def __init__(self, config: Config, agent: Agent, replay: ReplayBase, rewards: RewardScale) -> None:
        self.agent, self.replay, self.rewards = agent, replay, rewards
        self.seed, self.init_steps = config.setup.seed, config.experiment.init_steps
        self.budget = config.experiment.num_train_steps
        self.reset_every = config.agent.reset_every or 0

    def after(self, chunk: Sequence[Step], before: int, step: int, updates: int) -> None:
        """The chunk that took the counter from `before` to `step` is in replay; `updates` have been done so far."""
        for one in chunk:
            self.rewards.observe(one.reward, one.terminated, one.ended, one.active)
        self.agent.observe(chunk, updates)
        self.agent.anneal(step / self.budget)
        reset = self.resets(before, step)
        if reset:
            self.agent.reset(int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0]))
        self.rewards.settle(self.agent, self.replay, reset or before < self.init_steps <= step)

    def resets(self, before: int, step: int) -> bool:
        """Networks start afresh, unless they would have too little time left to learn."""
        every = self.reset_every
        return bool(every) and step // every > before // every and self.init_steps <= step < 0.8 * self.budget

    def resume(self, step: int) -> None:
        self.agent.anneal(step / self.budget)
