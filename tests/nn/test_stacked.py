"""Many linear layers in one product equal as many `nn.Linear`s."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from medley.nn.stacked import StackedLinear, init_hidden, init_uniform


def random_layer(members: tuple[int, ...], n_in: int, n_out: int) -> StackedLinear:
    layer = StackedLinear(members, n_in, n_out)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=g))
        layer.bias.copy_(torch.randn(layer.bias.shape, generator=g))
    return layer


def separate(layer: StackedLinear, member: tuple[int, ...]) -> nn.Linear:
    """The `nn.Linear` that one member should be."""
    linear = nn.Linear(layer.in_features, layer.out_features)
    with torch.no_grad():
        linear.weight.copy_(layer.weight[member].T)
        linear.bias.copy_(layer.bias[member][0])
    return linear


MEMBERS = [(1,), (2,), (1, 3), (2, 3)]


@pytest.mark.parametrize("n_out", [1, 2, 5])
@pytest.mark.parametrize("members", MEMBERS)
def test_equals_separate_linears_with_gradients(members: tuple[int, ...], n_out: int) -> None:
    layer = random_layer(members, 4, n_out)
    x = torch.randn(*members, 6, 4, requires_grad=True)
    out = layer(x)
    assert out.shape == (*members, 6, n_out)
    upstream = torch.randn(out.shape)
    got = torch.autograd.grad(out, [x, layer.weight, layer.bias], upstream)
    for member in np.ndindex(*members):
        linear = separate(layer, member)
        row = x[member].detach().requires_grad_()
        wanted = linear(row)
        assert torch.allclose(out[member], wanted, atol=1e-6)
        gx, gw, gb = torch.autograd.grad(wanted, [row, linear.weight, linear.bias], upstream[member])
        assert torch.allclose(got[0][member], gx, atol=1e-5)
        assert torch.allclose(got[1][member], gw.T, atol=1e-5)
        assert torch.allclose(got[2][member][0], gb, atol=1e-5)


@pytest.mark.parametrize("n_out", [1, 5])
@pytest.mark.parametrize(
    ("members", "shape"),
    [((2,), (1,)), ((2,), ()), ((2, 3), (1, 3)), ((2, 3), (2, 1)), ((2, 3), (1, 1)), ((2, 3), (3,)), ((1,), ())],
)
def test_a_size_of_one_is_shared_by_all_members(members: tuple[int, ...], shape: tuple[int, ...], n_out: int) -> None:
    layer = random_layer(members, 4, n_out)
    x = torch.randn(*shape, 6, 4)
    wanted = torch.stack([separate(layer, m)(x.expand(*members, 6, 4)[m]) for m in np.ndindex(*members)])
    out = layer(x)
    assert out.shape == (*members, 6, n_out)
    assert torch.allclose(out, wanted.reshape(out.shape), atol=1e-6)


@pytest.mark.parametrize("members", MEMBERS)
def test_hidden_init_is_he_uniform_by_the_true_fan_in(members: tuple[int, ...]) -> None:
    layer = StackedLinear(members, 150, 40)  # fan-in and fan-out differ: taking the wrong one shows
    with torch.no_grad():
        layer.bias.fill_(1.0)
    init_hidden(layer, torch.Generator().manual_seed(0))
    check_uniform(layer.weight, math.sqrt(6.0 / 150))
    assert (layer.bias == 0).all()
    if math.prod(members) > 1:
        flat = layer.weight.reshape(-1, 150, 40)
        assert not torch.equal(flat[0], flat[1])  # members start apart


def test_uniform_init_and_its_seed() -> None:
    a, b, c = (StackedLinear((2,), 60, 60) for _ in range(3))
    init_uniform(a, 3e-3, torch.Generator().manual_seed(1))
    init_uniform(b, 3e-3, torch.Generator().manual_seed(1))
    init_uniform(c, 3e-3, torch.Generator().manual_seed(2))
    check_uniform(a.weight, 3e-3)
    assert torch.equal(a.weight, b.weight)
    assert not torch.equal(a.weight, c.weight)


def check_uniform(weight: Tensor, bound: float) -> None:
    w = weight.detach()
    assert float(w.abs().max()) <= bound
    assert float(w.max()) > 0.99 * bound
    assert float(w.min()) < -0.99 * bound
    assert float(w.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert abs(float(w.mean())) < 0.05 * bound


def test_reduced_products_are_near_and_train_the_same_parameters() -> None:
    exact, reduced = random_layer((2,), 8, 6), random_layer((2,), 8, 6)
    reduced.load_state_dict(exact.state_dict())
    reduced.reduced = True
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(4))
    one, two = exact(x), reduced(x)
    assert two.dtype == torch.bfloat16
    gap = float((one - two.float()).detach().abs().max())
    assert 0 < gap < 0.05
    one.square().sum().backward()
    two.float().square().sum().backward()
    assert reduced.weight.grad is not None
    assert exact.weight.grad is not None
    assert reduced.weight.grad.dtype == torch.float32
    scale = float(exact.weight.grad.abs().max())
    assert float((reduced.weight.grad - exact.weight.grad).abs().max()) < 0.05 * scale
    # What follows a reduced layer takes its result as it is.
    assert random_layer((2,), 6, 3)(two).dtype == torch.float32
