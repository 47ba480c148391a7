"""Compiled updates against PyTorch's own, and against the float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from medley.agents.api import Batch
from medley.replay.ring import Replay, Step
from tests.agents.native_sac import (
    ACT,
    MASK,
    OBS,
    TASKS,
    _threads_for_few_rows,
    agent,
    assert_alike,
    batch,
    compare,
    either_product,
    native,
    options,
)
from tests.agents.test_sac_reference import Reference

__all__ = ["_threads_for_few_rows", "either_product"]  # fixtures

# ---- the numbers


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("alpha_per_task", [False, True])
@pytest.mark.parametrize("task_input", ["one_hot", "none"])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_equals_eager(trunk: str, task_input: str, alpha_per_task: bool) -> None:
    compare(options(trunk=trunk, task_input=task_input, alpha_per_task=alpha_per_task))


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
@pytest.mark.parametrize(
    "changes",
    [
        {"grad_clip": None},
        {"grad_clip": 0.05},
        {"max_value": 0.4},
        {"learn_temperature": False, "init_temperature": 0.7},
        {"target_entropy": -0.5, "alpha_per_task": True},
        {"actor_update_freq": 2, "critic_target_update_freq": 3},
        {"critic_tau": 1.0},
        {"actor__log_std_bounding": "tanh", "actor__log_std_bounds": [-3.0, 1.0]},
        {"actor__log_std_bounds": [-0.3, 0.2]},  # so narrow that some outputs are cut and have no gradient
        {"actor__num_layers": 1, "critic__num_layers": 1},
        {"actor__num_layers": 4, "critic__num_layers": 2, "actor__hidden_dim": 7, "critic__hidden_dim": 1},
    ],
    ids=str,
)
def test_options_equal_eager(trunk: str, changes: dict[str, Any]) -> None:
    compare(options(trunk=trunk, **changes), updates=12)


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_any_number_of_threads(trunk: str, threads: int) -> None:
    compare(options(trunk=trunk), threads, rows=7)


@pytest.mark.usefixtures("either_product")
def test_fewer_rows_than_threads() -> None:
    for threads in (3, 5):
        compare(options(), threads, updates=5, rows=1)


@pytest.mark.usefixtures("either_product")
def test_one_task_with_a_batch_and_network_of_real_size() -> None:
    o = options(actor__hidden_dim=256, critic__hidden_dim=256, critic__num_layers=2)
    compare(o, updates=5, rows=256, mask=np.ones((1, 4), dtype=bool), each_alone=True)


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
@pytest.mark.parametrize(("actor", "critic", "rows", "threads"), [(24, 40, 19, 2), (33, 17, 20, 3), (72, 400, 3, 1)])
def test_odd_widths(trunk: str, actor: int, critic: int, rows: int, threads: int) -> None:
    o = options(trunk=trunk, actor__hidden_dim=actor, critic__hidden_dim=critic)
    compare(o, threads, updates=6, rows=rows)


@pytest.mark.usefixtures("either_product")
def test_many_action_dimensions() -> None:
    compare(options(), updates=12, mask=np.arange(2 * 21).reshape(2, 21) % 5 > 0)


def test_rows_where_both_critics_agree_count_half_for_each() -> None:
    agents = [agent(options()) for _ in range(2)]
    for one in agents:
        with torch.no_grad():
            for network in (one.critic, one.target):
                for p in network.parameters():
                    p[1] = p[0]
    compiled = native(agents[1])
    for n in range(4):
        agents[0].update(batch(n), "all")
        compiled.update(batch(n), "all")
    assert_alike(*agents, 5e-5)


def test_a_tau_of_one_copies_the_critic() -> None:
    one = agent(options(critic_tau=1.0))
    native(one).update(batch(0), "all")
    for name, value in one.critic.state_dict().items():
        assert torch.equal(value, one.target.state_dict()[name]), name


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_equals_the_float64_reference(trunk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TASKS": TASKS, "ROWS": 6, "OBS": OBS, "ACT": ACT, "MASK": MASK}.items():
        monkeypatch.setattr(f"tests.agents.test_sac_reference.{name}", value)
    o = options(trunk=trunk, alpha_per_task=True)
    one = agent(o)
    compiled = native(one)
    exact = Reference(o, {k: v.double() for k, v in one.state_dict().items()})
    rng = np.random.default_rng(0)
    for n in range(3):
        noises = [torch.from_numpy(rng.normal(size=(TASKS, 6, ACT))) for _ in range(2)]
        queue = list(noises)
        compiled._draw = lambda noise, queue=queue: noise.copy_(queue.pop(0))  # type: ignore[method-assign, misc]
        b = batch(n)
        got = {k: float(v) for k, v in compiled.update(b, "all").items() if v.ndim == 0}
        torch.set_default_dtype(torch.float64)
        try:
            wanted = exact.update(Batch(**{k: v.double() for k, v in vars(b).items()}), noises, "all")
        finally:
            torch.set_default_dtype(torch.float32)
        for name, value in wanted.items():
            assert got[name] == pytest.approx(value, rel=1e-5, abs=1e-5), f"{name}, update {n}"
        for name, tensor in one.state_dict().items():
            if name in exact.p:
                gap = float((tensor - exact.p[name].detach()).abs().max())
                assert gap < 1e-5, f"{name} differs by {gap} after update {n}"


@pytest.mark.usefixtures("either_product")
def test_what_is_not_finite_does_not_get_lost() -> None:
    for field in ("obs", "action", "reward", "next_obs"):
        one = agent(options())
        b = batch(0)
        getattr(b, field)[1, 2] = float("nan")
        metrics = native(one).update(b, "all")
        assert not torch.isfinite(metrics["critic_loss_per_task"][1])
        assert torch.isfinite(metrics["critic_loss_per_task"][0])
        assert not torch.isfinite(one.state_dict()["critic.hidden.1.weight"]).all()


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("bounding", ["clamp", "tanh"])
@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_acts_alike(trunk: str, bounding: str, rows: int) -> None:
    one = agent(options(trunk=trunk, actor__log_std_bounding=bounding))
    compiled = native(one)
    for n in range(3):
        obs, noise = 3 * batch(n, rows).obs, batch(n + 7, rows).action
        for e in (noise, None):
            got = compiled.act(obs, e)
            assert torch.allclose(got, one.act(obs, e), atol=1e-6)
            assert torch.equal(got, compiled.act(obs.transpose(0, 1).contiguous().transpose(0, 1), e))
        compiled.update(batch(n), "all")
    assert compiled.act(torch.zeros(TASKS, 2, OBS), None).shape == (TASKS, 2, ACT)


# ---- rows straight from replay


def ring(n_step: int, uniform: bool, steps: int) -> Replay:
    made = Replay(TASKS, 2, 40, OBS, ACT, torch.device("cpu"), 7, n_step, 0.9, uniform)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        ended = rng.random((TASKS, 2)) < 0.2
        made.add(
            Step(
                obs=rng.normal(size=(TASKS, 2, OBS)).astype(np.float32),
                action=rng.normal(size=(TASKS, 2, ACT)).astype(np.float32),
                reward=rng.normal(size=(TASKS, 2)).astype(np.float32),
                next_obs=rng.normal(size=(TASKS, 2, OBS)).astype(np.float32),
                terminated=ended & (rng.random((TASKS, 2)) < 0.5),
                ended=ended,
            )
        )
    return made


@pytest.mark.parametrize("steps", [8, 50])  # before and after the ring wraps around
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
def test_rows_read_from_replay_are_those_of_sample(n_step: int, uniform: bool, steps: int) -> None:
    one, two = agent(options()), agent(options())
    a, b = ring(n_step, uniform, steps), ring(n_step, uniform, steps)
    factor = torch.tensor([[0.5], [2.0], [1.3]])
    first, second = native(one), native(two)
    for n in range(4):
        if n == 2:
            factor.mul_(1.7)
            a.set_written(a.written - 3)
            b.set_written(b.written - 3)
        sample = a.sample(9)
        sample.reward = sample.reward * factor
        wanted, got = first.update(sample, "all"), second.update_from(b, factor, 9, "all")
        for name, value in wanted.items():
            assert torch.equal(value, got[name]), name
        assert torch.equal(a.generator.get_state(), b.generator.get_state())
    assert_alike(one, two, 1e-30)
    second.update(a.sample(4), "all")  # another size, and back
    first.update_from(a, factor, 5, "critic")
    first.update_from(ring(1, False, 8), factor, 5, "critic")


# ---- state


@pytest.mark.usefixtures("either_product")
def test_saved_and_loaded_agents_go_on_bit_for_bit() -> None:
    one, two = agent(options()), agent(options(), seed=5)
    first, second = native(one), native(two)
    for n in range(3):
        first.update(batch(n), "all")
    second.update(batch(9), "all")
    two.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    for n in range(3, 6):
        first.update(batch(n), "all")
        second.update(batch(n), "all")
    assert_alike(one, two, 1e-30)


def test_the_learning_rate_is_read_at_every_update() -> None:
    one = agent(options(learn_temperature=False))
    compiled = native(one)
    for optimizer in one.optimizers.values():
        optimizer.lr.fill_(0.0)
    before = {k: v.clone() for k, v in one.state_dict().items() if k.startswith(("actor", "critic"))}
    compiled.update(batch(0), "all")
    for name, value in before.items():
        assert torch.equal(value, one.state_dict()[name])
