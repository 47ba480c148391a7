from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import harness


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    code, text = harness.run(harness.train_words(folder / "run"), folder)
    assert code == 0, text
    return folder / "run"
