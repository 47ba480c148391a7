"""Envs that cannot be put back into the middle of an episode, as a real arm cannot: whoever counts along forgets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medley.config.load import load_config
from medley.envs.api import MultiTaskEnv
from medley.training.experiment import Experiment
from medley.training.intention_collector import IntentionCollector
from medley.training.return_scales import ReturnRange
from medley.training.run import Run
from tests.faults.harness import OPTIONS


def experiment(folder: Path, *words: str) -> Experiment:
    config = load_config([*OPTIONS, "experiment.num_train_steps=200", "env.horizon=30", *words])
    run = Run(folder)
    run.create(config)
    return Experiment(config, run)


def restored(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Experiment:
    """A run that was stopped within an episode, 10 steps after its beginning."""
    x = experiment(folder, *words)
    assert x.train(lambda: x.step == 80) == "stopped"
    assert (x.parts.env.state()["elapsed"] == 10).all()
    kind: Any = type(x.parts.env)

    def begin_again(self: MultiTaskEnv, state: dict[str, Any]) -> None:
        self._start(np.arange(self.num_envs))

    monkeypatch.setattr(kind, "_set_dynamics_state", begin_again)
    again = experiment(folder, *words)
    assert again.restore()
    assert (again.parts.env.state()["elapsed"] == 0).all()
    return again


def test_returns_and_observations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["agent.reward_normalization=return_range", "agent.normalize_obs=true"]
    x = restored(tmp_path, monkeypatch, *words)
    assert isinstance(x.parts.rewards, ReturnRange)
    assert not x.parts.rewards.stats["length"].any()
    assert np.isfinite(x.parts.rewards.stats["highest"]).all()
    assert all(bool(torch.isfinite(t).all()) for t in x.parts.agent.state_dict().values())
    assert x.parts.replay.written == 80, "nothing was taken"
    x.parts.close()
    assert experiment(tmp_path, *words).train() == "finished"


def test_intentions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ["env=point-aux", "agent=sacx", "agent.scheduler.kind=q_table", "agent.scheduler.period=5"]
    plain = ["agent.trunk=shared", "agent.reward_normalization=none", "agent.n_step=1"]
    words = [*own, *plain, "replay_buffer.batch_size=32"]
    x = restored(tmp_path, monkeypatch, *words)
    collector = x.parts.collector
    assert isinstance(collector, IntentionCollector)
    assert not collector._returns.any()
    assert not collector._succeeded.any()
    assert [len(history) for history in collector.scheduler.histories()] == [1, 1], "an episode's first choice"
    assert collector.scheduler._rewards == [[], []]
    x.parts.close()
    assert experiment(tmp_path, *words).train() == "finished"
