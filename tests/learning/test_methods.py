"""Every trunk, combiner and algorithm solves `point`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.test_point import SOLVED, learn

COMBINERS = ["pcgrad", "cagrad", "nash", "gradnorm", "famo"]


@pytest.mark.parametrize("gradients", COMBINERS)
def test_combiners_solve_point(tmp_path: Path, gradients: str) -> None:
    assert learn(tmp_path, "agent.trunk=multi_head", f"agent.gradients={gradients}") >= SOLVED
