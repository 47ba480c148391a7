"""Every method's update can be traced as a whole, which is what a captured graph needs, and stacked over seeds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from medley.gradients.combiners import combiner_names
from medley.nn.trunks import trunk_names
from medley.training.lanes import split
from medley.training.stacking import stack_trace
from tests.training.test_graphs import follow, trace_from_here
from tests.training.updates import largest_gap, make_seed

BLOCKS = ("bronet", "simba_v2", "flashsac")
METHODS: list[dict[str, Any]] = [
    *({"gradients": name} for name in combiner_names()),
    *({"trunk": name} for name in trunk_names() if name not in ("shared", "disjoint", "must", *BLOCKS)),
    {"trunk": "paco", "gradients": "pcgrad"},
    {"task_weights": "temperature"},
    {"trunk": "bronet", "builder": "brc", "bins": 5, "layers": 1, "task_input": "embedding", "alpha_per_task": False},
    {"trunk": "simba_v2", "builder": "brc", "bins": 5, "layers": 1, "twin": "min", "normalize_obs": True},
    {"trunk": "flashsac", "task_input": "one_hot", "layers": 1},
    {"trunk": "flashsac", "builder": "brc", "bins": 5, "layers": 1, "twin": "min", "actor_update_freq": 2},
    {"trunk": "simba_v2", "gradients": "pcgrad", "layers": 1},
    {"builder": "state_deepmdp", "model_dim": 16},
    {"builder": "state_deepmdp", "model_dim": 16, "gradients": "pcgrad", "probabilistic": True},
]


QUICK = [
    {"gradients": "pcgrad"},
    {"trunk": "soft_modules"},
    {"trunk": "moore"},
    {"trunk": "paco", "gradients": "pcgrad"},
    {"trunk": "flashsac", "task_input": "one_hot", "layers": 1},
    {"builder": "state_deepmdp", "model_dim": 16},
]


@pytest.mark.parametrize(
    "changes", [m if m in QUICK else pytest.param(m, marks=pytest.mark.long) for m in METHODS], ids=str
)
def test_traced(changes: dict[str, Any]) -> None:
    eager, traced = (make_seed(**changes) for _ in range(2))
    module, tensors = trace_from_here(traced)
    follow(eager, traced, split(module, len(tensors)), tensors)


@pytest.mark.long
@pytest.mark.parametrize("changes", METHODS, ids=str)
def test_stacked(changes: dict[str, Any]) -> None:
    alone, together = ([make_seed(seed=i, **changes) for i in range(2)] for _ in range(2))
    for seed in (*alone, *together):
        seed.set_traceable()
        seed.update("all", seed.draw("all"))  # so that every metric has a place
    start = [seed.state() for seed in together]
    module, tensors = stack_trace(together, "all")
    for seed, state in zip(together, start, strict=True):
        seed.set_state(*state)
    for _ in range(5):
        for seed in alone:
            seed.update("all", seed.draw("all"))
        with torch.no_grad():
            module(*tensors, *(torch.stack(own) for own in zip(*(s.draw("all") for s in together), strict=True)))
    for one, two in zip(alone, together, strict=True):
        assert largest_gap(one, two) < 1e-5
