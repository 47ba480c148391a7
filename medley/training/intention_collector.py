"""Collects with a scheduler: in every slot of one world the policy of the intention that is wanted there acts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.envs.api import MultiTaskEnv
from medley.replay.base import Step
from medley.training.acting import Act
from medley.training.collector import Collector, Episode
from medley.training.intention_schedulers import IntentionScheduler


class IntentionCollector(Collector):
    def __init__(
        self,
        env: MultiTaskEnv,
        seed: int,
        scheduler: IntentionScheduler,
        by_success: bool,
        label: float | None = None,
    ) -> None:
        """`by_success`: the scheduler judges by successes, since nobody learns from the env's rewards. With a `label`
        replay gets 1 for success and the label for everything else in place of them."""
        super().__init__(env, seed)
        self.scheduler, self.by_success, self.label = scheduler, by_success, label
        self._every = np.arange(env.num_envs)
        shape = (env.num_envs, len(env.intentions))
        self._returns, self._succeeded = np.zeros(shape), np.zeros(shape, dtype=np.bool_)

    def _actions(self, act: Act, obs: npt.NDArray[Any], drawn: Tensor, explore: str) -> npt.NDArray[np.float32]:
        if explore == "random":
            return self._within(drawn)
        each = (len(self.env.intentions), *[-1] * (obs.ndim - 1))
        actions = act(torch.from_numpy(obs).expand(each), drawn.expand(len(self.env.intentions), -1, -1)).numpy()
        return np.asarray(actions[self.scheduler.current, self._every][None])

    def _happened(self, step: Step, info: dict[str, Any], now: int) -> Step:
        rewards = np.asarray(info["rewards"])
        self._check("the environment gave a non-finite reward", rewards, now)
        self._returns += rewards
        self._succeeded |= info["successes"]
        ended = step.ended[0]
        wanted = self.scheduler.current.copy()
        self._histories = self.scheduler.histories() if ended.any() else []
        judged = info["successes"] if self.by_success else rewards
        switched = self.scheduler.advance(judged[:, 0].astype(np.float64), ended)
        learnt = rewards if self.label is None else np.where(info["successes"], 1.0, self.label)
        step.reward = learnt[None].astype(np.float32)
        step.intention, step.switched = wanted[None], switched[None]
        return step

    def _episode(self, slot: int, final: dict[str, Any]) -> Episode:
        plain = super()._episode(slot, final)
        seen = {
            "returns": self._returns[slot].tolist(),
            "successes": self._succeeded[slot].tolist(),
            "chosen": self._histories[slot],
        }
        self._returns[slot], self._succeeded[slot] = 0.0, False
        return plain._replace(intentions=seen)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        own = {"scheduler": self.scheduler.state(), "returns": self._returns, "succeeded": self._succeeded}
        return super().state() | {f"intentions.{key}": value.copy() for key, value in own.items()}

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        super().set_state({k: v for k, v in state.items() if not k.startswith("intentions.")})
        self.scheduler.set_state(state["intentions.scheduler"])
        self._returns = state["intentions.returns"].copy()
        self._succeeded = state["intentions.succeeded"].astype(np.bool_)
        if self.broken_off is not None:
            slots = np.flatnonzero(self.broken_off.ended)
            self._returns[slots], self._succeeded[slots] = 0.0, False
            self.scheduler.break_off(slots)
