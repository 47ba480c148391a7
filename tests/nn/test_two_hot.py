"""The projection of moved values onto fixed ones."""

from __future__ import annotations

import math

import pytest
import torch

from medley.nn.two_hot import atoms, project


@pytest.mark.parametrize("bins", [2, 5, 101])
def test_equals_floor_and_ceiling_by_hand(bins: int) -> None:
    g = torch.Generator().manual_seed(0)
    values = 6 * torch.randn(3, 4, bins, generator=g, dtype=torch.float64)  # many of them beyond 5
    values[0, 0, 0], values[0, 0, 1] = 5.0, -5.0
    p = torch.softmax(torch.randn(3, 4, bins, generator=g, dtype=torch.float64), -1)
    got = project(values, p, 5.0, bins)
    for i in range(3):
        for j in range(4):
            wanted = [0.0] * bins
            for k in range(bins):
                place = (min(max(float(values[i, j, k]), -5.0), 5.0) + 5.0) * (bins - 1) / 10.0
                low, high = math.floor(place), math.ceil(place)
                if low == high:
                    wanted[low] += float(p[i, j, k])
                else:
                    wanted[low] += float(p[i, j, k]) * (high - place)
                    wanted[high] += float(p[i, j, k]) * (place - low)
            assert got[i, j].tolist() == pytest.approx(wanted, abs=1e-12)


def test_keeps_what_matters() -> None:
    z = atoms(101, 10.0, torch.device("cpu"))
    assert [float(z[i]) for i in (0, 50, 75, 100)] == pytest.approx([-10.0, 0.0, 5.0, 10.0], abs=1e-6)
    p = torch.softmax(torch.randn(7, 101, generator=torch.Generator().manual_seed(0)), -1)
    assert torch.allclose(project(z.expand(7, 101), p, 10.0, 101), p, atol=1e-4)  # values that did not move
    moved = 0.3 + 0.9 * z.expand(7, 101)
    new = project(moved, p, 10.0, 101)
    assert torch.allclose(new.sum(-1), torch.ones(7), atol=1e-5)
    assert torch.allclose((new * z).sum(-1), (p * moved).sum(-1), atol=1e-4)  # the expected value
    end = project(torch.full((1, 101), 4.0), p[:1], 10.0, 101)  # a true end: one value, certain
    assert float(end[0, 70]) == pytest.approx(1.0, abs=1e-4)
