"""The statistics against SciPy, against cases with a known answer, and against what an interval promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import trim_mean

from medley.reporting.statistics import bootstrap_band, iqm


@pytest.mark.parametrize("count", range(1, 24))
def test_iqm_is_scipys_trimmed_mean(count: int) -> None:
    values = np.random.default_rng(count).normal(size=(count, 3))
    np.testing.assert_allclose(iqm(values, axis=0), trim_mean(values, 0.25, axis=0))
    np.testing.assert_allclose(iqm(values[:, 0]), trim_mean(values[:, 0], 0.25))


def test_iqm_ignores_outliers_but_not_missing_values() -> None:
    assert iqm([-1000.0, 1.0, 2.0, 1000.0]) == 1.5
    assert np.isnan(iqm([0.0, 1.0, 2.0, np.nan]))
    with pytest.raises(ValueError, match="no values"):
        iqm([])


def test_one_seed_has_no_interval() -> None:
    band = bootstrap_band(np.random.default_rng(0).random((1, 5, 3)))
    assert not band.known
    assert np.isfinite(band.mean).all()
    assert np.isnan(band.iqm_low).all()


def test_equal_seeds_have_an_interval_of_no_width() -> None:
    scores = np.repeat(np.random.default_rng(0).random((1, 6, 4)), 3, axis=0)
    band = bootstrap_band(scores)
    np.testing.assert_allclose(band.mean_low, band.mean)
    np.testing.assert_allclose(band.iqm_high, band.iqm)


def test_strata_keep_tasks_apart() -> None:
    """Tasks that differ wildly add nothing to the interval when every seed agrees on each of them."""
    easy_and_hard = np.broadcast_to(np.array([0.0, 1.0])[None, :, None], (4, 2, 1))
    band = bootstrap_band(easy_and_hard)
    assert band.mean_low[0] == band.mean[0] == band.mean_high[0] == 0.5


def test_interval_is_that_of_every_possible_resample() -> None:
    """Three seeds and two tasks have 729 resamples: the exact percentiles are known."""
    scores = np.array([[0.0, 0.3], [0.5, 0.4], [1.0, 0.9]])
    choices = list(itertools.product(range(3), repeat=3))
    means = [(scores[list(a), 0].mean() + scores[list(b), 1].mean()) / 2 for a in choices for b in choices]
    exact = np.percentile(means, [2.5, 97.5])
    band = bootstrap_band(scores[..., None], samples=20_000)
    np.testing.assert_allclose([band.mean_low[0], band.mean_high[0]], exact, atol=0.02)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    worlds = rng.normal(0.5, 0.2, size=(20, 4, 300))  # 300 experiments of 20 seeds and 4 tasks, as points
    band = bootstrap_band(worlds, samples=300)
    covered = ((band.mean_low <= 0.5) & (band.mean_high >= 0.5)).mean()
    assert 0.88 < covered < 0.98


def test_same_seed_same_band_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(2).random((5, 7, 11))
    first = bootstrap_band(scores, samples=64, seed=3)
    monkeypatch.setattr("medley.reporting.statistics._CHUNK", scores.size * 64)
    np.testing.assert_array_equal(first.iqm_low, bootstrap_band(scores, samples=64, seed=3).iqm_low)
    assert (first.iqm_low != bootstrap_band(scores, samples=64, seed=4).iqm_low).any()


def test_missing_scores_stay_missing() -> None:
    scores = np.ones((4, 4, 2))
    scores[0, 0, 1] = np.nan
    band = bootstrap_band(scores)
    assert band.mean[0] == band.iqm[0] == 1.0
    assert np.isnan(band.mean[1])
    assert np.isnan(band.iqm[1])


@pytest.mark.parametrize("shape", [(3, 2), (0, 2, 1), (2, 0, 1)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        bootstrap_band(np.zeros(shape))
