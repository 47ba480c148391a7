"""Residual blocks: every trunk against a plain version of its formulas, one row of one member at a time, in float64."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor

from medley.nn.flashsac import FlashSACTrunk
from medley.nn.simba_v2 import SimbaV2Trunk
from medley.nn.stacked import StackedLinear, init_orthogonal
from medley.nn.trunks import Shape, Trunk, forward_beside, make_trunk, mixes_rows
from medley.nn.unit import UnitLinear

TASKS, ROWS, OBS, ACT, LABEL = 3, 5, 4, 2, 2
BLOCKS = ["bronet", "simba_v2", "flashsac"]


pytestmark = pytest.mark.usefixtures("float64")


def make(name: str, actor: bool = False, out: int = 4, depth: int = 2, width: int = 6, stir: float = 0.3) -> Trunk:
    members = 1 if actor else 2
    shape = Shape(OBS, out, TASKS, members, width, depth, 1e-3, LABEL, 0 if actor else ACT)
    made = make_trunk(name, shape, torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():  # norms and biases start at ones and zeros, where mistakes hide
        for p in made.parameters():
            p.add_(stir * torch.randn(p.shape, generator=g))
        for b in made.buffers():
            b.add_(stir * torch.rand(b.shape, generator=g))
    return made


def inputs(seed: int = 0, rows: int = ROWS) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(TASKS, rows, OBS, generator=g),
        torch.randn(TASKS, LABEL, generator=g),
        torch.randn(TASKS, rows, ACT, generator=g),
    )


# ---- the formulas, row by row


def length(x: list[float]) -> float:
    return math.sqrt(sum(v * v for v in x))


def on_sphere(x: list[float]) -> list[float]:
    return [v / length(x) for v in x]


def product(weight: Tensor, x: list[float], bias: Tensor | None = None) -> list[float]:
    """weight [in, out]."""
    out = [sum(float(weight[i, j]) * x[i] for i in range(len(x))) for j in range(weight.shape[1])]
    return out if bias is None else [v + float(b) for v, b in zip(out, bias, strict=True)]


def positive(x: list[float]) -> list[float]:
    return [max(v, 0.0) for v in x]


def layer_norm(x: list[float], scale: Tensor, shift: Tensor) -> list[float]:
    mean = sum(x) / len(x)
    var = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(var + 1e-6) * float(a) + float(b) for v, a, b in zip(x, scale, shift, strict=True)]


def bronet(s: dict[str, Tensor], k: int, rows: list[list[float]], depth: int) -> list[list[float]]:
    def normed(name: str, x: list[float]) -> list[float]:
        x = product(s[f"{name}.linear.weight"][k], x, s[f"{name}.linear.bias"][k, 0])
        return layer_norm(x, s[f"{name}.norm.scale"][k, 0], s[f"{name}.norm.shift"][k, 0])

    out = []
    for row in rows:
        h = positive(normed("first", row))
        for i in range(depth):
            change = normed(f"blocks.{i}.two", positive(normed(f"blocks.{i}.one", h)))
            h = [a + b for a, b in zip(h, change, strict=True)]
        out.append(product(s["out.weight"][k], h, s["out.bias"][k, 0]))
    return out


def simba_v2(s: dict[str, Tensor], k: int, rows: list[list[float]], depth: int) -> list[list[float]]:
    width = s["first.weight"].shape[-1]

    def scaled(name: str, x: list[float], start: float, size: float) -> list[float]:
        return [v * float(p) * start / size for v, p in zip(x, s[f"{name}.scale"][k, 0], strict=True)]

    def plain(name: str, x: list[float]) -> list[float]:
        return scaled(name, x, 1.0, 1.0)

    out = []
    for row in rows:
        h = on_sphere([*row, 3.0])
        h = on_sphere(plain("scaler", product(s["first.weight"][k], h)))
        for i in range(depth):
            inside = positive(plain(f"blocks.{i}.scaler", product(s[f"blocks.{i}.one.weight"][k], h)))
            new = on_sphere(product(s[f"blocks.{i}.two.weight"][k], inside))
            gap = scaled(
                f"blocks.{i}.step",
                [a - b for a, b in zip(new, h, strict=True)],
                1 / (depth + 1),
                1 / math.sqrt(width),
            )
            h = on_sphere([a + b for a, b in zip(h, gap, strict=True)])
        h = plain("out_scaler", product(s["before_out.weight"][k], h))
        numbers: list[float] = []
        for head in range(s["out.weight"].shape[1]):
            numbers += product(s["out.weight"][k, head], h[head * width : (head + 1) * width])
        out.append([v + float(b) for v, b in zip(numbers, s["bias.bias"][k, 0], strict=True)])
    return out


def flashsac(
    s: dict[str, Tensor], k: int, rows: list[list[float]], depth: int, learning: bool = True
) -> list[list[float]]:
    def norm(name: str, xs: list[list[float]]) -> list[list[float]]:
        width, n = len(xs[0]), len(xs)
        mean = [sum(x[j] for x in xs) / n for j in range(width)]
        var = [sum((x[j] - mean[j]) ** 2 for x in xs) / n for j in range(width)]
        if not learning:
            mean, var = s[f"{name}.running_mean"][k, 0].tolist(), s[f"{name}.running_var"][k, 0].tolist()
        a, b = s[f"{name}.scale"][k, 0].tolist(), s[f"{name}.shift"][k, 0].tolist()
        return [[(x[j] - mean[j]) / math.sqrt(var[j] + 1e-5) * a[j] + b[j] for j in range(width)] for x in xs]

    hs = [product(s["first.weight"][k], x) for x in norm("norm", rows)]
    for i in range(depth):
        inside = norm(f"blocks.{i}.norm_one", [product(s[f"blocks.{i}.one.weight"][k], h) for h in hs])
        inside = [product(s[f"blocks.{i}.two.weight"][k], positive(x)) for x in inside]
        inside = norm(f"blocks.{i}.norm_two", inside)
        hs = [[a + b for a, b in zip(h, positive(x), strict=True)] for h, x in zip(hs, inside, strict=True)]
    out = []
    for h in hs:
        size = math.sqrt(sum(v * v for v in h) / len(h) + 1e-6)
        h = [v / size * float(a) for v, a in zip(h, s["last_norm.scale"][k, 0], strict=True)]
        out.append(product(s["out.weight"][k], h, s["bias.bias"][k, 0]))
    return out


REFERENCES = {"bronet": bronet, "simba_v2": simba_v2, "flashsac": flashsac}


def joined_rows(obs: Tensor, z: Tensor, action: Tensor | None) -> list[list[float]]:
    rows = []
    for task in range(TASKS):
        for row in range(obs.shape[1]):
            x = obs[task, row].tolist() + z[task].tolist()
            rows.append(x + ([] if action is None else action[task, row].tolist()))
    return rows


@pytest.mark.parametrize("actor", [True, False])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", BLOCKS)
def test_forward_equals_the_formulas(name: str, depth: int, actor: bool) -> None:
    made = make(name, actor, depth=depth)
    state = {key: value.clone() for key, value in made.state_dict().items()}
    obs, z, action = inputs()
    out = made(obs, z) if actor else made(obs, z, action)
    rows = joined_rows(obs, z, None if actor else action)
    assert out.shape == (1 if actor else 2, TASKS, ROWS, 4)
    for k in range(out.shape[0]):
        wanted = torch.tensor(REFERENCES[name](state, k, rows, depth)).view(TASKS, ROWS, 4)
        assert torch.allclose(out[k], wanted, atol=1e-9)


def test_acting_goes_by_running_statistics() -> None:
    made = make("flashsac", actor=True)
    obs, z, _ = inputs()
    state = {key: value.clone() for key, value in made.state_dict().items()}
    out = made.act(obs, z)
    wanted = torch.tensor(flashsac(state, 0, joined_rows(obs, z, None), 2, learning=False)).view(TASKS, ROWS, 4)
    assert torch.allclose(out[0], wanted, atol=1e-9)
    assert torch.allclose(made.act(obs[:, :1], z), out[:, :, :1])  # so that one row is as good as many
    assert all(torch.equal(value, state[key]) for key, value in made.state_dict().items())
    assert not torch.allclose(made(obs, z), out)


def test_running_statistics_follow_the_batches() -> None:
    made = make("flashsac")
    assert isinstance(made, FlashSACTrunk)
    mean, var = made.norm.running_mean.clone(), made.norm.running_var.clone()
    obs, z, action = inputs()
    place = made.norm.running_mean.data_ptr()
    made(obs, z, action)
    rows = torch.tensor(joined_rows(obs, z, action))
    for k in range(2):
        wanted_mean = 0.99 * mean[k, 0] + 0.01 * rows.mean(0)
        wanted_var = 0.99 * var[k, 0] + 0.01 * rows.var(0, unbiased=True)
        assert torch.allclose(made.norm.running_mean[k, 0], wanted_mean, atol=1e-12)
        assert torch.allclose(made.norm.running_var[k, 0], wanted_var, atol=1e-12)
    assert made.norm.running_mean.data_ptr() == place
    assert not made.norm.running_mean.requires_grad


def test_rows_beside_count_in_the_statistics_alone() -> None:
    """One joint pass over (s, a) and (s', a'): the same as both together, cut in half."""
    made = make("flashsac")
    obs, z, action = inputs()
    more_obs, _, more_action = inputs(9)
    twin = copy.deepcopy(made)
    out = forward_beside(made, (obs, z, action), (more_obs, more_action))
    whole = twin(torch.cat([obs, more_obs], 1), z, torch.cat([action, more_action], 1))
    assert torch.equal(out, whole[:, :, :ROWS])
    assert not torch.allclose(out, copy.deepcopy(twin)(obs, z, action))
    assert torch.equal(forward_beside(make("bronet"), (obs, z, action), ()), make("bronet")(obs, z, action))


@pytest.mark.parametrize("name", BLOCKS)
def test_tasks_in_another_order_give_results_in_that_order(name: str) -> None:
    obs, z, action = inputs()
    order = [2, 0, 1]
    a, b = make(name), make(name)
    assert torch.allclose(a(obs, z, action)[:, order], b(obs[order], z[order], action[order]), atol=1e-12)


@pytest.mark.parametrize("name", BLOCKS)
def test_only_batch_norm_mixes_rows(name: str) -> None:
    made = make(name)
    obs, z, action = inputs()
    out = made(obs, z, action)
    obs[1, 2] += 1.0
    changed = (made(obs, z, action) != out).any(-1).any(0)
    assert mixes_rows(name) == made.mixes_rows == (name == "flashsac")
    assert bool(changed.all()) == (name == "flashsac")
    assert bool(changed[1, 2])
    if name != "flashsac":
        assert int(changed.sum()) == 1


@pytest.mark.parametrize("name", BLOCKS)
def test_members_do_not_touch_each_other(name: str) -> None:
    made = make(name)
    obs, z, action = inputs()
    gradients = torch.autograd.grad(made(obs, z, action)[0].square().sum(), list(made.parameters()))
    for (key, _), g in zip(made.named_parameters(), gradients, strict=True):
        assert g.shape[0] == 2, key
        assert float(g[0].abs().sum()) > 0, key
        assert float(g[1].abs().sum()) == 0, key


@pytest.mark.parametrize("name", ["simba_v2", "flashsac"])
def test_weights_have_length_one_at_the_start_and_after_a_step(name: str) -> None:
    fresh, moved = make(name, stir=0.0), make(name)
    places = [p.data_ptr() for p in moved.parameters()]
    directions = {key: p.detach().clone() for key, p in moved.named_parameters()}
    moved.after_step()
    assert [p.data_ptr() for p in moved.parameters()] == places
    for made in (fresh, moved):
        layers = [m for m in made.modules() if isinstance(m, UnitLinear)]
        assert len(layers) >= 5
        for layer in layers:
            assert torch.allclose(layer.weight.square().sum(-2), torch.ones(1), atol=1e-9)
    for key, p in moved.named_parameters():
        if key.endswith("weight"):
            cosine = torch.nn.functional.cosine_similarity(p, directions[key], dim=-2)
            assert torch.allclose(cosine, torch.ones(1)), key
    if isinstance(moved, FlashSACTrunk):
        for norm in (moved.norm, moved.blocks[0].norm_one, moved.blocks[1].norm_two):
            total = norm.scale.square().sum(-1) + norm.shift.square().sum(-1)  # type: ignore[union-attr, operator]
            assert torch.allclose(total, torch.full_like(total, norm.scale.shape[-1]), rtol=1e-6)  # type: ignore[union-attr, index, arg-type]
        last = moved.last_norm.scale
        assert torch.allclose(last.square().sum(-1), torch.full((1,), float(last.shape[-1])), rtol=1e-6)
    elif isinstance(moved, SimbaV2Trunk):
        assert torch.equal(moved.scaler.scale, directions["scaler.scale"])  # scalers are free


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
def test_orthogonal(shape: tuple[int, int]) -> None:
    layer = StackedLinear((2,), *shape)
    init_orthogonal(layer, 1.5, torch.Generator().manual_seed(0))
    for weight in layer.weight:
        few = weight if shape[0] <= shape[1] else weight.T
        assert torch.allclose(few @ few.T, 1.5**2 * torch.eye(min(shape)), atol=1e-9)
    assert not torch.allclose(layer.weight[0], layer.weight[1])


@pytest.mark.parametrize("name", BLOCKS)
def test_reduced_products_keep_norms_in_full(name: str) -> None:
    torch.set_default_dtype(torch.float32)
    made, exact = make(name), make(name)
    made.reduce_precision()
    obs, z, action = inputs()
    out = made(obs, z, action)
    assert out.dtype == torch.float32
    assert torch.allclose(out, exact(obs, z, action), atol=0.1)
    assert not torch.equal(out, exact(obs, z, action))
