"""Combiners against plain loops in 64-bit floats, on real networks with heads."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from medley.agents.sac_options import SACConfig
from medley.errors import ConfigError
from medley.gradients import combiners
from medley.gradients.combiners import Combined, Combiner, Mean, combiner_names, make_combiner, register_combiner
from medley.gradients.task_loss import TaskLoss
from medley.nn.task_input import TaskEncoder
from medley.nn.trunks import Shape, make_trunk

TASKS, ROWS = 4, 6
ALL = ["mean", "pcgrad", "cagrad", "nash", "gradnorm", "famo"]
CPU = torch.device("cpu")


def make_loss(trunk: str = "multi_head", tasks: int = TASKS, seed: int = 0) -> TaskLoss:
    """A loss with all kinds of parameters: shared, per task, of a network that only takes part."""
    g = torch.Generator().manual_seed(seed)
    task = TaskEncoder(tasks, g, 3, 4, 1, 2).double()
    network = make_trunk(trunk, Shape(5, 3, tasks, 2, 7, 2, 0.5, task=2), g).double()
    judge = make_trunk(trunk, Shape(3, 1, tasks, 1, 7, 1, 0.5), g).double()

    def losses(obs: Tensor, wanted: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        out = network(obs, task())
        judged = judge(out[0]).square().mean((0, 2, 3))
        return (out - wanted).square().mean((0, 2, 3)) + 0.1 * judged, {"out": out.detach().mean((0, 2))}

    return TaskLoss(losses, {"network": network, "task": task, "judge": judge}, ["network", "task"])


def make_inputs(tasks: int = TASKS, seed: int = 1) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(tasks, ROWS, 5, generator=g, dtype=torch.float64),
        torch.randn(tasks, ROWS, 3, generator=g, dtype=torch.float64),
    )


def looped(loss: TaskLoss, inputs: Any) -> tuple[Tensor, list[list[Tensor]]]:
    """Losses, and per task the gradient of every parameter: one backward pass for each."""
    losses, _ = loss(*inputs)
    each = [torch.autograd.grad(losses[i], loss.parameters_trained, retain_graph=True) for i in range(len(losses))]
    return losses.detach(), [list(g) for g in each]


def flat(gradients: list[Tensor], loss: TaskLoss) -> Tensor:
    return torch.cat([g.flatten() for g in gradients[: len(loss.shared)]])


def run(
    name: str, loss: TaskLoss, inputs: Any, random: Tensor | None = None, **changes: Any
) -> tuple[Combiner, Combined]:
    options = SACConfig()
    for key, value in changes.items():
        setattr(getattr(options, name), key, value)
    combiner = make_combiner(name, len(inputs[0]), options, CPU)
    for key, value in vars(combiner).items():
        if isinstance(value, Tensor):
            setattr(combiner, key, value.double())
    if combiner.random_shape() is not None and random is None:
        random = torch.rand(combiner.random_shape(), generator=torch.Generator().manual_seed(3))  # type: ignore[arg-type]
    return combiner, combiner(loss, inputs, random)


def check(loss: TaskLoss, inputs: Any, done: Combined, weights: Tensor) -> None:
    """Shared parameters got sum_i weights_i g_i, those of one task the mean."""
    losses, each = looped(loss, inputs)
    assert torch.allclose(done.losses, losses, atol=1e-12)
    for k, p in enumerate(loss.parameters_trained):
        share = weights if k < len(loss.shared) else torch.full_like(weights, 1 / len(weights))
        wanted = sum(share[i] * each[i][k] for i in range(len(weights)))
        assert torch.allclose(done.gradients[p], wanted, rtol=1e-7, atol=1e-10), k


@pytest.mark.parametrize("trunk", ["shared", "multi_head", "disjoint"])
def test_gradients_of_every_task_in_one_pass(trunk: str) -> None:
    loss, inputs = make_loss(trunk), make_inputs()
    losses, each = looped(loss, inputs)
    got = loss.per_task(inputs)
    assert torch.allclose(got.losses, losses, atol=1e-12)
    assert torch.allclose(got.extras["out"], loss(*inputs)[1]["out"], atol=1e-12)
    for k in range(len(loss.shared)):
        for i in range(TASKS):
            assert torch.allclose(got.shared[k][i], each[i][k], atol=1e-12), (k, i)
    for k, own in enumerate(got.own):
        wanted = sum(each[i][len(loss.shared) + k] for i in range(TASKS)) / TASKS
        assert torch.allclose(own, wanted, atol=1e-12), k
    only = list(loss.shared)[-1]
    part = loss.per_task(inputs, [only])
    assert torch.equal(part.shared[0], got.shared[-1])
    assert not part.own
    assert len(loss.own) == {"shared": 1, "multi_head": 3, "disjoint": 7}[trunk]  # a row of the embedding too
    trained = {id(p) for p in loss.parameters_trained}
    assert not any(id(p) in trained for p in loss.networks["judge"].parameters())


def test_mean() -> None:
    loss, inputs = make_loss(), make_inputs()
    check(loss, inputs, run("mean", loss, inputs)[1], torch.full((TASKS,), 1 / TASKS, dtype=torch.float64))


@pytest.mark.parametrize("seed", range(5))
def test_pcgrad_is_projection_after_projection(seed: int) -> None:
    loss, inputs = make_loss("shared", seed=seed), make_inputs(seed=seed)
    apart = torch.tensor([5.0, -5.0, 3.0, -4.0]).view(-1, 1, 1)  # what tasks want of nearly the same inputs
    inputs = (inputs[0][:1] + 0.1 * inputs[0], inputs[1] + apart)
    random = torch.rand(TASKS, TASKS, generator=torch.Generator().manual_seed(seed))
    _, each = looped(loss, inputs)
    original = [flat(g, loss) for g in each]
    total = torch.zeros_like(original[0])
    projections = 0
    for i in range(TASKS):
        g = original[i].clone()
        for j in random[i].argsort().tolist():
            if j != i and float(g @ original[j]) < 0:
                g -= (g @ original[j]) / (original[j] @ original[j]) * original[j]
                projections += 1
        total += g / TASKS
    done = run("pcgrad", loss, inputs, random)[1]
    got = torch.cat([done.gradients[p].flatten() for p in loss.shared.values()])
    assert projections > 0
    assert torch.allclose(got, total, atol=1e-7)
    pairs = [(i, j) for i in range(TASKS) for j in range(TASKS) if i != j]
    cosines = [float(original[i] @ original[j] / original[i].norm() / original[j].norm()) for i, j in pairs]
    assert float(done.metrics["grad_cos_mean"]) == pytest.approx(sum(cosines) / len(pairs))
    assert float(done.metrics["grad_conflicts"]) == pytest.approx(sum(c < 0 for c in cosines) / len(pairs))


def test_pcgrad_leaves_tasks_that_agree_alone() -> None:
    loss = make_loss("shared")
    obs, wanted = (x[:1].expand(TASKS, -1, -1).contiguous() for x in make_inputs())
    with torch.no_grad():
        loss.networks["task"].embedding.copy_(loss.networks["task"].embedding[:, :1].expand(-1, TASKS, -1))  # type: ignore[union-attr, operator, index]
    done = run("pcgrad", loss, (obs, wanted))[1]
    check(loss, (obs, wanted), done, torch.full((TASKS,), 1 / TASKS, dtype=torch.float64))


@pytest.mark.parametrize("c", [0.4, 0.9])
def test_cagrad_finds_the_best_of_its_ball(c: float) -> None:
    """g = (g0 + c |g0| g_w / |g_w|) / (1 + c^2), where no w on a fine grid of the simplex has a lower objective."""
    tasks = 3
    loss, inputs = make_loss(tasks=tasks), make_inputs(tasks)
    _, each = looped(loss, inputs)
    g = torch.stack([flat(row, loss) for row in each])
    mean = g.mean(0)
    done = run("cagrad", loss, inputs, c=c, steps=200)[1]
    got = torch.cat([done.gradients[p].flatten() for p in loss.shared.values()])
    along = got * (1 + c**2) - mean  # c |g0| g_w / |g_w|
    assert float(along.norm()) == pytest.approx(c * float(mean.norm()), rel=1e-4)
    grid = [(a / 40, b / 40, 1 - (a + b) / 40) for a in range(41) for b in range(41 - a)]

    def objective(w: Tensor) -> float:
        return float(w @ g @ mean + c * mean.norm() * (w @ g).norm())

    weights = torch.linalg.lstsq(g.T, along.unsqueeze(1)).solution[:, 0]
    weights = weights / weights.sum()
    assert float(weights.min()) > -1e-6
    best = min(objective(torch.tensor(w, dtype=torch.float64)) for w in grid)
    assert objective(weights) <= best + 2e-3 * abs(best)


def test_nash_is_the_bargaining_solution() -> None:
    loss, inputs = make_loss(), make_inputs()
    _, each = looped(loss, inputs)
    g = torch.stack([flat(row, loss) for row in each])
    gram = g @ g.T
    done = run("nash", loss, inputs)[1]
    got = torch.cat([done.gradients[p].flatten() for p in loss.shared.values()])
    assert float(got.norm()) == pytest.approx(1.0, rel=1e-6)
    x = torch.linalg.lstsq(g.T, got.unsqueeze(1)).solution[:, 0] * math.sqrt(TASKS)  # undo the rescaling
    assert float(x.min()) > 0
    assert torch.allclose(gram @ x * x, torch.ones(TASKS, dtype=torch.float64), atol=1e-3)


def test_gradnorm_against_autograd() -> None:
    """Two calls: the second has other losses than the first, so that tasks have fallen behind."""
    loss, inputs = make_loss(), make_inputs()
    options = SACConfig()
    options.gradnorm.lr, options.gradnorm.asymmetry = 0.05, 1.5
    combiner = make_combiner("gradnorm", TASKS, options, CPU)
    for key in ("w", "first"):
        setattr(combiner, key, getattr(combiner, key).double())
    position = list(loss.shared).index("networks.network.hidden.1.weight")
    w, first = torch.ones(TASKS, dtype=torch.float64), None
    for call in range(2):
        losses, each = looped(loss, inputs)
        done = combiner(loss, inputs)
        check(loss, inputs, done, w / TASKS)
        first = losses if first is None else first
        norms = torch.stack([each[i][position].norm() for i in range(TASKS)])
        free = w.clone().requires_grad_()
        weighted = free * norms
        ratio = losses / first
        wanted = (weighted.mean() * (ratio / ratio.mean()) ** 1.5).detach()
        (slope,) = torch.autograd.grad((weighted - wanted).abs().sum(), free)
        w = (w - 0.05 * slope / norms.mean()).clamp(min=1e-3)
        w = w * TASKS / w.sum()
        assert torch.allclose(combiner.w, w, atol=1e-6), call  # type: ignore[attr-defined]
        with torch.no_grad():
            for p in loss.parameters_trained:
                p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(call), dtype=p.dtype))
    assert float((w - 1).abs().max()) > 0.01


def test_famo_against_autograd() -> None:
    loss, inputs = make_loss(), make_inputs()
    options = SACConfig()
    options.famo.lr, options.famo.decay = 0.5, 0.1
    combiner = make_combiner("famo", TASKS, options, CPU)
    start = torch.tensor([0.3, -0.2, 0.1, 0.0], dtype=torch.float64)
    combiner.xi = start.clone()  # type: ignore[attr-defined]
    losses, _ = loss(*inputs)
    z = torch.softmax(start, 0)
    scale = 1 / (z / losses.detach()).sum()
    parameters = list(loss.shared.values())
    wanted = torch.autograd.grad(scale * (z * losses.log()).sum(), parameters)
    done = combiner(loss, inputs)
    for p, g in zip(parameters, wanted, strict=True):
        assert torch.allclose(done.gradients[p], g, rtol=1e-6, atol=1e-10)
    with torch.no_grad():
        for p, g in done.gradients.items():
            p.sub_(0.05 * g)
    combiner.after_step(loss, inputs, done.losses)
    after, _ = loss(*inputs)
    free = start.clone().requires_grad_()
    fell = (losses.log() - after.log()).detach()
    (slope,) = torch.autograd.grad((torch.softmax(free, 0) * fell).sum(), free)
    assert torch.allclose(combiner.xi, start - 0.5 * (slope + 0.1 * start), atol=1e-6)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ALL)
def test_permuting_the_tasks_permutes_the_result(name: str) -> None:
    """Another order of tasks changes no shared gradient, and moves those of single tasks along."""
    order = torch.tensor([2, 0, 3, 1])
    loss, inputs = make_loss(), make_inputs()
    moved = make_loss()
    with torch.no_grad():
        for key in ("network", "judge", "task"):
            names: list[str] = moved.networks[key].per_task()  # type: ignore[operator]
            for n in names:
                moved.networks[key].get_parameter(n).copy_(loss.networks[key].get_parameter(n)[:, order])
    random = torch.rand(TASKS, TASKS, generator=torch.Generator().manual_seed(3))
    # The order in which g_i meets the others must be the same one, by name.
    ranks = random.argsort(1).argsort(1).double()
    _, a = run(name, loss, inputs, ranks)
    _, b = run(name, moved, tuple(x[order] for x in inputs), ranks[order][:, order])
    assert torch.allclose(a.losses[order], b.losses, atol=1e-12)
    for p, q in zip(loss.shared.values(), moved.shared.values(), strict=True):
        assert torch.allclose(a.gradients[p], b.gradients[q], atol=1e-7)
    for p, q in zip(loss.own.values(), moved.own.values(), strict=True):
        assert torch.allclose(a.gradients[p][:, order], b.gradients[q], atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_one_task_and_nothing_shared(name: str) -> None:
    one, inputs = make_loss(tasks=1), make_inputs(1)
    done = run(name, one, inputs)[1]
    _, each = looped(one, inputs)
    got = torch.cat([done.gradients[p].flatten() for p in one.shared.values()])
    wanted = flat(each[0], one)
    assert float(got @ wanted / got.norm() / wanted.norm()) == pytest.approx(1.0, abs=1e-6)
    apart = make_loss("disjoint")
    own = list(apart.own.values())
    plain = run("mean", apart, make_inputs())[1]
    done = run(name, apart, make_inputs())[1]
    for p in own:
        assert torch.allclose(done.gradients[p], plain.gradients[p], atol=1e-12)


def test_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiners, "_COMBINERS", dict(combiners._COMBINERS))
    assert combiner_names() == sorted(ALL)
    with pytest.raises(ConfigError, match=r"no gradient combiner 'meen'.*Did you mean 'mean'"):
        make_combiner("meen", 3, SACConfig(), CPU)
    seen: list[int] = []
    register_combiner("mine", lambda tasks, options, device: seen.append(tasks) or Mean(tasks, options, device))  # type: ignore[func-returns-value]
    assert isinstance(make_combiner("mine", 3, SACConfig(), CPU), Mean)
    assert seen == [3]
    assert "mine" in combiner_names()
