"""Averages, profiles and probabilities of improvement: against rliable's own functions, and against numbers by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from rliable import library, metrics

from medley.reporting.aggregates import (
    AGGREGATES,
    aggregates,
    performance_profile,
    probability_of_improvement,
    resamples,
)
from medley.reporting.statistics import bootstrap_band

SHAPES = [(1, 1), (2, 3), (3, 10), (5, 4), (10, 50)]
THEIRS = {
    "mean": metrics.aggregate_mean,
    "median": metrics.aggregate_median,
    "IQM": metrics.aggregate_iqm,
    "optimality gap": metrics.aggregate_optimality_gap,
}
TAUS = np.linspace(0.0, 1.2, 25)

# Two runs of three tasks against three of the same; every figure below is worked out by hand.
SMALL_X = [[0.2, 0.5, 1.0], [0.6, 0.5, 1.4]]
SMALL_Y = [[0.4, 0.5, 0.8], [0.1, 0.7, 1.0], [0.2, 0.3, 1.2]]
SQUARE = [[0.1, 0.2], [0.3, 0.4]]


def _scores(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Some above 1, some equal to one another."""
    return np.round(np.random.default_rng([seed, *shape]).uniform(0.0, 1.3, shape), 1)


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes rliable resample with medley's indices, so that intervals must agree to the last digit."""

    def draw(first: np.ndarray, second: np.ndarray | None = None, columns: tuple[np.ndarray, ...] = ()) -> None:
        one: Iterator[np.ndarray] = itertools.cycle(first)
        two: Iterator[np.ndarray] = itertools.cycle(first if second is None else second)
        columns = columns or (np.arange(first.shape[2])[None],)
        alone, both = library.StratifiedBootstrap, library.StratifiedIndependentBootstrap
        monkeypatch.setattr(alone, "update_indices", lambda self: (next(one), *columns))
        monkeypatch.setattr(both, "update_indices", lambda self: ([(next(one), *columns), (next(two), *columns)], {}))

    return draw


@pytest.mark.parametrize("shape", SHAPES)
def test_averages_are_rliables(shape: tuple[int, int]) -> None:
    scores = _scores(shape)
    ours = aggregates(scores)
    assert set(ours) == set(THEIRS) == set(AGGREGATES)
    for name, function in THEIRS.items():
        assert ours[name].value == pytest.approx(function(scores), abs=1e-12), name


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_intervals_are_rliables_on_the_same_resamples(shape: tuple[int, int], same_draws) -> None:
    scores = _scores(shape)
    ours = aggregates(scores, samples=200)
    for name, function in THEIRS.items():
        same_draws(resamples(shape, samples=200))
        _, theirs = library.get_interval_estimates({"x": scores}, lambda x, f=function: np.array([f(x)]), reps=200)
        np.testing.assert_allclose(ours[name][1:], theirs["x"][:, 0], atol=1e-12, err_msg=name)


def test_intervals_are_rliables_with_its_own_random_numbers() -> None:
    scores = np.random.default_rng(3).beta(2, 1, (8, 10))
    np.random.seed(0)  # noqa: NPY002 - where rliable draws from
    together = lambda x: np.array([f(x) for f in THEIRS.values()])  # noqa: E731
    _, theirs = library.get_interval_estimates({"x": scores}, together, reps=2000)
    ours = aggregates(scores)
    for column, name in enumerate(THEIRS):
        low, high = theirs["x"][:, column]
        assert ours[name][1:] == pytest.approx((low, high), abs=0.1 * (high - low)), name


def test_profiles_are_rliables(same_draws) -> None:
    scores = _scores((5, 4))
    ours = performance_profile(scores, TAUS, samples=200)
    same_draws(resamples((5, 4), samples=200))
    share, ends = library.create_performance_profile({"x": scores}, TAUS, reps=200)
    np.testing.assert_allclose(ours.share, share["x"], atol=1e-12)
    np.testing.assert_allclose([ours.low, ours.high], ends["x"], atol=1e-12)
    assert (ours.low <= ours.share).all()
    assert (ours.low < ours.high).any()


@pytest.mark.parametrize("runs", [(5, 5), (3, 7)])
def test_probabilities_of_improvement_are_rliables(runs: tuple[int, int], same_draws) -> None:
    x, y = _scores((runs[0], 6), seed=1), _scores((runs[1], 6), seed=2)
    ours = probability_of_improvement(x, y, samples=200)
    assert ours.value == pytest.approx(metrics.probability_of_improvement(x, y), abs=1e-12)
    same_draws(resamples(x.shape, samples=200), resamples(y.shape, samples=200, which=1))
    function = lambda a, b: np.array([metrics.probability_of_improvement(a, b)])  # noqa: E731
    _, theirs = library.get_interval_estimates({"x,y": [x, y]}, function, reps=200)
    np.testing.assert_allclose(ours[1:], theirs["x,y"][:, 0], atol=1e-12)
    assert probability_of_improvement(x, x).value == 0.5


