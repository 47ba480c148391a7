"""Reward factors that bring the returns of every task to the same size, or their rewards."""

from __future__ import annotations

import numpy as np
import torch

from medley.agents.api import Agent, AgentConfig
from medley.replay.base import ReplayBase
from medley.training.rewards import Array, RewardScale

NORMALIZATIONS = ["none", "ema_std", "return_range", "return_std", "ars"]


class _Scale(RewardScale):
    """The factor itself is saved: it may depend on more than these statistics."""

    def __init__(self, options: AgentConfig, tasks: int, slots: int, device: torch.device) -> None:
        super().__init__(tasks, options.reward_scale, "none", device)
        self.discount, self.v_max, self.shape = options.discount, options.v_max, (tasks, slots)
        self.stats: dict[str, Array] = {}

    def state(self) -> dict[str, Array]:
        return {"factor": self.factor.cpu().numpy().copy(), **{k: v.copy() for k, v in self.stats.items()}}

    def set_state(self, state: dict[str, Array]) -> None:
        self.factor.copy_(torch.from_numpy(state["factor"]))
        self.stats = {k: state[k].copy() for k in self.stats}

    def _to_device(self, values: Array) -> torch.Tensor:
        sent = torch.from_numpy(values.astype(np.float32)).unsqueeze(1)
        return sent.pin_memory().to(self.factor.device, non_blocking=True) if self.factor.is_cuda else sent


class ReturnRange(_Scale):
    """BRC (arXiv 2505.23150): r / D_i, D_i = (max(Gmax_i, |Gmin_i|) - alpha_i H / (2 (1 - discount))) / v_max.

    Gmin and Gmax are the extremes of all discounted returns from any step of any episode; one that was cut off goes on
    with its mean reward for ever. The second term leaves room for what a policy of the wanted entropy H earns by it.
    Before the first episode ends D_i is 1.
    """

    def __init__(self, options: AgentConfig, tasks: int, slots: int, device: torch.device) -> None:
        super().__init__(options, tasks, slots, device)
        self.stats = {
            "lowest": np.full(tasks, np.inf),
            "highest": np.full(tasks, -np.inf),
            "length": np.zeros((tasks, slots), dtype=np.int64),  # of the episode under way
            "rewards": np.zeros((tasks, slots, 1)),  # grows with the longest episode
        }

    def observe(
        self, reward: Array, terminated: Array | None = None, ended: Array | None = None, active: Array | None = None
    ) -> None:
        assert terminated is not None
        assert ended is not None
        length, rewards = self.stats["length"], self.stats["rewards"]
        if int(length.max()) == rewards.shape[2]:
            rewards = self.stats["rewards"] = np.concatenate([rewards, np.zeros_like(rewards)], axis=2)
        np.put_along_axis(rewards, length[..., None], reward[..., None].astype(np.float64), axis=2)
        length += 1 if active is None else active[:, None]  # an idle task's reward is overwritten by its next
        for task, slot in zip(*np.nonzero(ended), strict=True):
            self._end(task, rewards[task, slot, : length[task, slot]], bool(terminated[task, slot]))
            length[task, slot] = 0

    def _end(self, task: int, rewards: Array, terminated: bool) -> None:
        if not rewards.size:  # its only step was dropped
            return
        later = 0.0 if terminated else float(rewards.mean()) / (1 - self.discount)
        lowest, highest = self.stats["lowest"], self.stats["highest"]
        for reward in rewards[::-1].tolist():
            later = reward + self.discount * later
            lowest[task], highest[task] = min(lowest[task], later), max(highest[task], later)

    def settle(self, agent: Agent, replay: ReplayBase, afresh: bool) -> None:
        known = np.isfinite(self.stats["highest"])
        largest = np.where(known, np.maximum(self.stats["highest"], -self.stats["lowest"]), 0.0)
        room = self._to_device(largest)
        bonus = agent.entropy_reward()
        if bonus is not None:
            room = room - bonus / (2 * (1 - self.discount))
        # On the device, so that nobody waits for alpha. A task without any reward keeps what it has: nothing.
        scaled = self.scale * self.v_max / room.clamp(min=1e-6)
        self.factor.copy_(torch.where(self._to_device(known) > 0, scaled, self.scale))


class ReturnStd(_Scale):
    """FlashSAC: r / max(std of G_i, max |G_i| / v_max), where G <- r + discount G runs along an episode."""

    def __init__(self, options: AgentConfig, tasks: int, slots: int, device: torch.device) -> None:
        super().__init__(options, tasks, slots, device)
        self.stats = {
            "sums": np.zeros((tasks, slots)),
            "largest": np.zeros(tasks),
            "count": np.zeros(tasks),
            "mean": np.zeros(tasks),
            "squares": np.zeros(tasks),
        }

    def observe(
        self, reward: Array, terminated: Array | None = None, ended: Array | None = None, active: Array | None = None
    ) -> None:
        assert ended is not None
        s = self.stats
        now = np.ones(self.shape[0], dtype=np.bool_) if active is None else active
        s["sums"] = np.where(now[:, None], self.discount * s["sums"] + reward, s["sums"])
        s["largest"] = np.maximum(s["largest"], np.abs(s["sums"]).max(1))
        for column in s["sums"].T:
            s["count"] = s["count"] + now
            gap = (column - s["mean"]) * now
            s["mean"] = s["mean"] + gap / np.maximum(s["count"], 1)
            s["squares"] = s["squares"] + gap * (column - s["mean"])
        s["sums"] = s["sums"] * ~ended

    def settle(self, agent: Agent, replay: ReplayBase, afresh: bool) -> None:
        s = self.stats
        size = np.maximum(np.sqrt(s["squares"] / np.maximum(s["count"], 1) + 1e-8), s["largest"] / self.v_max)
        self.factor.copy_(self._to_device(self.scale / size))


class ReplayScale(_Scale):
    """ARS: r / (mean |r| in replay + 0.001), taken anew whenever networks start afresh."""

    def settle(self, agent: Agent, replay: ReplayBase, afresh: bool) -> None:
        if afresh:
            self.factor.copy_(self.scale / (replay.mean_abs_reward() + 1e-3))


def make_rewards(options: AgentConfig, tasks: int, slots: int, device: torch.device) -> RewardScale:
    kinds = {"return_range": ReturnRange, "return_std": ReturnStd, "ars": ReplayScale}
    if options.reward_normalization in kinds:
        return kinds[options.reward_normalization](options, tasks, slots, device)
    return RewardScale(tasks, options.reward_scale, options.reward_normalization, device)
