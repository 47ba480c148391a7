"""Updates on a GPU as captured graphs: several updates are launched at once, and Python is out of the way.

The agent's own `update` is traced once per phase (backward passes and optimisers included), compiled, and captured
together with the sampling of its batch. Random numbers come from the generators that eager updates use, so a run can be
continued from a checkpoint of either; results agree up to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from medley.agents.api import Agent, Batch, Metrics
from medley.replay.ring import Replay
from medley.training.rewards import RewardScale

_FIELDS = tuple(field.name for field in fields(Batch))
_WARM_UP = 3  # runs before a capture, so that libraries have allocated what they need
LONGEST = 16  # updates in one graph

Update = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]


_compile: Any = partial(torch.compile, fullgraph=True, dynamic=False)


class GraphedUpdates:
    """`run(phases)` does one update for each phase and adds its metrics to `sums`."""

    def __init__(
        self, agent: Agent, replay: Replay, rewards: RewardScale, per_task: int, compiled: bool = True
    ) -> None:
        self.agent, self.replay, self.rewards, self.per_task = agent, replay, rewards, per_task
        self.compiled = compiled
        self.sums: dict[str, Tensor] = {}
        self._names: dict[str, list[str]] = {}  # metrics of each phase
        self._updates: dict[str, Update] = {}
        self._graphs: dict[tuple[str, ...], torch.cuda.CUDAGraph] = {}
        if compiled:
            agent.set_traceable()

    def names(self, phase: str) -> list[str]:
        return self._names[phase]

    def run(self, phases: Sequence[str]) -> None:
        for start in range(0, len(phases), LONGEST):
            block = tuple(phases[start : start + LONGEST])
            if block not in self._graphs:
                self._graphs[block] = self._capture(block)
            self._graphs[block].replay()

    def _capture(self, block: tuple[str, ...]) -> torch.cuda.CUDAGraph:
        with self._undone():
            for phase in set(block) - self._updates.keys():
                self._updates[phase] = self._prepare(phase)
            stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP):
                    for phase in dict.fromkeys(block):
                        self._once(phase)
            torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        for generator in (*self.agent.generators(), self.replay.generator):
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            for phase in block:
                self._once(phase)
        return graph

    def _once(self, phase: str) -> None:
        batch = self.replay.sample(self.per_task)
        batch.reward = batch.reward * self.rewards.factor
        noise = self.agent.draw_noise(self.per_task, phase)
        with torch.no_grad():
            metrics = self._updates[phase](noise, [getattr(batch, name) for name in _FIELDS])
            torch._foreach_add_([self.sums[name] for name in self._names[phase]], metrics)

    def _prepare(self, phase: str) -> Update:
        """The update of one phase, as a function of tensors alone."""

        def update(noise: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
            batch = Batch(**dict(zip(_FIELDS, tensors, strict=True)))
            metrics: Metrics = self.agent.update(batch, phase, noise)
            self._names[phase] = list(metrics)
            return list(metrics.values())

        batch = self.replay.sample(self.per_task)
        noise, tensors = self.agent.draw_noise(self.per_task, phase), [getattr(batch, name) for name in _FIELDS]
        made: Update
        if self.compiled:
            import torch._inductor.config as inductor

            traced: Any = make_fx(update, tracing_mode="real")(noise, tensors)
            made = _compile(traced)
            patch: Any = inductor.patch  # type: ignore[attr-defined, unused-ignore]
            with torch.no_grad(), patch(combo_kernels=True):
                metrics = made(noise, tensors)
        else:

            def made(noise: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
                with torch.enable_grad():
                    return update(noise, tensors)

            metrics = made(noise, tensors)
        for name, value in zip(self._names[phase], metrics, strict=True):
            self.sums.setdefault(name, torch.zeros_like(value))
        return made

    @contextlib.contextmanager
    def _undone(self) -> Iterator[None]:
        """Put everything back as it was: tracing and warming up are not training."""
        agent = {name: value.clone() for name, value in self.agent.state_dict().items()}
        generator = self.replay.generator.get_state()
        sums = {name: value.clone() for name, value in self.sums.items()}
        try:
            yield
        finally:
            self.agent.load_state_dict(agent)
            self.replay.generator.set_state(generator)
            for name, value in self.sums.items():
                value.copy_(sums[name]) if name in sums else value.zero_()
