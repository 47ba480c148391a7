"""Curves as a screen can show them: few enough points, digits that can be told apart, nothing that is not JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from medley.reporting.run_files import number
from medley.reporting.runs import RunData
from medley.reporting.statistics import Floats


def rounded(values: npt.ArrayLike, digits: int = 5) -> list[Any]:
    """Numbers with so many significant digits, whole ones as integers, and None for what is not finite.

    A page holds hundreds of thousands of them: `0.98` instead of `0.9799999999999999` makes it a third.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1:
        return [rounded(row, digits) for row in array]
    finite = np.isfinite(array)
    safe = np.where(finite & (array != 0), array, 1.0)
    # Whole numbers keep all their digits: a step is not 12,346,000 because it has eight.
    places = np.clip(digits - 1 - np.floor(np.log10(np.abs(safe))), 0, 300).astype(int)
    whole = np.rint(array).tolist() if finite.all() else np.rint(np.where(finite, array, 0)).tolist()
    return [
        None if not known else int(near) if place == 0 or value == near else round(value, place)
        for value, near, place, known in zip(array.tolist(), whole, places.tolist(), finite.tolist(), strict=True)
    ]


def kept(count: int, most: int) -> list[int]:
    """Places of at most `most` points among `count`, evenly, with the first and the last."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist())) if count else []


def binned(run: RunData, keys: Sequence[str], bins: int) -> tuple[Floats, Floats]:
    """Steps and values [bins, keys] of a training log, the mean of what is finite in each bin of steps."""
    if not run.train:
        return np.empty(0), np.empty((0, len(keys)))
    steps = np.array([number(row["step"]) for row in run.train])
    values = np.array([[number(row.get(key)) for key in keys] for row in run.train], dtype=np.float64)
    values = values.reshape(len(steps), len(keys))
    values[~np.isfinite(values)] = np.nan
    if len(steps) <= bins:
        return steps, values
    edges = np.linspace(steps.min(), steps.max() + 1e-9, bins + 1)
    place = np.digitize(steps, edges[1:-1])
    counts = np.zeros((bins, len(keys)))
    sums = np.zeros((bins, len(keys)))
    np.add.at(counts, place, ~np.isnan(values))
    np.add.at(sums, place, np.nan_to_num(values))
    used = np.bincount(place, minlength=bins) > 0
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return ((edges[:-1] + edges[1:]) / 2)[used], means[used]
