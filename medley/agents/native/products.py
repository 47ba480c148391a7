"""What a layer does with one of its matrices: forward, back, and its gradient.

Each is there twice: in tiles of our own on machines that these are made for, and with BLAS elsewhere. Numbers lie row
by row without gaps, but for `x`, whose rows are `stride` numbers apart.
"""

from __future__ import annotations

from typing import Any

from medley.agents.native.blas import product
from medley.agents.native.machine import FLOAT, ZERO, compiled, floats, longs, vectorised
from medley.agents.native.tiles import BIAS, BIAS_AND_RELU, KEEP_ACTIVE, SQUARES, WIDTH, Panel, multiply
from medley.agents.native.transpose import transpose


@compiled
def _tiled(
    tiles: int, then: int, m: int, n: int, k: int, a: int, a_row: int, a_next: int, b: int, c: int, extra: int
) -> float:
    """C[m, n] = A[m, k] B[k, n] and what is to be done to it; distances in A are in bytes. Returns the sum of squares,
    if asked for."""
    squares, row = 0.0, FLOAT * n
    for j in range(0, n, WIDTH):
        skip = FLOAT * j
        panel = Panel(m, n - j, k, a, a_row, a_next, b + skip, row, c + skip, row, then, extra + skip, 0)
        squares += multiply(tiles, panel)
    return squares


# ---- forward


@compiled
def _bias_and_relu(values: int, bias: int, rows: int, width: int) -> None:
    b = floats(bias, width)
    for r in range(rows):
        h = floats(values + FLOAT * r * width, width)
        for j in range(width):
            v = h[j] + b[j]
            h[j] = ZERO if v <= ZERO else v  # NaN stays NaN


@compiled
def _add_bias(values: int, bias: int, rows: int, width: int) -> None:
    b = floats(bias, width)
    for r in range(rows):
        h = floats(values + FLOAT * r * width, width)
        for j in range(width):
            h[j] += b[j]


@compiled
def linear(
    s: Any,
    relu: bool,
    rows: int,
    n: int,
    m: int,
    x: int,
    stride: int,
    weight: int,
    bias: int,
    values: int,
    scratch: int,
) -> None:
    """values[rows, m] = x[rows, n] weight[n, m] + bias, and ReLU of that."""
    if s.tiles != 0:
        then = BIAS_AND_RELU if relu else BIAS
        _tiled(s.tiles, then, rows, m, n, x, FLOAT * stride, FLOAT, weight, values, bias)
        return
    product(s.sgemm, 0, 0, rows, m, n, x, stride, weight, m, values, m, scratch)
    if relu:
        _bias_and_relu(values, bias, rows, m)
    else:
        _add_bias(values, bias, rows, m)


# ---- back


@compiled
def _keep_active(deltas: int, values: int, width: int) -> None:
    d, h = floats(deltas, width), floats(values, width)
    for j in range(width):
        d[j] = d[j] if h[j] > ZERO else ZERO


@compiled
def _tiled_back(
    tiles: int, rows: int, n: int, m: int, above: int, weight: int, deltas: int, values: int, order: int, scratch: int
) -> None:
    """Tiles want B row by row: a few columns of the transposed weight at a time are copied to where they stay in the
    nearest caches."""
    a_row, b_row, c_row = FLOAT * m, FLOAT * WIDTH, FLOAT * n
    for j in range(0, n, WIDTH):
        transpose(weight + FLOAT * j * m, min(WIDTH, n - j), m, WIDTH, scratch)
        c, h = deltas + FLOAT * j, values + FLOAT * j
        multiply(tiles, Panel(rows, n - j, m, above, a_row, FLOAT, scratch, b_row, c, c_row, KEEP_ACTIVE, h, order))


@compiled
def back(
    s: Any,
    rows: int,
    n: int,
    m: int,
    above: int,
    weight: int,
    deltas: int,
    values: int,
    order: int,
    scratch: int,
) -> None:
    """deltas[rows, n] = above[rows, m] weight[n, m]^T, where the activations are positive: the i-th row belongs to
    row order[i] of `values`."""
    if s.tiles != 0:
        _tiled_back(s.tiles, rows, n, m, above, weight, deltas, values, order, scratch)
        return
    product(s.sgemm, 0, 1, rows, n, m, above, m, weight, m, deltas, n, scratch)
    row = longs(order, rows)
    for i in range(rows):
        _keep_active(deltas + FLOAT * i * n, values + FLOAT * row[i] * n, n)


# ---- gradient


@vectorised
def sum_of_squares(address: int, count: int) -> Any:
    x = floats(address, count)
    total = ZERO
    for i in range(count):
        total += x[i] * x[i]
    return total


@compiled
def gradient_of(
    s: Any, rows: int, n: int, m: int, x: int, stride: int, deltas: int, gradient: int, scratch: int
) -> float:
    """gradient[n, m] = x[rows, n]^T deltas[rows, m]; returns the sum of its squares."""
    squares: float = 0.0
    if s.tiles != 0:
        squares = _tiled(s.tiles, SQUARES, n, m, rows, x, FLOAT, FLOAT * stride, deltas, gradient, 0)
        return squares
    product(s.sgemm, 1, 0, n, m, rows, x, stride, deltas, m, gradient, m, scratch)
    for r in range(n):
        squares += sum_of_squares(gradient + FLOAT * r * m, m)
    return squares
