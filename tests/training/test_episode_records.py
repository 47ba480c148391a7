"""episodes.jsonl: a line for every episode, and the same lines whatever happened to the run."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from medley.config.load import load_config
from medley.envs.point import PointEnv
from medley.reporting.episodes import NAME, AppendedRows, EpisodeRows, cut_back
from medley.robots.delays import Delays
from medley.robots.episode_delays import EpisodeDelays
from medley.training.collector import Episode
from medley.training.evaluate import evaluate
from medley.training.evaluator import Evaluator
from medley.training.experiment import Experiment
from medley.training.protocols import PROTOCOLS
from medley.training.run import Run
from tests.faults import harness

SMALL = [
    *("agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "setup.device=cpu", "setup.threads=1", "env.horizon=12"),
    *("experiment.num_train_steps=72", "experiment.init_steps=20", "experiment.eval_freq=36", "logger.console=none"),
    *(
        "experiment.num_eval_episodes=2",
        "experiment.save_video=false",
        "experiment.save_report=false",
        "experiment.save_freq=12",
    ),
    *("replay_buffer.batch_size=12", "logger.use_tb=false", "experiment.eval_at_start=false"),
]
AUX = [*SMALL, "env=point-aux", "agent=sacx", "agent.scheduler.period=5"]
POINT = [*SMALL, "env=point"]
KEYS = {"kind", "step", "model_step", "task", "schedule", "episode", "seed", "length", "return", "success", "delays"}


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def _train(folder: Path, words: list[str]) -> list[dict[str, Any]]:
    config, run = load_config(words), Run(folder)
    run.create(config)
    assert Experiment(config, run).train() == "finished"
    return _rows(folder) if (folder / NAME).exists() else []


def test_a_line_for_every_episode_with_what_each_intention_saw(tmp_path: Path) -> None:
    rows = _train(tmp_path, [*AUX, "setup.seed=7"])
    assert all(set(row) == KEYS | {"time", "checkpoint_ms"} for row in rows)
    assert {row["seed"] for row in rows} == {7}
    train = [row for row in rows if row["kind"] == "train"]
    assert [(row["episode"], row["step"], row["model_step"], row["length"]) for row in train] == [
        (i, 12 * (i + 1), 12 * (i + 1) - 1, 12) for i in range(6)
    ]
    for row in train:
        assert len(row["schedule"]) == 3  # 12 steps by fives
        assert row["task"] == (row["schedule"][0] if len(set(row["schedule"])) == 1 else None)
        assert len(row["return"]) == len(row["success"]) == 3
        assert [r > 0 for r in row["return"]] == row["success"]  # a reward is paid in the place
        assert row["checkpoint_ms"] > 0  # one is saved after every episode
        assert row["time"].endswith("+00:00")
    scores = [row for row in rows if row["kind"] == "eval"]
    made = json.loads((tmp_path / "results.json").read_text())["evaluations"]
    assert [m["step"] for m in made] == [36, 72]
    expected = [(m["step"], e["task"], e["episode"], e["returns"], e["successes"]) for m in made for e in m["episodes"]]
    assert [(r["step"], r["task"], r["episode"], r["return"], r["success"]) for r in scores] == expected
    assert all(row["schedule"] is None and row["model_step"] == row["step"] for row in scores)
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)


def test_ordinary_runs_have_them_if_asked(tmp_path: Path) -> None:
    assert _train(tmp_path / "plain", POINT) == []
    assert not (tmp_path / "plain" / NAME).exists()
    rows = _train(tmp_path / "asked", [*POINT, "logger.episodes=true", "env.slots_per_task=2"])
    train = [row for row in rows if row["kind"] == "train"]
    assert [row["task"] for row in train[:6]] == ["east", "east", "north", "north", "west", "west"]
    assert [row["episode"] for row in train] == list(range(18))
    assert all(len(row["return"]) == len(row["success"]) == 1 and row["schedule"] is None for row in rows)
    assert _train(tmp_path / "not", [*AUX, "logger.episodes=false"]) == []
    assert _train(
        tmp_path / "late", [*SMALL, "env=point", "env.num_tasks=1", "experiment.update_when=between_episodes"]
    )
    late = [row for row in _rows(tmp_path / "late") if row["kind"] == "train"]
    assert [row["model_step"] for row in late] == [row["step"] - row["length"] for row in late]


def test_success_counts_at_any_step_whatever_the_protocol() -> None:
    """Who passes through the goal has had success, though the protocol wants it at the last step."""
    env = PointEnv(1, 1, 40, 1)
    goal = torch.from_numpy(env._goals).float()
    taken = iter(range(40))

    def through(obs: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        way = torch.clamp(10 * (goal - obs[0, :, :2]), -1, 1) if next(taken) < 20 else -goal.sign()
        return way[None]

    (score,) = Evaluator(env, PROTOCOLS["tdmpc2"]).run(1, through)
    assert not score.success
    rows = EpisodeRows(load_config([*POINT, "logger.episodes=true"]), env)
    assert rows.of_score(score, 3, None)["success"] == [True]


# ---- killed, stopped, resumed


def _words(folder: Path, *more: str) -> list[str]:
    quiet = [word for word in AUX if not word.startswith("logger.console")]
    return ["train", *quiet, "logger.console=lines", f"setup.save_dir={folder}", *more]


def _killed_after_the_checkpoint() -> Any:
    """Between a checkpoint and the lines of the episodes before it."""
    from medley.reporting.logger import Logger

    original = Logger.write_episode

    def write(self: Logger, row: dict[str, Any]) -> None:
        if row["step"] == 36:
            os.kill(os.getpid(), signal.SIGKILL)
        original(self, row)

    Logger.write_episode = write  # type: ignore[method-assign]


def _torn_after(step: int) -> Any:
    """Half a line of an episode that the next checkpoint would have known."""

    def prepare() -> None:
        from medley.reporting.logger import Logger

        original = Logger.write_episode

        def write(self: Logger, row: dict[str, Any]) -> None:
            if row["step"] > step:
                self.files.files["episodes"].write(json.dumps(row)[:40])
                self.files.files["episodes"].flush()
                os.kill(os.getpid(), signal.SIGKILL)
            original(self, row)

        Logger.write_episode = write  # type: ignore[method-assign]

    return prepare


BACKGROUND = ["experiment.overlap=true", "experiment.eval_in_background=true"]


@pytest.mark.parametrize(
    ("more", "save_freq"),
    [
        ([], 12),
        pytest.param([], 20, marks=pytest.mark.long),
        pytest.param(BACKGROUND, 12, marks=pytest.mark.long),
        pytest.param(BACKGROUND, 20, marks=pytest.mark.long),
    ],
)
def test_killed_and_resumed_has_the_same_lines(tmp_path: Path, more: list[str], save_freq: int) -> None:
    more = [*more, f"experiment.save_freq={save_freq}"]
    code, text = harness.run(_words(tmp_path / "a", *more), tmp_path)
    assert code == 0, text
    for prepare in (_killed_after_the_checkpoint, _torn_after(40), harness.stop_at(60)):
        code, text = harness.run(_words(tmp_path / "b", *more), tmp_path, prepare)
        assert code in (-signal.SIGKILL, 130), text
    code, text = harness.run(["resume", str(tmp_path / "b")], tmp_path)
    assert code == 0, text
    rows = harness.log_rows(tmp_path / "a" / NAME)
    assert len(rows) == 6 + 2 * 3 * 2
    assert harness.log_rows(tmp_path / "b" / NAME) == rows
    harness.assert_same_run(tmp_path / "a", tmp_path / "b", harness.replay_samples)


def test_lines_of_an_evaluation_beside_training_come_when_the_next_begins(tmp_path: Path) -> None:
    rows = _train(tmp_path, [*AUX, *BACKGROUND, "experiment.eval_freq=24"])
    places = [(row["kind"], row["step"]) for row in rows]
    after, final = places.index(("train", 48)) + 1, len(rows) - 6
    assert places[after : after + 6] == [("eval", 24)] * 6
    assert places[:after] == [("train", step) for step in (12, 24, 36, 48)]
    assert places[final - 6 :] == [("eval", 48)] * 6 + [("eval", 72)] * 6
    assert [row["model_step"] for row in rows if row["kind"] == "train"] == [10, 22, 34, 46, 58, 70]  # a chunk behind


class Killed(Exception):
    pass


def test_going_on_keeps_what_evaluate_wrote(tmp_path: Path) -> None:
    config, run = load_config([*AUX, "experiment.save.model.retain_last_n=-1"]), Run(tmp_path)
    noisy = ["experiment.eval_explore=stochastic"]
    run.create(config)
    x = Experiment(config, run)
    assert x.train(lambda: x.step >= 36) == "stopped"
    before = harness.log_rows(tmp_path / NAME)
    out, _ = evaluate(tmp_path, noisy, say=lambda text: None)
    made = [row for row in harness.log_rows(tmp_path / NAME) if row.get("file") == out.name]
    assert len(made) == 6
    y = Experiment(config, run)

    def die() -> bool:
        if y.step >= 40:  # before there is a checkpoint that knows of these lines
            raise Killed
        return False

    with pytest.raises(Killed):
        y.train(die)
    assert Experiment(config, run).train() == "finished"
    rows = harness.log_rows(tmp_path / NAME)
    assert len(rows) == 6 + 2 * 6 + 6
    assert all(row in rows for row in before + made)
    out.unlink()  # so that they are run again
    evaluate(tmp_path, noisy, 36, say=lambda text: None)
    assert out.exists()
    assert len(_rows(tmp_path)) == len(rows)  # the same lines are not written twice


# ---- pieces


def test_cutting_back(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3, "file": "x"}\n{"a": 4}\n{"a": 5, "fi')
    cut_back(path, 9)
    assert path.read_text() == '{"a": 1}\n{"a": 3, "file": "x"}\n'
    cut_back(path, 9)
    assert path.read_text() == '{"a": 1}\n{"a": 3, "file": "x"}\n'
    cut_back(path, 100)
    assert path.read_text() == '{"a": 1}\n{"a": 3, "file": "x"}\n'
    path.write_text('{"a": 1}\n{"a": 2}\n')
    cut_back(path, 9)
    assert path.read_text() == '{"a": 1}\n'


def test_lines_of_evaluate_end_a_torn_one(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"a": 1}\n{"b": ')
    AppendedRows(tmp_path, "x").add({"c": 3, "time": "now"})
    AppendedRows(tmp_path, "x").add({"c": 3, "time": "later"})
    AppendedRows(tmp_path, "y").add({"c": 3, "time": "later"})
    assert [(row.get("c"), row.get("file")) for row in _rows(tmp_path)] == [(None, None), (3, "x"), (3, "y")]


def test_delays_are_those_of_the_episode(tmp_path: Path) -> None:
    class Timed:
        delays = Delays()

    env = Timed()
    own = EpisodeDelays(env)  # type: ignore[arg-type]
    means = []
    for episode in range(3):
        for step in range(4):
            env.delays.host.append(episode + 1.0)
            env.delays.slept.append(0.0)
            env.delays.overruns += episode
            own.look()
            if step == 2 * (episode % 2):
                env.delays.take()  # a training line, in the middle of an episode
        summary = own.end()
        assert summary is not None
        means.append((summary["delay_p50_ms"], summary["delay_p99_ms"], summary["overruns"]))
    assert means == [(1000, 1000, 0), (2000, 2000, 4), (3000, 3000, 8)]
    assert EpisodeDelays(PointEnv(1)).end() is None


@pytest.mark.skipif(importlib.util.find_spec("gym_hil") is None, reason="needs gym-hil")
def test_lines_of_an_arm_have_delays(tmp_path: Path) -> None:
    words = [word for word in SMALL if not word.startswith(("env", "experiment.eval_freq", "experiment.num_train"))]
    arm = ["env=panda-reach", "env.arm=wall_clock", "env.rate=5", "env.horizon=8", "experiment.num_train_steps=24"]
    rows = _train(tmp_path, [*words, *arm, "experiment.update_when=between_episodes", "experiment.eval_freq=0"])
    train = [row for row in rows if row["kind"] == "train"]
    assert [row["length"] for row in train] == [8, 8, 8]
    assert all(row["delays"]["delay_p50_ms"] > 0 and "overruns" in row["delays"] for row in train)
    assert all(row["delays"] is None for row in rows if row["kind"] == "eval")


def test_old_checkpoints_know_nothing_of_lines() -> None:
    assert Episode(0, 1.0, 5, True).delays is None
    rows = EpisodeRows(load_config(AUX), PointEnv(1))
    rows.set_state({})
    rows.flush(lambda row: pytest.fail("there was nothing to write"))
