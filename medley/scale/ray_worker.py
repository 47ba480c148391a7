"""A worker of distributed collection: some slots of every task, and a copy of the policy to act with in them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.envs.api import FAULTS, MultiTaskEnv
from medley.errors import MedleyError
from medley.scale.wire import Packed, pack
from medley.training.collector import Collector

Weights = npt.NDArray[np.uint8]


def to_bytes(weights: list[Tensor]) -> Weights:
    """All weights in one block of memory: workers of one machine read the same."""
    return np.asarray(torch.cat([w.detach().reshape(-1).view(torch.uint8) for w in weights]).numpy())


def from_bytes(block: Weights, weights: list[Tensor]) -> None:
    start = 0
    with torch.no_grad():
        for w in weights:
            size = w.numel() * w.element_size()
            w.copy_(torch.from_numpy(block[start : start + size].copy()).view(w.dtype).view_as(w))
            start += size
    if start != len(block):
        raise MedleyError(
            f"a policy of {len(block)} bytes came, and this agent's has {start}: are the versions the same?"
        )


class PartCollector(Collector):
    """Some slots of a whole: it draws the noise of all of them and uses its own, so that what a slot does does not
    depend on how many workers there are."""

    def __init__(self, env: MultiTaskEnv, seed: int, noise_hold: int, part: int, parts: int) -> None:
        env.be_part(part, parts)
        super().__init__(env, seed, noise_hold, parts)
        self.mine = slice(part * env.slots_per_task, (part + 1) * env.slots_per_task)

    def _draw(self, steps: int, explore: str) -> Tensor:
        return super()._draw(steps, explore)[:, :, self.mine].contiguous()


class Worker:
    def __init__(self, config: dict[str, Any], part: int, parts: int) -> None:
        from medley.agents.api import agent_kind
        from medley.config.load import from_dict
        from medley.training.acting import quickest
        from medley.training.build import collector_seed, spaces_of, training_env

        torch.set_num_threads(1)
        c = from_dict(config)
        env = training_env(c, c.env.slots_per_task // parts)
        agent = agent_kind(c.agent.builder).build(c.agent, spaces_of(env), torch.device("cpu"), 0)
        self._act, self._weights = quickest(agent), agent.policy_tensors()
        self._collector = PartCollector(env, collector_seed(c), c.agent.noise_hold, part, parts)

    def collect(
        self,
        policy: Weights,
        steps: int,
        explore: str,
        step: int,
        tasks: npt.NDArray[np.bool_] | None,
        state: dict[str, npt.NDArray[Any]] | None = None,
    ) -> tuple[Packed, dict[str, Any], dict[str, Any]]:
        """The steps, the state after them, and what there is to count. `state`: go there first."""
        began = time.monotonic()
        if state is not None:
            self._collector.set_state(state)
        from_bytes(policy, self._weights)
        chunk, episodes = self._collector.collect(self._act, steps, explore, step, tasks)
        env = self._collector.env
        counts = {name: getattr(env, name) for name in FAULTS}
        packed = pack(chunk, episodes, env.frame_channels)
        return packed, self._collector.state(), {**counts, "seconds": time.monotonic() - began}

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        self._collector.set_state(state)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        return self._collector.state()
