"""medley from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import medley
from medley.errors import ConfigError
from tests.faults import harness


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> medley.Result:
    folder = tmp_path_factory.mktemp("api") / "run"
    words = [w for w in harness.OPTIONS if "num_train_steps" not in w]
    return medley.train(*words, setup__save_dir=folder, experiment__num_train_steps=120)


def test_train_returns_a_result(result: medley.Result) -> None:
    assert result.status == "finished"
    assert 0 <= result.success <= 1
    assert list(result.per_task) == ["east", "north", "west"]
    assert result.curve[-1][0] == 120
    assert "success" in repr(result)
    assert "<table>" in result._repr_html_()
    assert not (result.path / "report.html").exists(), "experiment.save_report=false is among the options"


def test_load_and_act(result: medley.Result) -> None:
    policy = medley.load(result.path)
    one = policy.act(np.zeros(4), task="north")
    assert one.shape == (2,)
    assert np.array_equal(policy.act(np.zeros((5, 4)), task=1)[0].round(5), one.round(5))
    assert policy.act(np.zeros((3, 7, 4))).shape == (3, 7, 2)
    assert not np.array_equal(policy.act(np.zeros(4), task=0, explore=True), policy.act(np.zeros(4), task=0))
    with pytest.raises(ConfigError, match="3 tasks"):
        policy.act(np.zeros(4))
    with pytest.raises(ConfigError, match="'north'"):
        policy.act(np.zeros(4), task="nort")
    with pytest.raises(ValueError, match="trained on 4"):
        policy.act(np.zeros(5), task=0)


def test_policy_acts_as_in_evaluation(result: medley.Result) -> None:
    policy = medley.load(result.path)
    env = policy.make_env(slots_per_task=2)
    obs, _ = env.reset()
    actions = policy.act(obs.reshape(3, 2, -1)).reshape(6, -1)
    obs, reward, *_ = env.step(actions)
    assert np.isfinite(reward).all()


def test_environments_without_agents() -> None:
    import gymnasium

    envs = gymnasium.make_vec("medley/Point", num_envs=6)
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (6, 4)


def test_results_of_a_folder(result: medley.Result, tmp_path: Path) -> None:
    assert medley.results(result.path).curve == result.curve
