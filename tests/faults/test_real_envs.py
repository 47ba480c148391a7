"""Exact restart with real simulators: Meta-World's physics, and a Gymnasium env that replays its actions."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults import harness

SMALL = [
    "setup.threads=1",
    "setup.device=cpu",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "agent.trunk=multi_head",
    "replay_buffer.capacity=600",
    "experiment.num_train_steps=120",
    "experiment.init_steps=20",
    "experiment.eval_freq=50",
    "experiment.save_freq=30",
    "experiment.num_eval_episodes=2",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "logger.use_tb=false",
    "logger.console=lines",
]

ENVS = {
    "metaworld": ["env=metaworld", "env.tasks=[drawer-close,pick-place,box-close]", "env.horizon=35"],
    "gym": ["env=gym", "env.ids=[Pendulum-v1,MountainCarContinuous-v0]", "env.horizon=45"],
}


@pytest.mark.parametrize("name", ENVS)
def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, name: str) -> None:
    words = ["train", *ENVS[name], *SMALL]
    code, text = harness.run([*words, f"setup.save_dir={tmp_path / 'a'}"], tmp_path)
    assert code == 0, text
    for number, at in ((signal.SIGKILL, 60), (signal.SIGTERM, 90)):
        code, text = harness.run([*words, f"setup.save_dir={tmp_path / 'b'}"], tmp_path, harness.stop_at(at, number))
        assert code in (-signal.SIGKILL, 130), text
    code, text = harness.run(["resume", str(tmp_path / "b")], tmp_path)
    assert code == 0, text
    assert "Going on from step 90" in text
    harness.assert_same_run(tmp_path / "a", tmp_path / "b")


def test_a_run_goes_on_with_another_number_of_workers(tmp_path: Path) -> None:
    words = ["train", *ENVS["gym"], *SMALL, "experiment.overlap=true"]
    code, text = harness.run([*words, f"setup.save_dir={tmp_path / 'a'}"], tmp_path)
    assert code == 0, text
    words += ["env.workers=2", f"setup.save_dir={tmp_path / 'b'}"]
    code, text = harness.run(words, tmp_path, harness.stop_at(60, signal.SIGKILL))
    assert code == -signal.SIGKILL, text
    code, text = harness.run(["resume", str(tmp_path / "b"), "env.workers=1"], tmp_path)
    assert code == 0, text
    assert "Going on from step 60" in text
    harness.assert_same_run(tmp_path / "a", tmp_path / "b")


def test_restarts_of_workers_are_in_the_log(tmp_path: Path) -> None:
    odd = f"{{id: 'tests.envs.odd_envs:Odd-v0', does: die, marker: '{tmp_path / 'done'}'}}"
    words = ["train", "env=gym", f"env.ids=[{odd}]", "env.workers=1", *SMALL, "experiment.num_train_steps=40"]
    words += ["logger.train_freq=20", "experiment.eval_at_start=false", f"setup.save_dir={tmp_path / 'run'}"]
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    rows = harness.log_rows(tmp_path / "run" / "train.log")
    assert [row.get("restarts") for row in rows] == [1, 1]
    assert "lost_episodes" not in rows[-1]


def test_no_opengl_no_videos_but_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot draw trains, reports, and says in one line how to get videos."""
    from medley.envs import gl

    monkeypatch.setattr(gl, "_probe", lambda backend: None)
    words = [w for w in SMALL if not w.startswith(("experiment.save_video", "experiment.save_report"))]
    words = ["train", "env=metaworld-mt1", "env.task=reach", "env.horizon=20", *words, "agent.trunk=shared"]
    code, text = harness.run([*words, "experiment.num_train_steps=40", f"setup.save_dir={tmp_path / 'run'}"], tmp_path)
    assert code == 0, text
    assert [line for line in text.splitlines() if line.startswith("No videos: ")] == [
        f"No videos: {gl.HOW_TO_GET_VIDEOS}"
    ]
    assert (tmp_path / "run" / "report.html").exists()
