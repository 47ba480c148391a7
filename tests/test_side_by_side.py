"""Tests that run side by side: a file stays in one process, where what it prepares is prepared once."""

from __future__ import annotations

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process has them all")
def test_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    assert request.node.nodeid.endswith("@tests/test_side_by_side.py")
