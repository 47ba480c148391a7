"""What a line of a log is about: the episodes that ended since the last one, and training alone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from medley.config.load import load_config
from medley.training.collector import Collector, Episode
from medley.training.evaluator import Evaluator
from medley.training.experiment import Experiment
from medley.training.run import Run

OPTIONS = [
    *("env=point", "env.horizon=30", "agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "setup.device=cpu"),
    *("experiment.num_train_steps=100", "experiment.init_steps=20", "experiment.eval_freq=40", "setup.threads=1"),
    *("experiment.num_eval_episodes=2", "replay_buffer.batch_size=12", "logger.use_tb=false", "logger.console=none"),
]


def _rows(path: Path, *words: str) -> dict[str, list[dict[str, Any]]]:
    run, config = Run(path), load_config([*OPTIONS, *words])
    run.create(config)
    assert Experiment(config, run).train() == "finished"
    return {k: [json.loads(line) for line in (path / f"{k}.log").read_text().splitlines()] for k in ("train", "eval")}


def test_a_line_for_every_episode_with_its_own_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[list[Episode]] = []
    collect = Collector.collect

    def watched(*arguments: Any) -> Any:
        steps, episodes = collect(*arguments)
        if episodes:
            ended.append(episodes)
        return steps, episodes

    monkeypatch.setattr(Collector, "collect", watched)
    train = _rows(tmp_path, "logger.per_episode=true")["train"]
    assert [row["step"] for row in train] == [30, 60, 90]  # shorter than the shortest that lines come otherwise
    assert len(ended) == len(train)
    for row, episodes in zip(train, ended, strict=True):
        assert row["episode_reward"] == pytest.approx(sum(e.reward for e in episodes) / len(episodes))


def test_durations_leave_evaluations_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Evaluator.run

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.7)
        return run(*arguments, **named)

    monkeypatch.setattr(Evaluator, "run", slow)
    began = time.monotonic()
    rows = _rows(tmp_path, "logger.per_episode=true")
    took = time.monotonic() - began
    evaluations = [row["duration"] for row in rows["eval"]]
    assert len(evaluations) == 4
    assert min(evaluations) >= 0.7
    training = sum(row["duration"] for row in rows["train"])
    assert training < took - sum(evaluations) + 0.2
    for row in rows["train"]:
        assert row["fps"] == pytest.approx(30 / row["duration"])


def test_what_an_evaluation_says(tmp_path: Path) -> None:
    many = _rows(tmp_path / "many")["eval"]
    assert "episode_rewards" not in many[0]
    one = _rows(tmp_path / "one", "env.num_tasks=1", "replay_buffer.batch_size=4")["eval"]
    assert [row["step"] for row in one] == [0, 40, 80, 100]
    assert [row["episode"] for row in one] == [0, 1, 2, 3]
    for row in one:
        assert row["env_step"] == row["step"]
        assert sum(row["episode_rewards"]) / 2 == pytest.approx(row["episode_reward"])
        first, second = row["episode_rewards"]
        assert row["episode_reward_std"] == pytest.approx(abs(first - second) / 2)
