"""Seeds trained together get the numbers they would get alone, to the last bit on a CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from medley.training.seed import Seed
from medley.training.stacking import stack_in_place, stack_trace
from tests.training.updates import PHASES, largest_gap, make_seed

SEEDS = 3


def traceable(seed: int, **changes: Any) -> Seed:
    made = make_seed(seed=seed, **changes)
    made.set_traceable()
    for phase in PHASES:  # so that every metric has a place
        made.update(phase, made.draw(phase))
    return made


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"trunk": "shared"}, marks=pytest.mark.long),
        pytest.param({"trunk": "disjoint"}, marks=pytest.mark.long),
        pytest.param({"grad_clip": 0.01}, marks=pytest.mark.long),
        pytest.param({"n_step": 3}, marks=pytest.mark.long),
        pytest.param({"task_input": "encoder"}, marks=pytest.mark.long),
        {"alpha_per_task": False, "uniform": True},
    ],
    ids=str,
)
def test_together_and_alone(changes: dict[str, Any]) -> None:
    alone = [traceable(i, **changes) for i in range(SEEDS)]
    together = [traceable(i, **changes) for i in range(SEEDS)]
    start = [seed.state() for seed in together]
    graphs = {phase: stack_trace(together, phase) for phase in PHASES}
    for seed, state in zip(together, start, strict=True):
        seed.set_state(*state)
    for step in range(12):
        phase = PHASES[step % 4]
        for seed in alone:
            seed.update(phase, seed.draw(phase))
        random = [torch.stack(own) for own in zip(*(seed.draw(phase) for seed in together), strict=True)]
        module, tensors = graphs[phase]
        with torch.no_grad():
            module(*tensors, *random)
    for one, two in zip(alone, together, strict=True):
        assert largest_gap(one, two) == 0.0
    assert largest_gap(alone[0], alone[1]) > 1e-3  # and seeds differ from one another


def test_one_seed_that_diverges_leaves_the_others_alone() -> None:
    seeds, healthy = [traceable(i) for i in range(2)], traceable(1)
    start = [seed.state() for seed in seeds]
    module, tensors = stack_trace(seeds, "all")
    for seed, state in zip(seeds, start, strict=True):
        seed.set_state(*state)
    seeds[0].agent.log_alpha.data.fill_(float("nan"))  # type: ignore[attr-defined]
    for _ in range(3):
        with torch.no_grad():
            module(*tensors, *(torch.stack(own) for own in zip(*(s.draw("all") for s in seeds), strict=True)))
        healthy.update("all", healthy.draw("all"))
    assert largest_gap(seeds[1], healthy) == 0.0
    assert not torch.isfinite(seeds[0].sums["critic_loss"])


def test_tensors_keep_their_values_and_become_views() -> None:
    one, two = torch.randn(2, 3), torch.randn(2, 3)
    expected = torch.stack([one, two])
    whole = stack_in_place([one, two])
    assert torch.equal(whole, expected)
    two.add_(1)
    assert torch.equal(whole[1], expected[1] + 1)
    assert stack_in_place([one, two]).data_ptr() == whole.data_ptr()  # already there: nothing moves


def test_agents_that_differ_in_more_than_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in more than their numbers"):
        stack_trace([traceable(0), traceable(1, grad_clip=0.5)], "all")
