"""Updates with experts, discriminators and medians can be traced as a whole, which is what a captured graph needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medley.config.load import load_config
from medley.training.build import build
from medley.training.lanes import split
from medley.training.seed import Seed
from medley.training.tracing import trace
from tests.training.updates import largest_gap

SMALL = [
    *("env=point-aux", "setup.device=cpu", "setup.threads=1", "experiment.learner=eager"),
    *("agent.actor.hidden_dim=16", "agent.critic.hidden_dim=16", "replay_buffer.batch_size=24"),
]
RUNS = {
    "sacx": [],
    "vpace": ["agent.expert.shared=true"],
    "sqil": ["agent.rnd.weight=0.5", "agent.penalty.kind=cql", "agent.penalty.weight=0.1"],
    "rce": ["agent.n_step=4"],
    "lfgp": ["agent.penalty.kind=value", "agent.expert.share=0.25", "agent.discriminator.hidden_dim=8"],
}


def make(folder: Path, *words: str) -> Seed:
    parts = build(load_config([*SMALL, *words, f"setup.save_dir={folder}"]))
    for step in parts.collector.collect(parts.acting, 60, "policy", 0)[0]:
        parts.replay.add(step)
    return parts.learner.seed


@pytest.mark.parametrize("agent", RUNS)
def test_a_trace_is_the_whole_update(tmp_path: Path, agent: str) -> None:
    eager, traced = (make(tmp_path / name, f"agent={agent}", *RUNS[agent]) for name in "ab")
    for seed in (eager, traced):
        seed.set_traceable()
        seed.update("all", seed.draw("all"))  # so that every metric has a place
    before = traced.state()
    module, tensors = trace(traced, "all")
    traced.set_state(*before)
    pieces = split(module, len(tensors))
    for _ in range(5):
        eager.update("all", eager.draw("all"))
        with torch.no_grad():
            pieces(*tensors, *traced.draw("all"))
    assert largest_gap(eager, traced) < 1e-5
