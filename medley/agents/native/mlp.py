"""Stacked layers in compiled code: forward, backward and gradients, each on one thread's share.

A network is a row of LAYER records; the last is linear, those before it end in a ReLU. Activations and their
gradients ("deltas") are [members, rows, out]. Forward and backward divide the rows between threads; the
gradients of the weights divide the weights: nothing has to be summed up between threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import carray  # type: ignore[attr-defined]

from medley.agents.native.machine import FLOAT, ONE, ZERO, compiled, floats, longs, vectorised
from medley.agents.native.products import back, gradient_of, linear, sum_of_squares
from medley.native.intrinsics import void_pointer

_I = np.int64
LAYER = np.dtype(
    [
        ("inputs", _I),
        ("outputs", _I),
        ("members", _I),
        ("tasks", _I),  # matrices per member: 1, or one for each task
        # Addresses. Parameters, gradients, Adam's means and squares, and the target's parameters lie alike.
        ("values", _I),
        ("deltas", _I),
        ("weight", _I, 5),
        ("bias", _I, 5),
        ("steps", _I, 2),
    ],
    align=True,
)
layer_type = numba.from_dtype(LAYER)
PARAMETER, GRADIENT, MEAN, SQUARE, TARGET = range(5)


# What all passes need to know about the batch and the machine: sgemm is for machines where `tiles` is 0.
SETTING = [("rows", _I), ("per_task", _I), ("tiles", _I), ("sgemm", _I)]


@compiled
def network(place: Any) -> Any:
    """The layers of a network, from their address and number."""
    return carray(void_pointer(place[0]), (place[1],), LAYER)


@compiled
def share(count: int, number: int, threads: int) -> tuple[int, int]:
    """Thread `number`'s part of `count` things."""
    return count * number // threads, count * (number + 1) // threads


@vectorised
def dot(a: int, b: int, count: int) -> Any:
    x, y = floats(a, count), floats(b, count)
    total = ZERO
    for i in range(count):
        total += x[i] * y[i]
    return total


@compiled
def _one_output(values: int, x: int, weight: int, bias: int, rows: int, width: int) -> None:
    """A matrix product with one column is slow; weighted sums are not."""
    out, b = floats(values, rows), floats(bias, 1)[0]
    for r in range(rows):
        out[r] = dot(x + FLOAT * r * width, weight, width) + b


@compiled
def forward(s: Any, layers: Any, member: int, x: int, stride: int, first: int, last: int, scratch: int) -> None:
    """Rows [first, last) of `x` through one member of a network; what every layer gives stays in its `values`."""
    for i in range(len(layers)):
        layer = layers[i]
        n, m = layer.inputs, layer.outputs
        at = first
        while at < last:
            task, end = 0, last
            if layer.tasks > 1:
                task = at // s.per_task
                end = min(last, (task + 1) * s.per_task)
            matrix = member * layer.tasks + task
            weight, bias = layer.weight[PARAMETER] + FLOAT * matrix * n * m, layer.bias[PARAMETER] + FLOAT * matrix * m
            source = x + FLOAT * at * stride
            values = layer.values + FLOAT * (member * s.rows + at) * m
            if m == 1 and i == len(layers) - 1:
                _one_output(values, source, weight, bias, end - at, n)
            else:
                relu = i < len(layers) - 1
                linear(s, relu, end - at, n, m, source, stride, weight, bias, values, scratch)
            at = end
        x, stride = layer.values + FLOAT * member * s.rows * m, m


@compiled
def _from_one_output(deltas: int, values: int, weight: int, scale: Any, width: int) -> None:
    d, h, w = floats(deltas, width), floats(values, width), floats(weight, width)
    for j in range(width):
        d[j] = scale * w[j] if h[j] > ZERO else ZERO


@compiled
def backward(s: Any, layers: Any, member: int, order: int, first: int, count: int, scratch: int) -> None:
    """From the deltas of the last layer to those of the first. They stand at rows first, first + 1, ...; entry i
    of `order` says which row of the batch the i-th belongs to."""
    row = longs(order, count)
    for i in range(len(layers) - 1, 0, -1):
        layer, below = layers[i], layers[i - 1]
        n, m = layer.inputs, layer.outputs
        above = layer.deltas + FLOAT * (member * s.rows + first) * m
        deltas = below.deltas + FLOAT * (member * s.rows + first) * n
        values = below.values + FLOAT * member * s.rows * n
        at = 0
        while at < count:
            task, end = 0, count
            if layer.tasks > 1:
                task, end = row[at] // s.per_task, at + 1
                while end < count and row[end] // s.per_task == task:
                    end += 1
            weight = layer.weight[PARAMETER] + FLOAT * (member * layer.tasks + task) * n * m
            if m == 1:
                scale = floats(above, count)
                for k in range(at, end):
                    _from_one_output(deltas + FLOAT * k * n, values + FLOAT * row[k] * n, weight, scale[k], n)
            else:
                a, c = above + FLOAT * at * m, deltas + FLOAT * at * n
                back(s, end - at, n, m, a, weight, c, values, order + 8 * at, scratch)
            at = end


@compiled
def _add_scaled(total: int, x: int, scale: Any, count: int) -> None:
    t, y = floats(total, count), floats(x, count)
    for j in range(count):
        t[j] += scale * y[j]


@compiled
def gradients(s: Any, layers: Any, x: int, stride: int, number: int, threads: int, scratch: int) -> float:
    """One thread's share of the gradients of all weights, from values and deltas; returns its sum of squares."""
    squares = 0.0
    for i in range(len(layers)):
        layer = layers[i]
        n, m = layer.inputs, layer.outputs
        matrices = layer.members * layer.tasks
        rows = s.per_task if layer.tasks > 1 else s.rows
        # Rows of all matrices of this layer, one below the other.
        at, last = share(matrices * n, number, threads)
        while at < last:
            matrix, k = at // n, at % n
            end = min(last, (matrix + 1) * n)
            start = matrix % layer.tasks * rows
            member = matrix // layer.tasks
            values = x + FLOAT * (start * stride + k)
            if i > 0:
                values += FLOAT * member * s.rows * stride
            deltas = layer.deltas + FLOAT * (member * s.rows + start) * m
            gradient = layer.weight[GRADIENT] + FLOAT * at * m
            if m == 1:
                floats(gradient, end - at)[:] = ZERO
                d = floats(deltas, rows)
                for r in range(rows):
                    _add_scaled(gradient, values + FLOAT * r * stride, d[r], end - at)
                squares += sum_of_squares(gradient, end - at)
            else:
                squares += gradient_of(s, rows, end - at, m, values, stride, deltas, gradient, scratch)
            at = end
        at, last = share(matrices * m, number, threads)
        while at < last:
            matrix, k = at // m, at % m
            end = min(last, (matrix + 1) * m)
            first = matrix // layer.tasks * s.rows + matrix % layer.tasks * rows
            gradient = layer.bias[GRADIENT] + FLOAT * at
            floats(gradient, end - at)[:] = ZERO
            for r in range(first, first + rows):
                _add_scaled(gradient, layer.deltas + FLOAT * (r * m + k), ONE, end - at)
            squares += sum_of_squares(gradient, end - at)
            at = end
        x, stride = layer.values, m
    return squares
