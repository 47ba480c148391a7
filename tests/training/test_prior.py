"""Demonstrations with their rewards as a part of every batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medley.cli import main
from medley.config.load import load_config
from medley.data.examples import Recorded
from medley.errors import ConfigError
from medley.replay.intentions import IntentionReplay
from medley.training.build import build
from tests.training.test_traced_intentions import SMALL


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demos")
    assert main(["demos", "env=point-aux", "examples=5", "demos=6", f"out={folder / 'point.npz'}"]) == 0
    return folder / "point-demos.npz"


def parts(folder: Path, *words: str) -> Any:
    return build(load_config([*SMALL, *words, f"setup.save_dir={folder}"]))


@pytest.mark.parametrize("agent", ["sacx", "vpace", "rce", "sparse"])
def test_half_of_what_is_not_experts_comes_from_there(demos: Path, tmp_path: Path, agent: str) -> None:
    p = parts(tmp_path / "run", f"agent={agent}", f"agent.prior.path={demos}")
    recorded = Recorded.load(demos)
    assert isinstance(p.replay, IntentionReplay)
    for step in p.collector.collect(p.acting, 60, "random", 0)[0]:
        p.replay.add(step)
    batch = p.replay.sample(24)
    known = torch.from_numpy(recorded.observations)
    from_there = (batch.obs[0][:, None] == known[None]).all(-1).any(-1)
    rows = batch.obs.shape[1]
    assert from_there[-(rows // 2) :].all()
    assert from_there[: -(rows // 2)].float().mean() < 0.3  # a start may be the same
    # a row that was recorded comes with what came of it, for every intention
    row = rows - 1
    where = int((known == batch.obs[0, row]).all(-1).nonzero()[0])
    wanted = np.where(recorded.success[where], 1.0, -1.0) if agent == "sparse" else recorded.rewards[where]
    np.testing.assert_allclose(batch.reward[:, row], wanted, rtol=1e-6)
    if agent == "sparse":
        assert set(batch.reward.flatten().tolist()) == {1.0, -1.0}
    p.learner.learn(2)


def test_what_cannot_be_used_is_refused(demos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds examples"):
        parts(tmp_path / "a", "agent=sacx", f"agent.prior.path={demos.with_name('point.npz')}")
    with pytest.raises(ConfigError, match="must lie between"):
        parts(tmp_path / "b", "agent=sacx", f"agent.prior.path={demos}", "agent.prior.share=1.5")


def test_a_file_that_does_not_fit_leaves_no_run_behind(demos: Path, tmp_path: Path, capsys: Any) -> None:
    words = [
        "train",
        "env=metaworld-aux",
        "agent=vpace",
        f"agent.expert.path={demos}",
        f"setup.save_dir={tmp_path / 'r'}",
    ]
    assert main(words) == 2
    assert "point-aux" in capsys.readouterr().err
    assert main([*words[:3], f"agent.expert.path={tmp_path / 'none.npz'}", words[4]]) == 2
    assert not (tmp_path / "r").exists()
