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


def test_no_opengl_no_videos_but_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot draw trains, reports, and says in one line how to get videos."""
    from medley.reporting import video

    monkeypatch.setattr(video, "_works", lambda backend: False)
    words = [w for w in SMALL if "save_video" not in w]
    words = ["train", "env=metaworld-mt1", "env.task=reach", "env.horizon=20", *words, "agent.trunk=shared"]
    code, text = harness.run([*words, "experiment.num_train_steps=40", f"setup.save_dir={tmp_path / 'run'}"], tmp_path)
    assert code == 0, text
    assert [line for line in text.splitlines() if line.startswith("No videos: ")] == [
        f"No videos: {video.HOW_TO_GET_VIDEOS}"
    ]
    assert (tmp_path / "run" / "report.html").exists()
