"""Adam on one thread's share of the weights, and targets that follow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from medley.agents.native.machine import FLOAT, HALF, ONE, ZERO, compiled, doubles, floats
from medley.agents.native.mlp import GRADIENT, MEAN, PARAMETER, SQUARE, TARGET, share

_I = np.int64
PIECE = 1024  # numbers
# Moments of weights that no longer get a gradient shrink until they are denormal, and stay so: arithmetic with such
# numbers takes many times as long. Before that they are set to zero, which moves no weight by as much as its rounding.
NO_MEAN, NO_SQUARE = np.float32(1e-30), np.float32(1e-36)
OPTIMIZER = np.dtype(
    [
        ("lr", _I),  # address of a double
        ("beta1", np.float64),
        ("beta2", np.float64),
        ("eps", np.float64),
    ],
    align=True,
)


@compiled
def rates(o: Any, step: Any, factor: Any) -> Any:
    """What `adam` needs to know in step number `step`; gradients are multiplied by `factor` first."""
    size = np.float32(doubles(o.lr, 1)[0] / (1.0 - o.beta1**step))
    root = np.float32(math.sqrt(1.0 - o.beta2**step))
    mean, square = np.float32(1.0 - o.beta1), np.float32(1.0 - o.beta2)
    return factor, size, root, np.float32(o.eps), mean, np.float32(o.beta2), square


@compiled
def adam(rates: Any, addresses: Any, at: int, count: int) -> None:
    """torch._fused_adam_ on part of one tensor."""
    skip = FLOAT * at
    p, g = floats(addresses[PARAMETER] + skip, count), floats(addresses[GRADIENT] + skip, count)
    mean, square = floats(addresses[MEAN] + skip, count), floats(addresses[SQUARE] + skip, count)
    factor, size, root, eps, a, beta2, b = rates
    for i in range(count):
        gradient = g[i] * factor
        m = mean[i] + a * (gradient - mean[i])
        v = square[i] * beta2 + b * gradient * gradient
        m, v = ZERO if abs(m) < NO_MEAN else m, ZERO if v < NO_SQUARE else v
        mean[i], square[i] = m, v
        p[i] -= size * m / (np.float32(math.sqrt(v)) / root + eps)


@compiled
def _follow(target: int, source: int, tau: Any, count: int) -> None:
    """torch.lerp, which takes its second form from one half on: tau = 1 copies."""
    t, p = floats(target, count), floats(source, count)
    if tau < HALF:
        for i in range(count):
            t[i] += tau * (p[i] - t[i])
    else:
        for i in range(count):
            t[i] = p[i] - (p[i] - t[i]) * (ONE - tau)


@compiled
def _part(rates: Any, tau: Any, addresses: Any, at: int, last: int) -> None:
    """In pieces, so that targets find the new weights still in the nearest cache."""
    while at < last:
        count = min(PIECE, last - at)
        adam(rates, addresses, at, count)
        if tau > ZERO:
            _follow(addresses[TARGET] + FLOAT * at, addresses[PARAMETER] + FLOAT * at, tau, count)
        at += count


@compiled
def descend(layers: Any, o: Any, step: Any, factor: Any, tau: Any, number: int, threads: int) -> None:
    """One thread's share of Adam's step, the same weights as in `gradients`; with tau > 0 targets follow."""
    now = rates(o, step, factor)
    for i in range(len(layers)):
        layer = layers[i]
        matrices = layer.members * layer.tasks
        first, last = share(matrices * layer.inputs, number, threads)
        _part(now, tau, layer.weight, first * layer.outputs, last * layer.outputs)
        first, last = share(matrices * layer.outputs, number, threads)
        _part(now, tau, layer.bias, first, last)
        if number == 0:
            floats(layer.steps[0], 1)[0] = step
            floats(layer.steps[1], 1)[0] = step
