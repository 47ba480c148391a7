"""Averages over seeds and tasks that say how sure they are.

The interquartile mean and the stratified bootstrap are those of Agarwal et al. 2021 ("Deep RL at the edge of
the statistical precipice") and of its library rliable; here in NumPy, for a curve needs them at every point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Resampled scores held in memory at once: 4 million float64 are 32 MB.
_CHUNK = 4_000_000


@dataclass(frozen=True)
class Band:
    """Mean and IQM per point with their intervals; the intervals are NaN where one seed is all there is."""

    mean: Floats
    mean_low: Floats
    mean_high: Floats
    iqm: Floats
    iqm_low: Floats
    iqm_high: Floats

    @property
    def known(self) -> bool:
        """Whether there is an interval at all."""
        return bool(np.isfinite(self.mean_low).any())


def iqm(values: npt.ArrayLike, axis: int = -1) -> Any:
    """The mean of the middle half of `values` along `axis`, NaN where any of them is NaN.

    A quarter of the values, rounded down, is cut at either end (as `scipy.stats.trim_mean(values, 0.25)`
    does), so fewer than four values give their plain mean.
    """
    ordered = np.moveaxis(np.asarray(values, dtype=np.float64), axis, -1)
    count = ordered.shape[-1]
    if count == 0:
        raise ValueError("the interquartile mean of no values")
    cut = count // 4
    # Sorting puts NaN last, where the cut would hide it.
    missing = np.isnan(ordered).any(axis=-1)
    if cut:
        ordered = np.partition(ordered, (cut, count - cut - 1), axis=-1)[..., cut : count - cut]
    return np.where(missing, np.nan, ordered.mean(axis=-1))[()]


def bootstrap_band(scores: npt.ArrayLike, samples: int = 1000, confidence: float = 0.95, seed: int = 0) -> Band:
    """Mean and IQM over seeds × tasks at every point of `scores[seeds, tasks, points]`, with their intervals.

    Tasks are strata: every resample draws as many seeds as there are, with replacement and separately for
    each task, so each task keeps its share. A drawn seed brings its whole curve, so neighbouring points move
    together; the interval is between percentiles of the resampled averages. It says how far the average would
    move with other seeds on the *same* tasks; nothing in it is about other tasks. One seed says nothing about
    other seeds: its intervals are NaN, and a picture draws no band. With two or three seeds the interval
    exists but is too narrow, as every bootstrap of so few is.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 3 or 0 in values.shape:
        raise ValueError(f"scores have shape {values.shape}, expected [seeds, tasks, points], none of them 0")
    seeds, tasks, points = values.shape
    flat = values.reshape(seeds * tasks, points)
    mean, middle = flat.mean(axis=0), iqm(flat, axis=0)
    if seeds == 1:
        unknown = np.full(points, np.nan)
        return Band(mean, unknown, unknown, middle, unknown, unknown)

    rng = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // values.size)
    means, middles = np.empty((samples, points)), np.empty((samples, points))
    for start in range(0, samples, chunk):
        size = min(chunk, samples - start)
        drawn = rng.integers(seeds, size=(size, seeds, tasks))
        resampled = values[drawn, np.arange(tasks)].reshape(size, seeds * tasks, points)
        means[start : start + size] = resampled.mean(axis=1)
        middles[start : start + size] = iqm(resampled, axis=1)
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    mean_low, mean_high = np.percentile(means, tails, axis=0)
    iqm_low, iqm_high = np.percentile(middles, tails, axis=0)
    return Band(mean, mean_low, mean_high, middle, iqm_low, iqm_high)
