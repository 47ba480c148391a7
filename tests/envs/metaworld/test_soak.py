"""A part of the soak in every run, a longer one in `make test-all`; ten million steps are in results/sim."""

from __future__ import annotations

import pytest

from tests.envs.metaworld.soak import soak


@pytest.mark.parametrize("steps", [6_000, pytest.param(1_500_000, marks=pytest.mark.long)])
def test_soak(steps: int) -> None:
    result = soak(steps)
    assert result["steps"] >= steps
    assert result["refused"] >= 1
    # After the first tenths every page that will be touched has been touched, goals' states aside.
    assert result["memory"][-1] < result["memory"][2] * 1.1 + 50
