"""What compiled updates do with one matrix, in tiles and with BLAS, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from medley.agents.native import blas
from medley.agents.native.descent import NO_MEAN, OPTIMIZER, adam, rates
from medley.agents.native.machine import compiled
from medley.agents.native.mlp import SETTING
from medley.agents.native.products import back, gradient_of, linear
from medley.agents.native.tiles import WIDTH, tiles
from medley.agents.native.transpose import transpose

Array = npt.NDArray[Any]
WIDTHS = [1, 8, 16, 17, 24, 31, 32, 33, 40, 72, 400]
SIZES = [(rows, 37, 40) for rows in range(1, 21)] + [(rows, k, n) for rows in (5, 20) for k in (1, 64) for n in WIDTHS]


@pytest.fixture(params=["tiles", "blas"])
def setting(request: pytest.FixtureRequest) -> Any:
    found = blas.find_blas()
    if found is None:
        pytest.skip("no BLAS here")
    s = np.zeros((), np.dtype(SETTING, align=True))
    s["tiles"], s["sgemm"] = tiles() if request.param == "tiles" else 0, found.sgemm
    return s[()]


class Guarded:
    """A matrix with numbers around it that must stay as they are."""

    def __init__(self, *shape: int, value: Array | None = None) -> None:
        size = int(np.prod(shape))
        self._memory = np.full(size + 64, 7.0, np.float32)
        self.inner = self._memory[32 : 32 + size].reshape(shape)
        self.inner[:] = np.nan if value is None else value
        self.address = self.inner.ctypes.data

    def check(self, wanted: Array) -> None:
        assert (self._memory[:32] == 7).all()
        assert (self._memory[32 + self.inner.size :] == 7).all()
        np.testing.assert_allclose(self.inner, wanted, rtol=1e-4, atol=1e-4)


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def scratch() -> Array:
    return np.zeros(WIDTH * 512, np.float32)


@pytest.mark.parametrize(("rows", "n", "m"), SIZES)
def test_forward(setting: Any, rows: int, n: int, m: int) -> None:
    x, weight, bias, room = normal(rows, n + 3), normal(n, m), normal(m), scratch()
    for relu in (False, True):
        values = Guarded(rows, m)
        places = (x.ctypes.data, n + 3, weight.ctypes.data, bias.ctypes.data, values.address, room.ctypes.data)
        linear(setting, relu, rows, n, m, *places)
        wanted = x[:, :n].astype(np.float64) @ weight + bias
        values.check(np.maximum(wanted, 0) if relu else wanted)


@pytest.mark.parametrize(("rows", "m", "n"), SIZES)
def test_back(setting: Any, rows: int, m: int, n: int) -> None:
    above, weight, values, room = normal(rows, m), normal(n, m), normal(2 * rows, n), scratch()
    order, deltas = np.arange(1, 2 * rows, 2), Guarded(rows, n)
    places = (above.ctypes.data, weight.ctypes.data, deltas.address, values.ctypes.data, order.ctypes.data)
    back(setting, rows, n, m, *places, room.ctypes.data)
    deltas.check((above.astype(np.float64) @ weight.T) * (values[order] > 0))


@pytest.mark.parametrize(("n", "rows", "m"), SIZES)
def test_gradient(setting: Any, n: int, rows: int, m: int) -> None:
    x, deltas, gradient, room = normal(rows, n + 3), normal(rows, m), Guarded(n, m), scratch()
    places = (x.ctypes.data, n + 3, deltas.ctypes.data, gradient.address, room.ctypes.data)
    squares = gradient_of(setting, rows, n, m, *places)
    wanted = x[:, :n].T.astype(np.float64) @ deltas
    gradient.check(wanted)
    assert squares == pytest.approx((wanted**2).sum(), rel=1e-5)


def test_not_a_number_stays_so(setting: Any) -> None:
    x, weight, bias, room = normal(9, 4), normal(4, 40), normal(40), scratch()
    x[3], bias[21] = np.nan, np.nan
    values = np.zeros((9, 40), np.float32)
    places = (x.ctypes.data, 4, weight.ctypes.data, bias.ctypes.data, values.ctypes.data, room.ctypes.data)
    linear(setting, True, 9, 4, 40, *places)
    wanted = np.zeros((9, 40), dtype=bool)
    wanted[3], wanted[:, 21] = True, True
    assert (np.isnan(values) == wanted).all()


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (16, 16), (32, 48), (20, 16), (16, 20), (31, 33)])
def test_transpose(rows: int, width: int) -> None:
    source, target = normal(rows, width), Guarded(width, 33, value=np.full((width, 33), 5.0))
    transpose(source.ctypes.data, rows, width, 33, target.address)
    wanted = np.full((width, 33), 5.0)
    wanted[:, :rows] = source.T
    target.check(wanted)


@compiled
def _adam(o: Any, step: Any, addresses: Any, count: int) -> None:
    adam(rates(o, step, np.float32(1)), addresses, 0, count)


def test_moments_without_gradients_end_at_zero_and_not_among_denormal_numbers() -> None:
    o, lr = np.zeros((), OPTIMIZER), np.array([0.1])
    o["lr"], o["beta1"], o["beta2"], o["eps"] = lr.ctypes.data, 0.9, 0.5, 1e-8
    weight, gradient = np.ones(40, np.float32), np.zeros(40, np.float32)
    mean, square = np.full(40, 1e-20, np.float32), np.full(40, 1e-20, np.float32)
    addresses = np.array([array.ctypes.data for array in (weight, gradient, mean, square)])
    mean[7] = np.nan
    for step in range(1, 400):
        _adam(o[()], np.float32(step), addresses, 40)
        assert not (np.abs(mean[mean != 0]) < NO_MEAN).any()
    assert not square.any()
    assert np.flatnonzero(mean).tolist() == [7]  # what is not finite does not get lost
    assert (np.delete(weight, 7) == 1).all()
