"""Updates on a GPU as captured graphs: several updates are launched at once, and Python is out of the way.

Random numbers come from the generators that eager updates use, so a run can be continued from a checkpoint of either
kind; results agree up to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import torch

from medley.training.lanes import SideBySide, split
from medley.training.seed import Seed
from medley.training.stacking import stack_trace
from medley.training.tracing import divide_long_products, trace

_WARM_UP = 3  # runs before a capture, so that libraries have allocated what they need
LONGEST = 16  # updates in one graph

Update = Callable[[], None]


class GraphedUpdates:
    """`run(phases)` does one update of every seed for each phase."""

    def __init__(self, seeds: Sequence[Seed], compiled: bool = True) -> None:
        self.seeds, self.compiled = seeds, compiled
        self._updates: dict[str, Update] = {}
        self._graphs: dict[tuple[str, ...], torch.cuda.CUDAGraph] = {}
        if compiled:
            for seed in seeds:
                seed.set_traceable()

    def run(self, phases: Sequence[str]) -> None:
        for eager, group in groupby(phases, self.seeds[0].agent.is_eager):
            own = tuple(group)
            if eager:
                for phase in own:
                    self._one_by_one(phase)
                continue
            for start in range(0, len(own), LONGEST):
                block = own[start : start + LONGEST]
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
                        self._updates[phase]()
            torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        for seed in self.seeds:
            for generator in seed.generators():
                graph.register_generator_state(generator)
        # An evaluation may go on in another thread, and may allocate memory meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for phase in block:
                self._updates[phase]()
        return graph

    def _prepare(self, phase: str) -> Update:
        self._one_by_one(phase)  # metrics are gathered in tensors that exist from here on
        return self._traced(phase) if self.compiled else partial(self._one_by_one, phase)

    def _one_by_one(self, phase: str) -> None:
        for seed in self.seeds:
            seed.update(phase, seed.draw(phase))

    def _traced(self, phase: str) -> Update:
        alone = len(self.seeds) == 1
        module, tensors = trace(self.seeds[0], phase) if alone else stack_trace(self.seeds, phase)
        divide_long_products(module)
        run = SideBySide(split(module, len(tensors)), _compiled).run

        def update() -> None:
            draws = [seed.draw(phase) for seed in self.seeds]
            random = draws[0] if alone else [torch.stack(own) for own in zip(*draws, strict=True)]
            with torch.no_grad():
                run(*tensors, *random)

        return update

    @contextlib.contextmanager
    def _undone(self) -> Iterator[None]:
        """Put everything back as it was: tracing and warming up are not training."""
        before = [seed.state() for seed in self.seeds]
        try:
            yield
        finally:
            for seed, state in zip(self.seeds, before, strict=True):
                seed.set_state(*state)


def _compiled(piece: torch.nn.Module) -> Callable[..., Any]:
    import torch._inductor.config as inductor

    run: Any = torch.compile(piece, fullgraph=True, dynamic=False)
    patch: Any = inductor.patch  # type: ignore[attr-defined, unused-ignore]

    def call(*inputs: Any) -> Any:
        with patch(combo_kernels=True):  # many small sums become one launch
            return run(*inputs)

    return call
