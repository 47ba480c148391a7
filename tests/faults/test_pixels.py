"""Runs from pictures, killed and resumed: pictures drawn by OpenGL, frames in replay, decoder and all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults import harness

SMALL = [
    "setup.threads=1",
    "setup.device=cpu",
    "agent.pixels.num_layers=2",
    "agent.pixels.num_filters=8",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.batch_size=4",
    "replay_buffer.capacity=100",  # wraps around
    "experiment.num_train_steps=160",
    "experiment.init_steps=20",
    "experiment.eval_freq=80",
    "experiment.save_freq=40",
    "experiment.num_eval_episodes=1",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "logger.use_tb=false",
    "logger.console=lines",
]

RUNS = {
    "sac_ae on dm_control": [
        "env=dmc-cartpole-swingup",
        "agent=sac_ae",
        "env.render_profile=fast",
        "env.image_size=20",
    ],
    "drqv2 on point": ["env=point", "env.num_tasks=2", "env.image_size=16", "agent=drqv2", "agent.std_steps=100"],
}


def run(words: list[str], until: Path | None = None, number: int = signal.SIGKILL) -> tuple[int, str]:
    """`medley` in a new process, not a forked one: what draws does not survive a fork. It gets a signal as soon as
    `until` exists."""
    child = subprocess.Popen(
        [sys.executable, "-m", "medley", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while until is not None and not until.exists() and child.poll() is None:
        time.sleep(0.01)
    if until is not None:
        child.send_signal(number)
    text, _ = child.communicate(timeout=120)
    return child.returncode, text


def assert_survives(folder: Path, words: list[str], kill_at: int, stop_at: int) -> None:
    """A run that is killed at one checkpoint, stopped at another and resumed equals the undisturbed one."""
    code, text = run([*words, f"setup.save_dir={folder / 'a'}"])
    assert code == 0, text
    broken = folder / "b"
    for number, at in ((signal.SIGKILL, kill_at), (signal.SIGTERM, stop_at)):
        code, text = run([*words, f"setup.save_dir={broken}"], broken / "checkpoints" / str(at), number)
        assert code in (-signal.SIGKILL, 130), text
    code, text = run(["resume", str(broken)])
    assert code == 0, text
    assert "Going on from step" in text
    harness.assert_same_run(folder / "a", broken, harness.replay_samples)


@pytest.mark.parametrize("name", [pytest.param("sac_ae on dm_control", marks=pytest.mark.long), "drqv2 on point"])
def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, name: str) -> None:
    assert_survives(tmp_path, ["train", *RUNS[name], *SMALL], kill_at=40, stop_at=80)
