"""A robot's run saves after every episode: whenever it is killed, at most the episode in progress is lost."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from medley.training.checkpoints import Checkpoints
from tests.faults.harness import Child, assert_same_run, replay_samples, run

EPISODE = 50
OPTIONS = [
    *("env=panda-reach-multitask", "agent=vpace", "experiment.update_when=between_episodes", "experiment.save_freq=1"),
    *("agent.actor.hidden_dim=16", "agent.critic.hidden_dim=16", "replay_buffer.batch_size=32"),
    *("replay_buffer.capacity=20000", "experiment.init_steps=100", "experiment.eval_freq=0"),
    *(
        "experiment.num_eval_episodes=1",
        "experiment.eval_at_start=false",
        "experiment.save_video=false",
        "experiment.save_report=false",
    ),
    *("setup.threads=1", "setup.device=cpu", "logger.use_tb=false", "logger.console=lines", "logger.per_episode=true"),
]


def last_saved(folder: Path) -> int:
    path = Checkpoints(folder, keep=2).latest(lambda damage: None)
    return int(path.name) if path is not None else 0


def last_logged(folder: Path) -> int:
    """The newest episode that the run has told of; its line may be cut off."""
    log = folder / "train.log"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return max((int(json.loads(line)["step"]) for line in lines), default=0)


@pytest.mark.parametrize(("kills", "steps"), [(3, 400), pytest.param(50, 10_000, marks=pytest.mark.long)])
def test_kills_lose_at_most_the_episode_in_progress(tmp_path: Path, kills: int, steps: int) -> None:
    folder, chance = tmp_path / "run", random.Random(kills)
    words = ["train", *OPTIONS, f"experiment.num_train_steps={steps}"]
    before = lost = done = 0
    while done < kills and before < steps - 2 * EPISODE:
        begun = (folder / "checkpoints").exists()
        child = Child(["resume", str(folder)] if begun else [*words, f"setup.save_dir={folder}"], tmp_path / "out")
        child.wait_for(folder / "checkpoints" / "0" if not begun else folder / "run.json")
        assert child.kill_after(chance.uniform(0.2, 1.6)), child.text()
        saved, told = last_saved(folder), last_logged(folder)
        assert saved >= before, "an episode that was saved is gone"
        assert saved % EPISODE == 0
        assert told - saved <= EPISODE, "more than the episode in progress is gone"
        before, lost, done = saved, lost + (told > saved), done + 1
    assert done >= kills // 2
    code, text = run(["resume", str(folder)], tmp_path)
    assert code == 0, text
    code, text = run([*words, f"setup.save_dir={tmp_path / 'undisturbed'}"], tmp_path)
    assert code == 0, text
    assert_same_run(folder, tmp_path / "undisturbed", replay_samples)
