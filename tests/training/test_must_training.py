"""MUST in training: traced and stacked outside refreshes, one set of masks for everybody, exact restart."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from medley.agents.must import MUST
from medley.config.load import load_config
from medley.training.build import build
from medley.training.experiment import Experiment
from medley.training.graphs import GraphedUpdates
from medley.training.lanes import split
from medley.training.rewards import RewardScale
from medley.training.run import Run
from medley.training.seed import Seed
from medley.training.stacking import stack_trace
from medley.training.tracing import trace
from tests.agents.must_agent import episode, make
from tests.training.test_graphs import gpu
from tests.training.updates import OBS, ROWS, TASKS, largest_gap, make_replay

SMALL = [
    "env=point",
    "agent=must",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "agent.must.hidden=8",
    "agent.must.latent=8",
    "agent.must.rank=2",
    "agent.must.update_interval=2",
    "agent.must.refresh_updates=30",
    "replay_buffer.batch_size=24",
    "experiment.num_train_steps=400",
    "experiment.init_steps=60",
    "experiment.eval_freq=0",
    "experiment.save_freq=50",
    "experiment.num_eval_episodes=2",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "setup.threads=1",
    "setup.device=cpu",
    "logger.console=none",
    "logger.use_tb=false",
]


def make_seed(seed: int = 0, device: str = "cpu", **changes: Any) -> Seed:
    replay = make_replay(device, seed + 3)
    for name in ("obs", "next_obs"):
        replay.rows[name] = replay.rows[name][..., :4].contiguous()
    assert OBS == 5
    agent = make(seed=seed, device=device, **changes)
    agent.observe(episode(seed), 0)
    return Seed(agent, replay, RewardScale(TASKS, 0.5, "none", torch.device(device)), ROWS)


def traced_from_here(seed: Seed, phase: str) -> Any:
    seed.set_traceable()
    start = seed.state()
    seed.update(phase, seed.draw(phase))
    made = trace(seed, phase)
    seed.set_state(*start)
    return made


@pytest.mark.parametrize("phase", ["all", "critic", "no_target", "critic_target"])
@pytest.mark.parametrize("changes", [{}, {"gradients": "pcgrad"}, {"mask_bias": True}], ids=str)
def test_updates_between_refreshes_are_traced(phase: str, changes: dict[str, Any]) -> None:
    eager, traced = (make_seed(**changes) for _ in range(2))
    module, tensors = traced_from_here(traced, phase)
    module = split(module, len(tensors))
    for step in range(6):
        if step == 3:  # masks change where they lie: the graph goes on with the new ones
            for seed in (eager, traced):
                seed.update("all+refresh+encode+publish", seed.draw("all+refresh+encode+publish"))
        eager.update(phase, eager.draw(phase))
        with torch.no_grad():
            module(*tensors, *traced.draw(phase))
    assert largest_gap(eager, traced) < 1e-4
    assert all(torch.equal(a, b) for a, b in zip(masks(eager), masks(traced), strict=True))


def masks(seed: Seed) -> list[torch.Tensor]:
    assert isinstance(seed.agent, MUST)
    return [*seed.agent._masks_of("actor"), *seed.agent._masks_of("critic")]


def test_stacked_seeds_refresh_their_own_masks() -> None:
    alone, together = ([make_seed(seed=i) for i in range(2)] for _ in range(2))
    for seed in (*alone, *together):
        seed.set_traceable()
        seed.update("all", seed.draw("all"))
    start = [seed.state() for seed in together]
    module, tensors = stack_trace(together, "all")
    for seed, state in zip(together, start, strict=True):
        seed.set_state(*state)
    for step in range(4):
        for seed in (*alone, *together) if step == 2 else alone[:0]:
            seed.update("all+refresh+encode+publish", seed.draw("all+refresh+encode+publish"))
        for seed in alone:
            seed.update("all", seed.draw("all"))
        with torch.no_grad():
            module(*tensors, *(torch.stack(own) for own in zip(*(s.draw("all") for s in together), strict=True)))
    for one, two in zip(alone, together, strict=True):
        assert largest_gap(one, two) < 1e-5
        assert all(torch.equal(a, b) for a, b in zip(masks(one), masks(two), strict=True))


def test_graphs_leave_refreshes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    class Graph:
        def __init__(self, block: Sequence[str]) -> None:
            self.block = block

        def replay(self) -> None:
            done.append(tuple(self.block))

    updates = GraphedUpdates([make_seed()], compiled=False)
    monkeypatch.setattr(updates, "_capture", Graph)
    monkeypatch.setattr(updates, "_one_by_one", done.append)
    updates.run(["all", "all", "all+refresh+encode", "all+refresh", *["all"] * 17])
    assert done == [("all",) * 2, "all+refresh+encode", "all+refresh", ("all",) * 16, ("all",)]


@gpu
def test_trained_and_saved_on_a_gpu(tmp_path: Path) -> None:
    """Its clock and its store of trajectories stay on the host."""
    train(tmp_path / "run", "setup.device=cuda")
    assert (tmp_path / "run" / "checkpoints" / "400" / "agent.safetensors").exists()


@gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_captured_updates_with_a_refresh_between(compiled: bool) -> None:
    eager, graphed = (make_seed(device="cuda") for _ in range(2))
    updates = GraphedUpdates([graphed], compiled)
    phases = ["all"] * 3 + ["all+refresh+supervise+encode", "all+refresh", "all+refresh+publish"] + ["all"] * 3
    updates.run(phases)
    for phase in phases:
        eager.update(phase, eager.draw(phase))
    assert largest_gap(eager, graphed) < 1e-3


# ---- one set of masks


def train(folder: Path, *words: str) -> Experiment:
    config = load_config([*SMALL, *words])
    run = Run(folder)
    run.create(config)
    experiment = Experiment(config, run)
    assert experiment.train() == "finished"
    return experiment


@pytest.mark.parametrize("overlap", ["true", "false"])
def test_collector_evaluator_learner_and_checkpoint_have_the_same_masks(tmp_path: Path, overlap: str) -> None:
    x = train(tmp_path / "run", f"experiment.overlap={overlap}", f"experiment.eval_in_background={overlap}")
    agent = x.parts.agent
    assert isinstance(agent, MUST)
    assert float(agent.version) >= 2
    saved = load_file(tmp_path / "run" / "checkpoints" / "400" / "agent.safetensors")
    for name in agent.actor.per_task():
        assert saved[f"actor.{name}"].dtype == torch.bool
        assert torch.equal(saved[f"actor.{name}"].float(), agent.actor.get_buffer(name))
    for name in agent.target.per_task():
        assert saved[f"target.{name}"].dtype == torch.bool
        assert torch.equal(saved[f"target.{name}"].float(), agent.target.get_buffer(name))
    obs = torch.randn(3, 2, 4)
    x.parts.acting.refresh()
    x.parts.evaluator.refresh()
    assert x.parts.evaluator.acting is not None
    wanted = agent.act(obs, None)
    assert torch.allclose(x.parts.acting(obs, None), wanted)
    assert torch.allclose(x.parts.evaluator.acting(obs, None), wanted)
    fresh = build(load_config([*SMALL, "setup.seed=7"])).agent
    fresh.load_weights(saved)
    assert torch.equal(fresh.act(obs, None), wanted)
    versions = [row["mask_version"] for row in rows(tmp_path / "run") if "mask_version" in row]
    assert versions[-1] > versions[0] >= 0


def test_the_store_hears_of_successes() -> None:
    """Straight to the goal of the first task, whichever task it is: that task alone succeeds."""
    parts = build(load_config(SMALL))
    goal = torch.tensor([0.7, 0.0])
    chunk, episodes = parts.collector.collect(lambda obs, noise: (goal - obs[..., :2]) * 5, 80, "policy", 0)
    assert [e.success for e in episodes] == [True, False, False] * 2
    parts.agent.observe(chunk, 0)
    assert isinstance(parts.agent, MUST)
    assert parts.agent.makers.store.succeeded.tolist() == [True, False, False]


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "train.log").read_text().splitlines()]


@pytest.mark.parametrize(
    "words",
    [pytest.param([], id="sync", marks=pytest.mark.long), pytest.param(["experiment.overlap=true"], id="overlap")],
)
def test_a_run_stopped_within_a_refresh_goes_on_bit_for_bit(tmp_path: Path, words: list[str]) -> None:
    """Stopped right after the checkpoint of step 150: thirty updates of a refresh are under way there."""
    whole = train(tmp_path / "whole", *words)
    config = load_config([*SMALL, *words])
    run = Run(tmp_path / "broken")
    run.create(copy.deepcopy(config))
    first = Experiment(config, run)
    first.train(lambda: first.step >= 150)
    agent = first.parts.agent
    assert isinstance(agent, MUST)
    assert "refresh" in agent.phase(first.parts.learner.updates), "this stop is not within a refresh"
    second = Experiment(config, run)
    assert second.train() == "finished"
    one, two = whole.parts.agent.state_dict(), second.parts.agent.state_dict()
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.equal(value, two[name]), name


def test_one_task_and_many_slots(tmp_path: Path) -> None:
    more = ["env.num_tasks=1", "env.slots_per_task=4", "experiment.collect_steps=10", "experiment.num_train_steps=800"]
    x = train(tmp_path / "run", *more, "agent.must.refresh_updates=10")
    assert isinstance(x.parts.agent, MUST)
    assert float(x.parts.agent.version) > 2
