"""Updates traced, compiled and captured are the agent's own updates. The GPU's part runs where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from medley.agents.api import Batch, Spaces
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.config.load import load_config
from medley.errors import ConfigError
from medley.replay.ring import Replay
from medley.training.build import build
from medley.training.graphs import _FIELDS, LONGEST, GraphedUpdates
from medley.training.learner import Learner
from medley.training.rewards import RewardScale

TASKS, ROWS, OBS, ACT = 3, 8, 5, 2
PHASES = ("all", "critic", "no_target", "critic_target")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make_agent(device: str = "cpu", **changes: Any) -> SAC:
    options = SACConfig(name="sac", builder="sac")
    options.actor.hidden_dim = options.critic.hidden_dim = 16
    options.actor.num_layers = options.critic.num_layers = 2
    for name, value in {"alpha_per_task": True, "trunk": "multi_head", **changes}.items():
        setattr(options, name, value)
    spaces = Spaces(tuple("abc"), OBS, ACT, np.ones((TASKS, ACT), dtype=bool))
    return SAC(options, spaces, torch.device(device), seed=0)


def make_replay(device: str = "cpu") -> Replay:
    replay = Replay(TASKS, 1, 50, OBS, ACT, torch.device(device), seed=3)
    fill = torch.Generator().manual_seed(4)
    for value in replay.rows.values():
        if value.is_floating_point():
            value.copy_(torch.randn(value.shape, generator=fill))
    replay.set_written(50)
    return replay


def largest_gap(a: SAC, b: SAC) -> float:
    one, two = a.state_dict(), b.state_dict()
    return max(float((one[k] - two[k]).abs().max()) for k in one if one[k].is_floating_point())


def updating(agent: SAC, phase: str) -> Callable[[list[Tensor], list[Tensor]], list[Tensor]]:
    def update(noise: list[Tensor], tensors: list[Tensor]) -> list[Tensor]:
        return list(agent.update(Batch(**dict(zip(_FIELDS, tensors, strict=True))), phase, noise).values())

    return update


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
@pytest.mark.parametrize("task_input", ["one_hot", "encoder"])
def test_a_trace_is_the_whole_update(trunk: str, task_input: str) -> None:
    """Backward passes, clipping, Adam, targets and temperatures: nothing happens outside the traced graph."""
    eager, traced = (make_agent(trunk=trunk, task_input=task_input) for _ in range(2))
    traced.set_traceable()
    replay = make_replay()
    start = {name: value.clone() for name, value in traced.state_dict().items()}
    graphs = {}
    for phase in PHASES:
        batch = replay.sample(ROWS)
        tensors = [getattr(batch, name) for name in _FIELDS]
        graphs[phase] = make_fx(updating(traced, phase), tracing_mode="real")(traced.draw_noise(ROWS, phase), tensors)
    traced.load_state_dict(start)
    for step in range(20):
        phase, batch = PHASES[step % 4], replay.sample(ROWS)
        noise = eager.draw_noise(ROWS, phase)
        expected = eager.update(batch, phase, noise)
        with torch.no_grad():
            got = graphs[phase](noise, [getattr(batch, name) for name in _FIELDS])
        for name, value in zip(expected, got, strict=True):
            torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5, msg=name)
    assert largest_gap(eager, traced) < 1e-4


def test_modes_that_need_a_gpu_are_refused_without_one() -> None:
    for mode in ("graph", "compiled"):
        with pytest.raises(ConfigError, match="needs a GPU"):
            build(load_config(["env=point", "setup.device=cpu", f"experiment.learner={mode}"]))
    with pytest.raises(ConfigError, match="Did you mean 'graph'"):
        load_config(["env=point", "experiment.learner=grahp"])


def learner(mode: str, **changes: Any) -> tuple[SAC, Learner]:
    agent, replay = make_agent("cuda", **changes), make_replay("cuda")
    rewards = RewardScale(TASKS, 0.5, "none", replay.device)
    graphs = None if mode == "eager" else GraphedUpdates(agent, replay, rewards, ROWS, mode == "compiled")
    return agent, Learner(agent, replay, rewards, ROWS, tuple("abc"), graphs=graphs)


@gpu
@pytest.mark.parametrize("mode", ["graph", "compiled"])
@pytest.mark.parametrize("changes", [{}, {"actor_update_freq": 2, "critic_target_update_freq": 3}])
def test_captured_updates_are_eager_ones(mode: str, changes: dict[str, Any]) -> None:
    torch.set_float32_matmul_precision("highest")
    (eager, slow), (agent, fast) = learner("eager", **changes), learner(mode, **changes)
    for count in (1, LONGEST + 3, 200 - LONGEST - 4):
        slow.learn(count)
        fast.learn(count)
    assert slow.updates == fast.updates == 200
    assert largest_gap(eager, agent) < (1e-12 if mode == "graph" else 2e-3)
    one, two = slow.drain(0), fast.drain(0)
    assert one == pytest.approx(two, rel=1e-3, abs=1e-4)


@gpu
@pytest.mark.parametrize("mode", ["graph", "compiled"])
def test_a_restart_goes_on_exactly(mode: str) -> None:
    agent, one = learner(mode)
    one.learn(40)
    saved, (sums, counts) = {k: v.clone() for k, v in agent.state_dict().items()}, one.state()
    sums = {k: v.clone() for k, v in sums.items()}
    one.learn(40)
    other, two = learner(mode)
    other.load_state_dict(saved)
    two.set_state(sums, counts)
    two.updates = 40
    two.learn(40)
    assert largest_gap(agent, other) == 0.0
    assert one.drain(0) == two.drain(0)
