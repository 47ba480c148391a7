"""Runs updates and gathers their metrics without ever waiting for one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from medley.agents.api import NativeUpdate
from medley.errors import NonFiniteError
from medley.training.seed import Seed


class Updates(Protocol):
    """A way to do updates: `run` does one for each phase."""

    def run(self, phases: Sequence[str]) -> None: ...


class EagerUpdates:
    """The agent's own update, operation by operation."""

    def __init__(self, seed: Seed) -> None:
        self.seed = seed

    def run(self, phases: Sequence[str]) -> None:
        for phase in phases:
            self.seed.update(phase, self.seed.draw(phase))


class NativeUpdates:
    """The same as compiled code for CPUs."""

    def __init__(self, seed: Seed, native: NativeUpdate) -> None:
        self.seed, self.native = seed, native
        self._sums: Tensor | None = None  # of all metrics in one piece, as compiled code writes them

    def run(self, phases: Sequence[str]) -> None:
        seed, native = self.seed, self.native
        for phase in phases:
            metrics = native.update_from(seed.replay, seed.rewards.factor, seed.per_task, phase)
            if phase not in seed.names or len(metrics) < len(seed.sums):
                seed.gather(phase, metrics)
                continue
            if self._sums is None:
                self._sums = self._in_one_piece()
            self._sums.add_(native.metrics)  # one addition instead of a dozen

    def _in_one_piece(self) -> Tensor:
        whole = torch.zeros_like(self.native.metrics)
        for name, place in self.native.named(whole).items():
            if name in self.seed.sums:
                place.copy_(self.seed.sums[name])
                self.seed.sums[name] = place
        return whole


class Learner:
    """The updates of one seed: how many there were, and what they said."""

    def __init__(self, seed: Seed, updates: Updates, tasks: tuple[str, ...]) -> None:
        self.seed, self.runner, self.tasks = seed, updates, tasks
        self.updates = 0
        self._counts: dict[str, int] = {}

    def learn(self, updates: int) -> None:
        learn_together([self], updates)

    def phases(self, updates: int) -> list[str]:
        return [self.seed.agent.phase(self.updates + i) for i in range(updates)]

    def note(self, phases: Sequence[str]) -> None:
        self.updates += len(phases)
        for phase in phases:
            for name in self.seed.names[phase]:
                self._counts[name] = self._counts.get(name, 0) + 1

    def drain(self, step: int) -> dict[str, float]:
        """Means since the last call; per-task metrics become `<name>_<task index>`. Reads from the device."""
        self.check_finite(step)
        names = [name for name in self.seed.sums if self._counts.get(name)]
        if not names:
            return {}
        totals = [self.seed.sums[name] for name in names]
        per_update = [(t / self._counts[n]).reshape(-1) for n, t in zip(names, totals, strict=True)]
        means = iter(torch.cat(per_update).tolist())
        row: dict[str, float] = {}
        for name, total in zip(names, totals, strict=True):
            stem = name.removesuffix("_per_task")
            row |= {f"{stem}_{i}": next(means) for i in range(total.numel())} if total.ndim else {name: next(means)}
            self._counts[name] = 0
        torch._foreach_zero_(totals)
        return row

    def check_finite(self, step: int) -> None:
        """Name the first thing that is not finite: a metric (by task where there is one per task) or a parameter."""
        sums = sorted(self.seed.sums.items(), key=lambda item: -item[1].ndim)
        agent = [(name, t) for name, t in self.seed.agent.state_dict().items() if t.is_floating_point()]
        everything = [t for _, t in (*sums, *agent)]
        if _seem_finite(everything):
            return
        for name, total in sums:
            if not bool(torch.isfinite(total).all()):
                where = ""
                if total.ndim:
                    where = f", task {self.tasks[int((~torch.isfinite(total)).nonzero()[0])]}"
                raise NonFiniteError(f"step {step}{where}: {name} is not finite.")
        for name, tensor in agent:
            if not bool(torch.isfinite(tensor).all()):
                raise NonFiniteError(f"step {step}: the parameter {name} is not finite.")

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Metrics gathered since the last line belong to the run: without them a resumed log would differ."""
        return {**self.seed.sums, "replay.generator": self.seed.replay.generator.get_state()}, dict(self._counts)

    def set_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        replay, sums = self.seed.replay, self.seed.sums
        replay.generator.set_state(tensors["replay.generator"].to("cpu", torch.uint8))
        for name in counts:
            if name in sums:
                sums[name].copy_(tensors[name])
            else:
                sums[name] = tensors[name].clone().to(replay.device)
        self._counts = dict(counts)


def learn_together(learners: Sequence[Learner], updates: int) -> None:
    """Updates of several seeds in step with one another; those that share a way to do updates do them at once."""
    if not updates:
        return
    phases = [learner.phases(updates) for learner in learners]
    done: set[int] = set()
    for learner, own in zip(learners, phases, strict=True):
        if id(learner.runner) not in done:
            done.add(id(learner.runner))
            learner.runner.run(own)
    for learner, own in zip(learners, phases, strict=True):
        learner.note(own)


def _seem_finite(tensors: list[Tensor]) -> bool:
    """A quick look: false where one is not finite, and perhaps where sums are beyond all bounds."""
    there = [t for t in tensors if t.is_cuda]
    if there and not bool(torch.isfinite(torch.stack(torch._foreach_norm(there, float("inf")))).all()):
        return False  # one value was read from the device
    return all(math.isfinite(float(t.sum())) for t in tensors if not t.is_cuda)
