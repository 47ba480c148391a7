"""Which loss trains what, when, and by how much; and the policy's density."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from medley.agents.api import Batch, Spaces
from medley.agents.sac import SAC
from medley.agents.sac_options import SACConfig
from medley.errors import ConfigError
from medley.nn.optimizer import Optimizer, OptimizerConfig
from medley.nn.squashed_gaussian import bound_log_std, sample

TASKS, ROWS, OBS, ACT = 3, 8, 4, 2


def make(mask: Any = None, obs: int = OBS, **changes: Any) -> SAC:
    o = SACConfig(name="sac", builder="sac")
    o.actor.hidden_dim = o.critic.hidden_dim = 8
    o.actor.num_layers = o.critic.num_layers = 2
    for name, value in changes.items():
        setattr(o, name, value)
    mask = np.ones((TASKS, ACT), dtype=bool) if mask is None else np.asarray(mask)
    tasks = tuple(f"t{i}" for i in range(len(mask)))
    return SAC(o, Spaces(tasks, obs, mask.shape[1], mask), torch.device("cpu"), seed=0)


def random_batch(seed: int = 0) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g)

    return Batch(
        obs=normal(TASKS, ROWS, OBS),
        action=torch.tanh(normal(TASKS, ROWS, ACT)),
        reward=normal(TASKS, ROWS),
        discount=torch.full((TASKS, ROWS), 0.99),
        next_obs=normal(TASKS, ROWS, OBS),
        weight=torch.ones(TASKS, ROWS),
    )


def noise(seed: int = 5) -> Tensor:
    return torch.randn((TASKS, ROWS, ACT), generator=torch.Generator().manual_seed(seed))


def snapshot(agent: SAC) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in agent.state_dict().items()}


def changed(before: dict[str, Tensor], agent: SAC) -> set[str]:
    """The networks with a tensor that is not what it was."""
    after = agent.state_dict()
    names = {k for k in before if not torch.equal(before[k], after[k])}
    return {".".join(k.split(".")[: 2 if k.startswith("optimizer") else 1]) for k in names} - {"generator"}


ENCODER = {"task_input": "encoder"}


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


def test_target_entropy_counts_real_action_dimensions() -> None:
    mask = [[True, True, True], [True, False, False], [True, True, False]]
    assert make(mask=mask).target_entropy.tolist() == [[-3.0], [-1.0], [-2.0]]
    assert make(mask=mask, target_entropy=-0.25).target_entropy.tolist() == [[-0.25]] * 3
    assert make(mask=mask, target_entropy=0.0).target_entropy.tolist() == [[0.0]] * 3


def test_padded_actions_are_zero_and_have_no_influence() -> None:
    mask = [[True, True], [True, False]]
    agent = make(mask=mask)
    generator = torch.Generator().manual_seed(1)
    obs, noise = (torch.randn(2, 5, width, generator=generator) for width in (OBS, 2))
    for actions in (agent.act(obs, noise), agent.act(obs, None)):
        assert actions.shape == (2, 5, 2)
        assert (actions[1, :, 1] == 0).all()
        assert (actions[0].abs() > 0).all()
    other = noise.clone()
    other[1, :, 1] = 100.0
    mean, log_std = agent._distribution(agent.actor(obs, agent._task()))
    log_probs = [sample(mean, log_std, n, agent.action_mask)[1] for n in (noise, other)]
    assert torch.equal(log_probs[0], log_probs[1])


def test_acting_without_noise_is_the_squashed_mean_and_leaves_no_graph() -> None:
    agent = make()
    obs = torch.randn(TASKS, 5, OBS)
    mean, log_std = agent._distribution(agent.actor(obs, agent._task()))
    assert torch.allclose(agent.act(obs, None), torch.tanh(mean))
    noise = torch.randn(TASKS, 5, ACT)
    assert torch.allclose(agent.act(obs, noise), torch.tanh(mean + log_std.exp() * noise))
    assert not agent.act(obs, noise).requires_grad


def test_log_prob_equals_torch_distributions() -> None:
    g = torch.Generator().manual_seed(0)
    mean, log_std, noise = (torch.randn(3, 50, 4, generator=g, dtype=torch.float64) for _ in range(3))
    action, log_prob = sample(mean, log_std, noise, torch.ones(3, 1, 4, dtype=torch.float64))
    normal = Normal(mean, log_std.exp())
    wanted = TransformedDistribution(Independent(normal, 1), [TanhTransform(cache_size=1)])
    u = mean + log_std.exp() * noise
    wanted_log_prob = normal.log_prob(u).sum(-1) - TanhTransform().log_abs_det_jacobian(u, torch.tanh(u)).sum(-1)
    assert torch.allclose(log_prob, wanted_log_prob, atol=1e-10)
    inside = (action.abs() < 0.999).all(-1)  # atanh loses its digits near the edge
    assert inside.sum() > 50
    assert torch.allclose(log_prob[inside], wanted.log_prob(action)[inside], atol=1e-6)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -1.0), (-1.5, 0.3)])
def test_density_integrates_to_one(mean: float, log_std: float) -> None:
    """The integral of exp(log pi(a)) da over the box, with the noise that leads to each a."""
    edges = torch.linspace(-1, 1, 400_001, dtype=torch.float64)
    a = (edges[1:] + edges[:-1]) / 2
    noise = ((torch.atanh(a) - mean) / math.exp(log_std)).reshape(1, -1, 1)
    full = torch.full_like(noise, mean)
    action, log_prob = sample(full, torch.full_like(noise, log_std), noise, torch.ones(1, 1, 1, dtype=torch.float64))
    assert torch.allclose(action.flatten(), a, atol=1e-9)
    assert float(log_prob.exp().sum() * (2 / len(a))) == pytest.approx(1.0, abs=1e-4)


def test_extreme_actions_have_a_finite_log_prob_and_gradient() -> None:
    mean = torch.tensor([[[60.0, -60.0]]], requires_grad=True)
    log_std = torch.tensor([[[2.0, -20.0]]], requires_grad=True)
    action, log_prob = sample(mean, log_std, torch.tensor([[[4.0, -4.0]]]), torch.ones(1, 1, 2))
    assert torch.isfinite(log_prob).all()
    assert (action.abs() <= 1).all()
    for gradient in torch.autograd.grad(log_prob.sum(), [mean, log_std]):
        assert torch.isfinite(gradient).all()


def test_log_std_bounds() -> None:
    raw = torch.tensor([-100.0, -3.0, 0.0, 1.0, 100.0])
    assert bound_log_std(raw, -20.0, 2.0, "clamp").tolist() == [-20.0, -3.0, 0.0, 1.0, 2.0]
    rescaled = bound_log_std(raw, -20.0, 2.0, "tanh")
    assert rescaled[[0, 2, 4]].tolist() == pytest.approx([-20.0, -9.0, 2.0])


# ---- graph safety, saving


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


def test_tensors_stay_where_they_are() -> None:
    agent = make(trunk="multi_head", **ENCODER)
    places = {k: v.data_ptr() for k, v in agent._tensors().items()}
    agent.update(random_batch(), "all")
    agent.load_state_dict(snapshot(agent))
    agent.load_weights(snapshot(agent))
    agent.update(random_batch(), "all")
    assert {k: v.data_ptr() for k, v in agent._tensors().items()} == places


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_a_loaded_agent_goes_on_bit_for_bit(trunk: str) -> None:
    options = {"trunk": trunk, "alpha_per_task": True, **ENCODER}
    a = make(**options)
    for n in range(3):
        a.update(random_batch(n), "all")
    saved = snapshot(a)
    b = make(**options)
    b.update(random_batch(9), "all")
    b.load_state_dict(saved)
    for n in range(3, 6):
        a.update(random_batch(n), "all")
        b.update(random_batch(n), "all")
    for name, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[name]), name


def test_load_weights_takes_parameters_and_leaves_moments() -> None:
    a, b = make(), make()
    a.update(random_batch(), "all")
    b.load_weights(snapshot(a))
    before = make().state_dict()
    for name, value in b.state_dict().items():
        wanted = before if name.startswith(("optimizer", "generator")) else a.state_dict()
        assert torch.equal(value, wanted[name]), name


def test_loading_another_network_is_refused_and_changes_nothing() -> None:
    agent = make()
    before = snapshot(agent)
    with pytest.raises(ConfigError, match="another kind of network"):
        agent.load_state_dict(make(trunk="multi_head").state_dict())
    with pytest.raises(ConfigError, match="the tasks or the network sizes differ"):
        agent.load_weights(make(obs=OBS + 1).state_dict())
    assert changed(before, agent) == set()


def test_the_seed_decides_the_start() -> None:
    assert changed(snapshot(make()), make()) == set()
    spaces = Spaces(("a", "b"), OBS, ACT, np.ones((2, ACT), dtype=bool))
    one, two = (SAC(SACConfig(), spaces, torch.device("cpu"), seed) for seed in (0, 1))
    assert {"actor", "critic", "target"} <= changed(snapshot(one), two)


def test_one_hot_is_left_out_where_it_says_nothing() -> None:
    first = "critic.hidden.0.weight"
    inputs = OBS + TASKS + ACT
    assert make().state_dict()[first].shape[-2] == inputs + -inputs % 4
    assert make(trunk="disjoint").state_dict()[first].shape[-2] == OBS + ACT
    assert make(mask=np.ones((1, ACT), dtype=bool)).state_dict()[first].shape[-2] == OBS + ACT
    assert make(trunk="disjoint", **ENCODER).state_dict()[first].shape[-2] == OBS + 50 + ACT
