"""Trunks: shapes, what is shared, what belongs to one task; and the ways a network is told its task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from medley.errors import ConfigError
from medley.nn import trunks
from medley.nn.stacked import StackedLinear
from medley.nn.task_input import NoTaskInput, OneHot, TaskEncoder, with_task
from medley.nn.trunks import Shape, Trunk, make_trunk, register_trunk, trunk_names

SHAPE = Shape(obs=5, out_features=3, tasks=4, members=2, width=7, depth=2, out_bound=0.5)
TRUNKS = ["shared", "multi_head", "disjoint"]


def trunk(name: str, shape: Shape = SHAPE) -> Trunk:
    made = make_trunk(name, shape, torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=g))
    return made


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("out", [1, 3])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", TRUNKS)
def test_shapes(name: str, depth: int, out: int, members: int) -> None:
    made = trunk(name, Shape(5, out, 4, members, 7, depth, 0.5))
    assert made(torch.randn(4, 6, 5)).shape == (members, 4, 6, out)
    assert made(torch.randn(4, 1, 5)).shape == (members, 4, 1, out)
    per_net = 5 * 7 + 7 + (depth - 1) * (49 + 7)
    head = 7 * out + out
    wanted = {
        "shared": members * (per_net + head),
        "multi_head": members * (per_net + 4 * head),
        "disjoint": members * 4 * (per_net + head),
    }
    assert sum(p.numel() for p in made.parameters()) == wanted[name]


@pytest.mark.parametrize("name", TRUNKS)
def test_equals_one_mlp_per_member_task_and_row(name: str) -> None:
    made = trunk(name)
    x = torch.randn(4, 6, 5)
    out = made(x)
    state = made.state_dict()
    last = "heads" if name == "multi_head" else "out"
    for member in range(2):
        for task in range(4):
            for row in range(6):
                h = x[task, row]
                for layer in ("hidden.0", "hidden.1", last):
                    w, b = state[f"{layer}.weight"][member], state[f"{layer}.bias"][member]
                    if w.ndim == 3:
                        w, b = w[task], b[task]
                    h = h @ w + b[0]
                    h = h if layer == last else h.clamp(min=0)
                assert torch.allclose(out[member, task, row], h, atol=1e-6)


@pytest.mark.parametrize("name", TRUNKS)
def test_per_task_parameters_are_exactly_those_only_one_task_reaches(name: str) -> None:
    made = trunk(name)
    own = {id(made.get_parameter(name)) for name in made.per_task()}
    assert len(own) == {"shared": 0, "multi_head": 2, "disjoint": 6}[name]
    x = torch.randn(4, 6, 5)
    reached: dict[str, list[Tensor]] = {}
    for task in range(4):
        gradients = torch.autograd.grad(made(x)[:, task].square().sum(), list(made.parameters()))
        for (key, _), g in zip(made.named_parameters(), gradients, strict=True):
            reached.setdefault(key, []).append(g)
    for key, parameter in made.named_parameters():
        if id(parameter) in own:  # [members, tasks, ...]: task i's loss reaches slice i alone
            for task, g in enumerate(reached[key]):
                rest = [i for i in range(4) if i != task]
                assert g[:, task].abs().sum() > 0, key
                assert g[:, rest].abs().sum() == 0, key
        else:
            assert all(g.abs().sum() > 0 for g in reached[key]), key


@pytest.mark.parametrize("name", TRUNKS)
def test_output_layers_start_small(name: str) -> None:
    made = make_trunk(name, Shape(5, 3, 4, 2, 64, 2, 1e-3), torch.Generator().manual_seed(0))
    assert float(made(torch.randn(4, 6, 5)).abs().max()) < 0.2
    state = made.state_dict()
    last = state["heads.weight" if name == "multi_head" else "out.weight"]
    assert 0.9e-3 < float(last.abs().max()) <= 1e-3
    assert float(state["hidden.0.weight"].abs().max()) > 0.9  # sqrt(6 / 5) is about 1.1


@pytest.fixture
def registry() -> Iterator[None]:
    kept = dict(trunks._TRUNKS)
    yield
    trunks._TRUNKS.clear()
    trunks._TRUNKS.update(kept)


def test_trunks_by_name(registry: None) -> None:
    assert set(TRUNKS) < set(trunk_names())
    with pytest.raises(ConfigError, match=r"'multihead'.*Did you mean 'multi_head'"):
        make_trunk("multihead", SHAPE, torch.Generator())
    register_trunk("mine", trunks.SharedTrunk)
    assert isinstance(make_trunk("mine", SHAPE, torch.Generator()), trunks.SharedTrunk)
    assert "mine" in trunk_names()


# ---- task input


def test_one_hot_and_nothing() -> None:
    x = torch.randn(3, 4, 2)
    assert with_task(x, NoTaskInput()()) is x
    z = OneHot(3)()
    out = with_task(x, z)
    assert out.shape == (3, 4, 5)
    assert torch.equal(out[..., :2], x)
    for task in range(3):
        assert out[task, :, 2:].tolist() == [[float(i == task) for i in range(3)]] * 4
    assert OneHot(3, 5)().tolist() == [[float(i == task) for i in range(5)] for task in range(3)]


def test_task_encoder_is_relu_then_an_mlp_per_task() -> None:
    encoder = TaskEncoder(3, torch.Generator().manual_seed(0), embedding=6, hidden=5, layers=2, width=4)
    z = encoder()
    assert z is not None
    assert z.shape == (3, 4)
    state = encoder.state_dict()
    for task in range(3):
        h = state["embedding"][0, task]
        for i in range(3):
            h = h.clamp(min=0) @ state[f"layers.{i}.weight"][0] + state[f"layers.{i}.bias"][0, 0]
        assert torch.allclose(z[task], h, atol=1e-6)
    assert not torch.allclose(z[0], z[1])


@pytest.mark.parametrize("name", ["shared", "multi_head", "disjoint"])
def test_only_products_between_hidden_layers_are_reduced(name: str) -> None:
    """Positions at the input and values at the output need their digits."""
    trunk = make_trunk(name, Shape(5, 2, 3, 2, 8, 3, 1e-3), torch.Generator().manual_seed(0))
    trunk.reduce_precision()
    layers = [module for module in trunk.modules() if isinstance(module, StackedLinear)]
    assert [layer.reduced for layer in layers] == [False, True, True, False]
    assert trunk(torch.randn(3, 4, 5)).dtype == torch.float32
