"""The commands that learn from pictures, in short."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from medley.bench import pixels
from medley.bench.pixels_peer import Peer
from medley.cli import main

SMALL = [
    "env.image_size=20",
    "env.render_profile=fast",
    "env.action_repeat=20",
    "env.workers=0",
    "agent.pixels.num_layers=2",
    "agent.pixels.num_filters=8",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.capacity=300",
    "experiment.num_train_steps=30",
    "experiment.init_steps=10",
    "experiment.num_eval_episodes=1",
    "experiment.eval_freq=0",
    "setup.threads=1",
    "setup.device=cpu",
    "logger.console=lines",
    "logger.use_tb=false",
]


def train(folder: Path, *words: str) -> list[dict[str, float]]:
    assert main(["train", *words, *SMALL, f"setup.save_dir={folder}"]) == 0
    return [json.loads(line) for line in (folder / "eval.log").read_text().splitlines()]


def test_sac_ae_on_cheetah_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = train(tmp_path, "env=dmc-cheetah-run", "agent=sac_ae", "replay_buffer.batch_size=4")
    assert [row["step"] for row in rows] == [0, 30]
    assert rows[-1]["env_step"] == 600
    assert rows[-1]["updates"] == 31  # ten at once, when learning begins, and one per step
    assert (tmp_path / "video" / "30.mp4").stat().st_size > 1000
    assert "| eval | S: 30 | ER: " in capsys.readouterr().out


def test_hipbmdp_is_scored_on_members_that_it_never_saw(tmp_path: Path) -> None:
    words = ["setup=hipbmdp", "env=hipbmdp-finger-size", "agent=hipbmdp", "replay_buffer.batch_size=8"]
    last = train(tmp_path, *words, "experiment.save_video=false", "experiment.save_report=false")[-1]
    for name, members in (("base", 4), ("interpolation", 2), ("extrapolation", 2)):
        own = [last[f"eval_{name}_env_index_{i}"] for i in range(members)]
        assert last[f"eval_{name}"] == pytest.approx(sum(own) / members)
        assert f"eval_{name}_env_index_{members}" not in last
    sets = json.loads((tmp_path / "results.json").read_text())["evaluations"][-1]["sets"]
    assert list(sets["extrapolation"]) == ["finger-size-2", "finger-size-9"]


def test_drqv2_on_several_tasks(tmp_path: Path) -> None:
    tasks = "env.tasks=[walker-walk,walker-run,cheetah-run]"
    rows = train(
        tmp_path,
        "env=dmc-multi",
        tasks,
        "agent=drqv2",
        "replay_buffer.batch_size=6",
        "experiment.save_video=false",
        "experiment.save_report=false",
    )
    assert rows[-1]["updates"] == 11  # one every second step, from the tenth on
    assert "episode_reward_env_index_2" in rows[-1]


def test_the_benchmark_of_pixels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "FILLED", 6)
    small = ["env.render_profile=fast", "replay_buffer.batch_size=2", "setup.device=cpu", "setup.threads=1"]
    figures = pixels.bench(0.1, True, small)
    for name in ("updates_per_second", "frames_per_second"):
        assert figures[name]["medley"] > 0
        assert figures[name]["plain"] > 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == figures


def test_the_plain_side_learns() -> None:
    """It learns to reconstruct, and actor and critic see by the same convolutions."""
    torch.manual_seed(0)
    peer = Peer((9, 84, 84), 2, 8, 4, torch.device("cpu"))
    rng = np.random.default_rng(0)
    for _ in range(8):
        picture = rng.integers(0, 256, (9, 84, 84), dtype=np.uint8)
        peer.add(picture, np.zeros(2, np.float32), 0.5, picture, False)
    before = [p.clone() for p in peer.actor.encoder.convs.parameters()]
    losses = []
    for step in range(6):
        peer.update(step)
        losses.append(peer.logged["ae_loss"])
    assert losses[-1] < losses[0]
    assert any(not torch.equal(a, b) for a, b in zip(before, peer.critic.encoder.convs.parameters(), strict=True))
    assert set(peer.logged) == {"critic_loss", "actor_loss", "alpha_loss", "ae_loss"}
