"""`medley bench report`, with few runs: that it measures at all, and finds what it should."""

from __future__ import annotations

import json

import pytest

from medley.bench import report
from medley.bench.browser import find_browser

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")


def test_a_small_page(capsys: pytest.CaptureFixture[str]) -> None:
    result = report.bench(as_json=True, methods=2, seeds=2, opened=1)
    assert result["runs"] == 4
    assert result["curves"] == 2
    assert 0 < result["drawn_ms"] < result["painted_ms"]
    assert result["idle_poll_ms"] < result["first_poll_ms"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result
