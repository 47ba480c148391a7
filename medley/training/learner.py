"""Runs updates and gathers their metrics without ever waiting for one."""

from __future__ import annotations

import torch
from torch import Tensor

from medley.agents.api import Agent, NativeUpdate
from medley.errors import NonFiniteError
from medley.replay.ring import Replay
from medley.training.graphs import GraphedUpdates
from medley.training.rewards import RewardScale


class Learner:
    """Runs the agent's own update, or with `native` the same as compiled code, or with `graphs` as captured graphs."""

    def __init__(
        self,
        agent: Agent,
        replay: Replay,
        rewards: RewardScale,
        per_task: int,
        tasks: tuple[str, ...],
        native: NativeUpdate | None = None,
        graphs: GraphedUpdates | None = None,
    ) -> None:
        self.agent, self.replay, self.rewards = agent, replay, rewards
        self.native, self.graphs = native, graphs
        self.per_task, self.tasks = per_task, tasks
        self.updates = 0
        # Graphs add to tensors of their own.
        self._sums: dict[str, Tensor] = {} if graphs is None else graphs.sums
        self._counts: dict[str, int] = {}

    def learn(self, updates: int) -> None:
        if self.graphs is not None:
            self._launch(self.graphs, updates)
            return
        for _ in range(updates):
            phase = self.agent.phase(self.updates)
            if self.native is not None:
                metrics = self.native.update_from(self.replay, self.rewards.factor, self.per_task, phase)
            else:
                batch = self.replay.sample(self.per_task)
                batch.reward = batch.reward * self.rewards.factor
                metrics = self.agent.update(batch, phase)
            self.updates += 1
            self._gather(metrics)

    def _launch(self, graphs: GraphedUpdates, updates: int) -> None:
        phases = [self.agent.phase(self.updates + i) for i in range(updates)]
        graphs.run(phases)
        self.updates += updates
        for phase in phases:
            for name in graphs.names(phase):
                self._counts[name] = self._counts.get(name, 0) + 1

    def _gather(self, metrics: dict[str, Tensor]) -> None:
        for name, value in metrics.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros_like(value)
                self._counts[name] = 0
            self._counts[name] += 1
        torch._foreach_add_([self._sums[name] for name in metrics], list(metrics.values()))

    def drain(self, step: int) -> dict[str, float]:
        """Means since the last call; per-task metrics become `<name>_<task index>`. Reads from the device."""
        self.check_finite(step)
        row: dict[str, float] = {}
        for name, total in self._sums.items():
            if not self._counts[name]:
                continue
            mean = (total / self._counts[name]).cpu()
            if mean.ndim:
                stem = name.removesuffix("_per_task")
                row |= {f"{stem}_{i}": float(v) for i, v in enumerate(mean)}
            else:
                row[name] = float(mean)
            total.zero_()
            self._counts[name] = 0
        return row

    def check_finite(self, step: int) -> None:
        """Name the first thing that is not finite: a metric (by task where there is one per task) or a parameter."""
        for name, total in sorted(self._sums.items(), key=lambda item: -item[1].ndim):
            if not bool(torch.isfinite(total).all()):
                where = ""
                if total.ndim:
                    where = f", task {self.tasks[int((~torch.isfinite(total)).nonzero()[0])]}"
                raise NonFiniteError(f"step {step}{where}: {name} is not finite.")
        for name, tensor in self.agent.state_dict().items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise NonFiniteError(f"step {step}: the parameter {name} is not finite.")

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Metrics gathered since the last line belong to the run: without them a resumed log would differ."""
        return {**self._sums, "replay.generator": self.replay.generator.get_state()}, dict(self._counts)

    def set_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        device = self.replay.device
        self.replay.generator.set_state(tensors["replay.generator"].to("cpu", torch.uint8))
        self._sums.clear()
        self._sums.update({name: tensors[name].clone().to(device) for name in counts})
        self._counts = dict(counts)
