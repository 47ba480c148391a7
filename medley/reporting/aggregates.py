"""What can be said of runs × tasks scores: four averages, profiles, and who is better, each with its interval.

As in rliable, the library of Agarwal et al. 2021 ("Deep RL at the edge of the statistical precipice"), here in NumPy:
rliable brings arch, statsmodels, pandas and seaborn along, and calls Python for every resample. Scores are
normalised, so that 1 is as good as it gets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medley.reporting.statistics import Floats, iqm

Draws = npt.NDArray[np.int64]

SAMPLES = 2000  # as rliable's profiles; an interval's end then moves by some hundredths of its width
_CONFIDENCE = 0.95
_CHUNK = 4_000_000  # resampled scores in memory at once: 32 MB


class Interval(NamedTuple):
    """A figure and the ends of its 95 % interval, which are NaN where there is one run."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Profile:
    """The share of runs × tasks that score more than each of `thresholds`."""

    thresholds: Floats
    share: Floats
    low: Floats
    high: Floats


def mean(scores: Floats) -> Any:
    """Over the last two axes, which are runs and tasks in all of these."""
    return scores.mean(axis=(-2, -1))


def median(scores: Floats) -> Any:
    """Of the tasks' means: half of the tasks are learnt better than this."""
    return np.median(scores.mean(axis=-2), axis=-1)


def interquartile_mean(scores: Floats) -> Any:
    return iqm(scores.reshape(*scores.shape[:-2], -1))


def optimality_gap(scores: Floats, gamma: float = 1.0) -> Any:
    """How much is missing to `gamma` on average; what is above it makes up for nothing."""
    return gamma - np.minimum(scores, gamma).mean(axis=(-2, -1))


AGGREGATES = {"mean": mean, "median": median, "IQM": interquartile_mean, "optimality gap": optimality_gap}


def aggregates(scores: npt.ArrayLike, samples: int = SAMPLES, seed: int = 0) -> dict[str, Interval]:
    """All `AGGREGATES` of `scores[runs, tasks]`."""
    values = _checked(scores)
    points = {name: float(function(values)) for name, function in AGGREGATES.items()}
    if len(values) == 1:
        return {name: Interval(point) for name, point in points.items()}
    drawn = resamples(values.shape, samples, seed)
    found: dict[str, list[Floats]] = {name: [] for name in AGGREGATES}
    for part in _parts(drawn):
        resampled = values[part, np.arange(values.shape[1])]
        for name, function in AGGREGATES.items():
            found[name].append(function(resampled))
    return {name: Interval(points[name], *_ends(np.concatenate(found[name]))) for name in AGGREGATES}


def performance_profile(
    scores: npt.ArrayLike, thresholds: npt.ArrayLike, samples: int = SAMPLES, seed: int = 0
) -> Profile:
    """How `scores[runs, tasks]` are distributed, with an interval at every threshold by itself."""
    values, levels = _checked(scores), np.asarray(thresholds, dtype=np.float64)
    above = (values[..., None] > levels).astype(np.float64).reshape(values.size, -1)
    if np.isnan(values).any():
        above[:] = np.nan  # a score that is missing is not a low one
    share, unknown = above.mean(axis=0), np.full(levels.shape, np.nan)
    if len(values) == 1:
        return Profile(levels, share, unknown, unknown)
    # How often every score is drawn is all that matters: a matrix product in place of a gather.
    times = _counts(resamples(values.shape, samples, seed)).reshape(samples, -1)
    low, high = _ends(times @ above / values.size)
    return Profile(levels, share, low, high)


def probability_of_improvement(x: npt.ArrayLike, y: npt.ArrayLike, samples: int = SAMPLES, seed: int = 0) -> Interval:
    """How likely a run of `x[runs, tasks]` beats one of `y[runs, tasks]` on a task, on average over tasks.

    That is Mann and Whitney's U of every task by the number of pairs; equal scores count as half.
    """
    a, b = _checked(x), _checked(y)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"{a.shape[1]} tasks cannot be compared with {b.shape[1]}")
    wins = (a[:, None] > b[None]) + 0.5 * (a[:, None] == b[None])
    wins[:, :, np.isnan(a).any(axis=0) | np.isnan(b).any(axis=0)] = np.nan
    point = float(wins.mean(axis=(0, 1)).mean())
    if len(a) == 1 or len(b) == 1:
        return Interval(point)
    times_a = _counts(resamples(a.shape, samples, seed))
    times_b = _counts(resamples(b.shape, samples, seed, which=1))
    per_task = np.einsum("sit,ijt,sjt->st", times_a, wins, times_b, optimize=True)
    return Interval(point, *_ends(per_task.mean(axis=1) / (len(a) * len(b))))


def resamples(shape: tuple[int, ...], samples: int = SAMPLES, seed: int = 0, which: int = 0) -> Draws:
    """Which run stands in every place of every resample of `shape` [runs, tasks]: [samples, runs, tasks].

    Tasks are strata: each draws as many runs as there are, with replacement and on its own. `which` tells two groups
    apart that are drawn from independently.
    """
    return np.random.default_rng([seed, which]).integers(shape[0], size=(samples, *shape))


def _checked(scores: npt.ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"scores have shape {values.shape}, expected [runs, tasks], neither of them 0")
    return values


def _parts(drawn: Draws) -> Iterator[Draws]:
    size = max(1, _CHUNK // drawn[0].size)
    return (drawn[start : start + size] for start in range(0, len(drawn), size))


def _counts(drawn: Draws) -> Floats:
    """How often every run was drawn, [samples, runs, tasks]."""
    samples, runs, tasks = drawn.shape
    place = (np.arange(samples)[:, None, None] * runs + drawn) * tasks + np.arange(tasks)
    return np.bincount(place.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def _ends(resampled: Floats) -> Any:
    """Percentiles over the resamples, the first axis."""
    return np.percentile(resampled, [50 * (1 - _CONFIDENCE), 50 * (1 + _CONFIDENCE)], axis=0)
