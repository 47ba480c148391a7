"""Between chunks: fresh starts, learning rates, held noise; and runs that use all of it go on bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medley.config.load import load_config
from medley.errors import ConfigError
from medley.training.experiment import Experiment
from medley.training.held_noise import HeldNoise
from medley.training.run import Run
from tests.faults import harness

SMALL = [
    "env=point",
    "agent.actor.hidden_dim=8",
    "agent.critic.hidden_dim=8",
    "replay_buffer.batch_size=12",
    "experiment.num_train_steps=500",
    "experiment.init_steps=60",
    "experiment.eval_freq=0",
    "experiment.eval_at_start=false",
    "experiment.num_eval_episodes=1",
    "setup.threads=1",
    "logger.console=none",
    "logger.use_tb=false",
    "experiment.save_video=false",
    "experiment.save_report=false",
]


def experiment(folder: Path, *words: str) -> Experiment:
    config = load_config([*SMALL, *words])
    run = Run(folder)
    run.create(config)
    return Experiment(config, run)


def test_networks_start_afresh_when_due_and_replay_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = experiment(tmp_path, "agent.reward_normalization=ars", "experiment.learner=eager")
    assert x.config.agent.reset_every == 100
    resets: list[tuple[int, int]] = []
    reset, after = x.parts.agent.reset, x.upkeep.after
    factors: dict[int, float] = {}
    monkeypatch.setattr(x.parts.agent, "reset", lambda seed: (resets.append((x.step, seed)), reset(seed)))

    def watch(chunk: object, before: int, step: int, updates: int) -> None:
        after(chunk, before, step, updates)  # type: ignore[arg-type]
        factors[step] = float(x.parts.rewards.factor[0, 0])

    monkeypatch.setattr(x.upkeep, "after", watch)
    assert x.train() == "finished"
    assert [step for step, _ in resets] == [100, 200, 300]  # none in the last fifth
    assert len({seed for _, seed in resets}) == 3
    moves = [s for s in factors if s > 1 and factors[s] != factors[s - 1]]
    assert moves == [60, 100, 200, 300]  # after the warm-up, then with every fresh start
    assert x.parts.replay.written == 500
    steps = x.parts.agent.state_dict()["optimizer.critic.0.step"]
    assert float(steps) == 201  # from the chunk that ended at 300 to the last


@pytest.mark.parametrize(("words", "every"), [([], 0), (["agent.reset_every=70"], 70)])
def test_without_ars_nothing_starts_afresh_unless_asked(words: list[str], every: int) -> None:
    assert load_config([*SMALL, *words]).agent.reset_every == every
    with pytest.raises(ConfigError, match="reset_every"):
        load_config([*SMALL, "agent.reset_every=-1"])


def test_learning_rates_go_down_in_a_line(tmp_path: Path) -> None:
    words = ["agent.optimizers.critic.lr=1e-2", "agent.optimizers.critic.lr_end=2e-3", "experiment.learner=eager"]
    x = experiment(tmp_path, *words)
    place = x.parts.agent.optimizers["critic"].lr  # type: ignore[attr-defined]
    x.upkeep.resume(125)
    assert float(place) == pytest.approx(8e-3)
    x.upkeep.resume(500)
    assert float(place) == pytest.approx(2e-3)
    x.upkeep.resume(600)
    assert float(place) == pytest.approx(2e-3)
    assert float(x.parts.agent.optimizers["actor"].lr) == pytest.approx(1e-3)  # type: ignore[attr-defined]


def test_noise_is_held_for_as_long_as_drawn() -> None:
    held, g = HeldNoise((2, 3, 1), 16), torch.Generator().manual_seed(0)
    drawn = torch.randn(4000, 2, 3, 1, generator=torch.Generator().manual_seed(1))
    out = torch.cat([held.hold(part, g) for part in drawn.split(500)])  # chunks do not matter
    lengths: list[int] = []
    for task in range(2):
        for slot in range(3):
            row, count = out[:, task, slot, 0], 1
            for i in range(1, len(row)):
                if row[i] == row[i - 1]:
                    count += 1
                else:
                    lengths.append(count)
                    count = 1
                    assert row[i] == drawn[i, task, slot, 0]
    assert max(lengths) <= 16
    chances = torch.tensor([1 / n**2 for n in range(1, 17)])
    chances /= chances.sum()
    for n in (1, 2, 3):
        assert sum(length == n for length in lengths) / len(lengths) == pytest.approx(float(chances[n - 1]), abs=0.02)


METHODS = {
    "brc": ["agent=brc", "agent.normalize_obs=true", "agent.noise_hold=8", "agent.optimizers.actor.lr_end=1e-4"],
    "flashsac": ["agent=flashsac", "agent.optimizers.critic.lr_end=1e-4", "experiment.overlap=true"],
    "ars": ["agent.reward_normalization=ars", "agent.normalize_obs=true", "agent.reset_every=90"],
}


@pytest.mark.parametrize("name", ["brc", "ars", pytest.param("flashsac", marks=pytest.mark.long)])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    own = [w for w in harness.OPTIONS if not w.startswith(("agent.trunk", "agent.alpha", "agent.reward"))]
    tail = ["setup.device=cpu", "experiment.num_train_steps=200", *METHODS[name], "agent.actor.num_layers=1"]

    def words(folder: Path) -> list[str]:
        return ["train", *own, *tail, f"setup.save_dir={folder}"]

    code, text = harness.run(words(tmp_path / "whole"), tmp_path)
    assert code == 0, text
    child = harness.Child(words(tmp_path / "killed"), tmp_path / "out")
    child.wait_for(tmp_path / "killed" / "checkpoints" / "120")
    assert child.kill_after(0.0)
    code, text = harness.run(words(tmp_path / "killed"), tmp_path)
    assert code == 0, text
    assert "Going on from step" in text
    harness.assert_same_run(tmp_path / "whole", tmp_path / "killed")
