"""Updates from pictures can be traced as a whole, and stacked over seeds: frames are gathered inside the graph."""

from __future__ import annotations

import pytest
import torch

from medley.config.load import load_config
from medley.training.build import build
from medley.training.lanes import split
from medley.training.seed import Seed
from medley.training.stacking import stack_trace
from medley.training.tracing import trace

OPTIONS = [
    "env=point",
    "env.num_tasks=2",
    "env.image_size=16",
    "agent.pixels.num_layers=2",
    "agent.pixels.num_filters=8",
    "agent.pixels.feature_dim=6",
    "agent.actor.hidden_dim=8",
    "agent.critic.hidden_dim=8",
    "replay_buffer.batch_size=6",
    "replay_buffer.capacity=400",
    "setup.device=cpu",
]


def make_seed(agent: str, number: int = 1) -> Seed:
    parts = build(load_config([*OPTIONS, f"agent={agent}", f"setup.seed={number}"]))
    for step in parts.collector.collect(parts.acting, 90, "random", 0)[0]:
        parts.replay.add(step)
    return parts.learner.seed


def gap(a: Seed, b: Seed) -> float:
    """Between the networks of two seeds."""
    one, two = a.agent.state_dict(), b.agent.state_dict()
    return max(float((one[k] - v).abs().max()) for k, v in two.items() if v.is_floating_point() and "optim" not in k)


@pytest.mark.parametrize(
    "agent",
    [
        "sac_ae",
        "drqv2",
        pytest.param("sac", marks=pytest.mark.long),
        pytest.param("drq", marks=pytest.mark.long),
        pytest.param("deepmdp", marks=pytest.mark.long),
        pytest.param("hipbmdp", marks=pytest.mark.long),
        pytest.param("pcgrad_sac_ae", marks=pytest.mark.long),
    ],
)
def test_traced(agent: str) -> None:
    eager, traced = make_seed(agent), make_seed(agent)
    traced.set_traceable()
    phases = sorted({traced.agent.phase(i) for i in range(4)})
    start = traced.state()
    for phase in phases:
        traced.update(phase, traced.draw(phase))
    graphs = {phase: trace(traced, phase) for phase in phases}
    traced.set_state(*start)
    for i in range(8):
        phase = eager.agent.phase(i)
        eager.update(phase, eager.draw(phase))
        module, tensors = graphs[phase]
        with torch.no_grad():
            split(module, len(tensors))(*tensors, *traced.draw(phase))
    assert gap(eager, traced) < 2e-3  # Adam's steps are 1e-3 long, and rounding turns a few of them


@pytest.mark.long
@pytest.mark.parametrize("agent", ["sac_ae", "drqv2"])
def test_stacked(agent: str) -> None:
    alone, together = ([make_seed(agent, i) for i in (1, 2)] for _ in range(2))
    phase = alone[0].agent.phase(0)
    for seed in (*alone, *together):
        seed.set_traceable()
        seed.update(phase, seed.draw(phase))
    start = [seed.state() for seed in together]
    module, tensors = stack_trace(together, phase)
    for seed, state in zip(together, start, strict=True):
        seed.set_state(*state)
    for _ in range(3):
        for seed in alone:
            seed.update(phase, seed.draw(phase))
        with torch.no_grad():
            module(*tensors, *(torch.stack(own) for own in zip(*(s.draw(phase) for s in together), strict=True)))
    for one, two in zip(alone, together, strict=True):
        assert gap(one, two) < 2e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("agent", ["sac_ae", "drqv2"])
def test_captured_updates_are_eager_ones(agent: str) -> None:
    """By what they report: weights part where Adam's steps turn, and slowly everywhere."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    rows = []
    for mode in ("eager", "graph", "compiled"):
        words = [*OPTIONS, f"agent={agent}", "setup.device=cuda", f"experiment.learner={mode}"]
        parts = build(load_config(words))
        for step in parts.collector.collect(parts.acting, 90, "random", 0)[0]:
            parts.replay.add(step)
        found: dict[str, list[float]] = {}
        for _ in range(5):
            parts.learner.learn(20)
            for key, value in parts.learner.drain(0).items():
                found.setdefault(key, []).append(value)
        rows.append(found)
    eager, *others = rows
    for other in others:
        for key in ("critic_loss", "actor_loss", "q_mean_0", *(["ae_loss"] if agent == "sac_ae" else [])):
            assert other[key] == pytest.approx(eager[key], rel=0.05, abs=0.01), key
