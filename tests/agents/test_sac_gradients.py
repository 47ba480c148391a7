"""Which loss trains what, when, and by how much."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from medley.agents.api import Batch
from medley.agents.sac import SAC
from medley.nn.optimizer import Optimizer, OptimizerConfig
from tests.agents.sac_agent import ENCODER, ROWS, TASKS, changed, make, noise, random_batch, snapshot


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_critic_step_trains_critics_and_task_encoder_only(trunk: str) -> None:
    agent = make(trunk=trunk, **ENCODER)
    before = snapshot(agent)
    agent.update_critic(random_batch(), noise())
    assert changed(before, agent) == {"critic", "task", "optimizer.critic", "optimizer.task_encoder"}
    for name, value in agent.state_dict().items():
        if name.startswith(("critic", "task")) and "bias" not in name:
            assert not torch.equal(value, before[name]), f"{name} is not trained"


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_actor_step_trains_actor_and_temperature_only(trunk: str) -> None:
    agent = make(trunk=trunk, **ENCODER)
    before = snapshot(agent)
    agent.update_actor(random_batch(), noise())
    assert changed(before, agent) == {"actor", "log_alpha", "optimizer.actor", "optimizer.alpha"}
    frozen = make(trunk=trunk, learn_temperature=False, **ENCODER)
    before = snapshot(frozen)
    metrics = frozen.update_actor(random_batch(), noise())
    assert changed(before, frozen) == {"actor", "optimizer.actor"}
    assert "alpha_loss" not in metrics
    assert float(metrics["alpha_value"]) == 1.0


def test_alpha_step_trains_temperatures_only_and_in_the_right_direction() -> None:
    agent = make(alpha_per_task=True)
    before = snapshot(agent)
    # Entropy is far too low in task 0 (log pi high), far too high in task 1, exactly on target in task 2.
    log_prob = torch.tensor([[10.0] * ROWS, [-10.0] * ROWS, [2.0] * ROWS])
    agent.update_alpha(log_prob)
    assert changed(before, agent) == {"log_alpha", "optimizer.alpha"}
    step = agent.log_alpha.detach() - before["log_alpha"]
    assert step[0] > 0
    assert step[1] < 0
    assert step[2] == 0


def test_target_moves_by_its_share_and_only_then() -> None:
    agent = make(critic_tau=0.25)
    agent.update_critic(random_batch(), noise())
    before = snapshot(agent)
    agent.update_target()
    assert changed(before, agent) == {"target"}
    for name, value in agent.target.state_dict().items():
        wanted = 0.75 * before[f"target.{name}"] + 0.25 * before[f"critic.{name}"]
        assert torch.allclose(value, wanted, atol=1e-7)
    assert not any(p.requires_grad for p in agent.target.parameters())


def test_no_gradient_is_left_behind() -> None:
    agent = make(**ENCODER)
    agent.update(random_batch(), "all")
    networks = (agent.actor, agent.critic, agent.target, agent.task_input)
    assert all(p.grad is None for n in networks for p in n.parameters())
    assert agent.log_alpha.grad is None


def test_phases_follow_the_frequencies() -> None:
    agent = make(actor_update_freq=2, critic_target_update_freq=3)
    seen = []
    for n in range(12):
        before = snapshot(agent)
        agent.update(random_batch(n), agent.phase(n))
        parts = changed(before, agent)
        assert "critic" in parts
        assert ("actor" in parts) == ("log_alpha" in parts) == (n % 2 == 0)
        assert ("target" in parts) == (n % 3 == 0)
        seen.append(agent.phase(n))
    assert seen[:6] == ["all", "critic", "no_target", "critic_target", "no_target", "critic"]
    assert [agent.phase(n) for n in range(6)] == seen[6:]
    assert {make().phase(n) for n in range(5)} == {"all"}


# ---- clipping


@pytest.mark.parametrize("clip", [None, 0.5, 1e9])
def test_gradients_are_clipped_to_a_total_norm(clip: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = [torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2, 2))]
    used: list[list[Tensor]] = []

    def adam(params: list[Tensor], gradients: list[Tensor], *rest: Any, **options: Any) -> None:
        used.append([g.clone() for g in gradients])

    monkeypatch.setattr(torch, "_fused_adam_", adam)
    gradients = [torch.tensor([3.0, 0.0, 0.0]), torch.tensor([[0.0, 4.0], [0.0, 0.0]])]
    norm = Optimizer(parameters, OptimizerConfig()).step([g.clone() for g in gradients], clip)
    assert float(norm) == pytest.approx(5.0)  # before clipping
    total = math.sqrt(sum(float((g**2).sum()) for g in used[0]))
    assert total == pytest.approx(5.0 if clip in (None, 1e9) else 0.5, rel=1e-5)
    for before, after in zip(gradients, used[0], strict=True):
        assert torch.allclose(after * 5.0, before * total, atol=1e-5)  # the direction stays


@pytest.mark.parametrize("traceable", [False, True])
def test_optimizer_equals_torch_adam(traceable: bool) -> None:
    config = OptimizerConfig(lr=0.01, beta1=0.7, beta2=0.95, eps=1e-4)
    g = torch.Generator().manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(s, generator=g)) for s in ((3,), (2, 4))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    mine = Optimizer(ours, config)
    mine.traceable = traceable
    adam = torch.optim.Adam(theirs, lr=0.01, betas=(0.7, 0.95), eps=1e-4)
    for _ in range(20):
        gradients = [5 * torch.randn(p.shape, generator=g) for p in ours]
        for p, gradient in zip(theirs, gradients, strict=True):
            p.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        adam.step()
        mine.step(gradients, 1.0)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert float(mine.state()["0.step"]) == 20


def test_critic_clip_reaches_the_whole_network() -> None:
    """With a clip near zero and a large epsilon Adam barely moves anything; without one it does."""
    moves = {}
    for clip in (1e-12, None):
        agent = make(grad_clip=clip, **ENCODER)
        for optimizer in agent.optimizers.values():
            optimizer.config = OptimizerConfig(eps=1.0)
        before = snapshot(agent)
        agent.update_critic(random_batch(), noise())
        gaps = [(v - before[k]).abs().max() for k, v in agent.state_dict().items() if k.startswith(("critic", "task"))]
        moves[clip] = float(max(gaps))
    assert moves[1e-12] < 1e-12 < 1e-7 < moves[None]


# ---- tasks do not touch each other


def differing(task: int) -> Batch:
    batch = random_batch()
    other = random_batch(99)
    for name in ("obs", "action", "reward", "next_obs"):
        getattr(batch, name)[task] = getattr(other, name)[task]
    return batch


@pytest.mark.parametrize("task", range(TASKS))
@pytest.mark.parametrize("trunk", ["multi_head", "disjoint"])
def test_a_change_in_one_task_changes_only_its_own_parameters(trunk: str, task: int) -> None:
    own = "heads." if trunk == "multi_head" else ""
    for network, step in (("critic", SAC.update_critic), ("actor", SAC.update_actor)):
        a, b = (make(trunk=trunk, alpha_per_task=True, grad_clip=None) for _ in range(2))
        for agent in (a, b):
            for optimizer in agent.optimizers.values():  # else Adam's first step is the gradient's sign alone
                optimizer.config = OptimizerConfig(lr=0.1, eps=1.0)
                optimizer.lr.fill_(10.0)
        step(a, random_batch(), noise())
        step(b, differing(task), noise())
        one, two = a.state_dict(), b.state_dict()
        names = [k for k in one if k.startswith(network) and own in k]
        assert len(names) == (2 if trunk == "multi_head" else 6)
        for name in names:  # [members, tasks, ...]
            same = [torch.equal(one[name][:, i], two[name][:, i]) for i in range(TASKS)]
            assert same == [i != task for i in range(TASKS)], name
        if trunk == "multi_head":  # the shared body does feel it
            assert not torch.equal(one[f"{network}.hidden.0.weight"], two[f"{network}.hidden.0.weight"])
        if network == "actor":
            assert (one["log_alpha"] != two["log_alpha"]).tolist() == [i == task for i in range(TASKS)]


def test_weight_zero_removes_a_row() -> None:
    a, b = make(trunk="multi_head", learn_temperature=False), make(trunk="multi_head", learn_temperature=False)
    one, two = random_batch(), random_batch()
    one.weight[1, 3] = two.weight[1, 3] = 0.0
    two.obs[1, 3], two.reward[1, 3], two.next_obs[1, 3] = 7.0, -50.0, 3.0
    a.update(one, "all")
    b.update(two, "all")
    for name, value in a.state_dict().items():
        assert torch.allclose(value, b.state_dict()[name], atol=1e-7), name


def test_a_true_end_cuts_the_targets() -> None:
    agent = make()
    batch = random_batch()
    batch.discount.zero_()
    assert torch.equal(agent._targets(batch, agent._task(), noise()), batch.reward)


# ---- entropy, padding, density


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_update_never_reads_a_value_back(trunk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make(trunk=trunk, actor_update_freq=2, critic_target_update_freq=2, **ENCODER)
    batch = random_batch()

    def refuse(self: Tensor, *args: Any) -> Any:
        raise AssertionError("update read a value back from the device")

    readers = [
        "item",
        "tolist",
        "numpy",
        "cpu",
        "nonzero",
        "__bool__",
        "__float__",
        "__int__",
        "__index__",
        "__len__",
        "__contains__",
    ]
    with monkeypatch.context() as patch:
        for name in readers:
            patch.setattr(torch.Tensor, name, refuse)
        for phase in ("all", "critic", "no_target", "critic_target"):
            metrics = agent.update(batch, phase)
    assert all(isinstance(m, Tensor) and not m.requires_grad for m in metrics.values())
