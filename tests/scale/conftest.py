"""A Ray cluster on this machine, for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")  # its many processes are not to be there when other tests start clusters of their own
def ray_cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    here = str(Path(__file__).parents[2])
    ray.init(
        address="local",  # never somebody else's that happens to run here
        num_cpus=4,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": here}},
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def ray(ray_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    return ray_cluster
