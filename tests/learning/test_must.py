"""MUST solves `point`, refreshes and all: nothing but its masks tells the tasks apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from medley.agents.must import MUST
from tests.learning.test_point import SOLVED, learn

SMALL = ["agent=must", "agent.must.hidden=64", "agent.must.latent=32"]


def test_must_solves_point(tmp_path: Path) -> None:
    words = ["agent.must.pruning_ratio=0.5", "agent.must.update_interval=20", "agent.must.update_end=60"]
    assert learn(tmp_path, *SMALL, *words, steps=4000) >= SOLVED


@pytest.mark.long
def test_must_without_masks_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MUST, "_put", lambda self, masks: None)  # all weights for every task
    assert learn(tmp_path, *SMALL, "agent.must.update_end=0", steps=4000) < SOLVED