def test_curves_are_rliables_at_every_point(same_draws) -> None:
    """As rliable makes its sample-efficiency curves: the IQM of scores [runs, tasks, points] at every point."""
    scores = np.random.default_rng(4).random((5, 4, 7))
    ours = bootstrap_band(scores, samples=200)
    drawn = np.random.default_rng(0).integers(5, size=(200, 5, 4))
    same_draws(drawn[..., None], columns=(np.arange(4)[None, :, None], np.arange(7)[None, None]))
    function = lambda x: np.array([metrics.aggregate_iqm(x[..., point]) for point in range(7)])  # noqa: E731
    middle, ends = library.get_interval_estimates({"x": scores}, function, reps=200)
    np.testing.assert_allclose(ours.iqm, middle["x"], atol=1e-12)
    np.testing.assert_allclose([ours.iqm_low, ours.iqm_high], ends["x"], atol=1e-12)


def test_a_small_case_by_hand() -> None:
    found = {name: interval.value for name, interval in aggregates(SMALL_X).items()}
    assert found["mean"] == pytest.approx(0.7)  # (0.4 + 0.5 + 1.2) / 3
    assert found["median"] == pytest.approx(0.5)  # of 0.4, 0.5, 1.2
    assert found["IQM"] == pytest.approx(0.65)  # of six, one goes at either end: (0.5 + 0.5 + 0.6 + 1.0) / 4
    assert found["optimality gap"] == pytest.approx(11 / 30)  # (0.8 + 0.5 + 0 + 0.4 + 0.5 + 0) / 6

    profile = performance_profile(SMALL_X, [0.0, 0.2, 0.5, 1.0, 1.4])
    assert profile.share.tolist() == pytest.approx([1, 5 / 6, 3 / 6, 1 / 6, 0])  # more than, not as much as

    # First task: 0.2 beats 0.1, ties with 0.2; 0.6 beats all: 4.5 of 6. Second: each of two beats one and ties with
    # one: 3 of 6. Third: 1.0 beats 0.8, ties with 1.0; 1.4 beats all: 4.5 of 6.
    better = probability_of_improvement(SMALL_X, SMALL_Y)
    assert better.value == pytest.approx((0.75 + 0.5 + 0.75) / 3)
    assert probability_of_improvement(SMALL_Y, SMALL_X).value == pytest.approx(1 - better.value)


def test_an_interval_by_hand() -> None:
    """Two runs of one task are drawn as (0, 0), (0, 1), (1, 0) or (1, 1): the mean is 0, ½ or 1."""
    both = aggregates([[0.0], [1.0]], samples=4000)["mean"]
    assert both == pytest.approx((0.5, 0.0, 1.0))
    profile = performance_profile([[0.0], [1.0]], [0.5])
    assert [profile.share[0], profile.low[0], profile.high[0]] == [0.5, 0.0, 1.0]
    # The better of them always wins, whoever is drawn.
    assert probability_of_improvement([[2.0], [3.0]], [[0.0], [1.0]]) == (1.0, 1.0, 1.0)


def test_one_run_has_no_interval_and_missing_scores_stay_missing() -> None:
    assert all(np.isnan(interval[1:]).all() for interval in aggregates([[0.1, 0.2]]).values())
    assert np.isnan(performance_profile([[0.1, 0.2]], [0.5]).low).all()
    assert np.isnan(probability_of_improvement([[0.1]], [[0.2], [0.3]]).low)
    holes = [[0.1, np.nan], [0.3, 0.4]]
    assert all(np.isnan(interval).all() for interval in aggregates(holes).values())
    assert np.isnan(performance_profile(holes, [0.5]).share).all()
    assert np.isnan(probability_of_improvement(holes, SQUARE).value)


def test_chunks_do_not_matter_and_the_seed_does(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = _scores((6, 5))
    whole = aggregates(scores)
    assert aggregates(scores, seed=1) != whole
    monkeypatch.setattr("medley.reporting.aggregates._CHUNK", 100)
    assert aggregates(scores) == whole


def test_wrong_shapes_are_refused() -> None:
    for wrong in ([0.1, 0.2], np.zeros((0, 3)), np.zeros((3, 0))):
        with pytest.raises(ValueError, match="expected"):
            aggregates(wrong)
    with pytest.raises(ValueError, match="3 tasks cannot be compared with 2"):
        probability_of_improvement(SMALL_X, SQUARE)
