"""Task scheduling: who is collected, what reaches replay, how batches are weighed; a restart changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from medley.config.load import load_config
from medley.errors import ConfigError
from medley.replay import segments
from medley.replay.ring import FIELDS, Replay, Step
from medley.training.collector import Episode
from medley.training.experiment import Experiment
from medley.training.run import Run
from medley.training.scheduler import Scheduler, SchedulerConfig, check_scheduler
from tests.faults.harness import replay_rows

SUCCESS = SchedulerConfig(kind="success")


def episode(task: int, success: bool) -> Episode:
    return Episode(task, 0.0, 1, success)


def test_weak_tasks_are_preferred_by_the_formula() -> None:
    s = Scheduler(SchedulerConfig(kind="success", temperature=0.5, rate=0.25), 3, 0)
    assert s.probabilities().tolist() == pytest.approx([1 / 3] * 3)
    s.observe([episode(1, True), episode(1, True), episode(2, False), episode(2, True)])
    success = [0.0, 0.25 + 0.75 * 0.25, 0.25]
    assert s.success.tolist() == pytest.approx(success)
    powers = [np.exp((1 - x) / 0.5) for x in success]
    assert s.probabilities().tolist() == pytest.approx([p / sum(powers) for p in powers])
    assert s.shares().tolist() == pytest.approx([3 * p / sum(powers) for p in powers])


def test_a_chunk_has_as_many_transitions_as_ever_and_no_task_twice_in_a_round() -> None:
    s = Scheduler(SchedulerConfig(kind="success", tasks=2), 6, 3)
    s.success[:] = [0, 0, 0, 0, 0, 1]
    drawn = np.zeros(6)
    for _ in range(300):
        masks = list(s.rounds(random_actions=False))
        assert len(masks) == 3
        assert all(mask is not None and mask.sum() == 2 for mask in masks)
        drawn += np.sum(masks, axis=0)  # type: ignore[arg-type]
        s.observe([])
    assert drawn.sum() == 300 * 6
    assert drawn[5] < 20  # e^-10 as likely as the others
    assert (np.abs(drawn[:5] / 300 - 1.2) < 0.15).all()
    assert list(s.rounds(random_actions=True)) == [None]
    assert list(Scheduler(SchedulerConfig(), 6, 3).rounds(False)) == [None]


def test_rounds_follow_from_the_seed_and_the_number_of_the_chunk() -> None:
    def masks(seed: int, chunks: int) -> list[list[bool]]:
        s = Scheduler(SUCCESS, 10, seed)
        s.chunks = chunks
        return [mask.tolist() for mask in s.rounds(False) if mask is not None]

    assert masks(1, 5) == masks(1, 5)
    assert masks(1, 5) != masks(1, 6)
    assert masks(1, 5) != masks(2, 5)


def test_bad_options_are_refused() -> None:
    for bad, why in (
        (SchedulerConfig(kind="succes"), "Did you mean 'success'"),
        (SchedulerConfig(kind="success", tasks=4), "must divide"),
        (SchedulerConfig(temperature=0), "positive"),
        (SchedulerConfig(rate=0), "rate"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_scheduler(bad, 6)


# ---- replay with tasks of different lengths


def ragged(seed: int = 0) -> tuple[Replay, list[list[float]]]:
    """Rings of 3 tasks, capacity 6, that have seen 2, 5 and 9 steps of one slot; and the rewards each has now."""
    rng = np.random.default_rng(seed)
    replay = Replay(3, 1, 6, 2, 1, torch.device("cpu"), 0)
    seen: list[list[float]] = [[], [], []]
    for t in range(9):
        active = np.array([t < 2, t % 2 == 0, True])
        reward = rng.normal(size=(3, 1)).astype(np.float32)
        for i in np.flatnonzero(active):
            seen[i].append(float(reward[i, 0]))
        obs = rng.normal(size=(3, 1, 2)).astype(np.float32)
        no = np.zeros((3, 1), dtype=bool)
        replay.add(Step(obs, obs[..., :1], reward, obs, no, no, active))
    return replay, [rewards[-6:] for rewards in seen]


def test_tasks_keep_rings_of_their_own_length() -> None:
    replay, wanted = ragged()
    assert replay.counts.tolist() == [2, 5, 9]
    batch = replay.sample(400)
    for i in range(3):
        assert set(batch.reward[i].tolist()) == set(wanted[i])
    replay.share.copy_(torch.tensor([[0.5], [1.0], [1.5]]))
    assert replay.sample(4).weight.tolist() == [[0.5] * 4, [1.0] * 4, [1.5] * 4]


def test_tasks_of_different_lengths_are_saved_and_restored(tmp_path: Path) -> None:
    replay, _ = ragged()
    first = segments.save(replay, tmp_path, None)
    no = np.zeros((3, 1), dtype=bool)
    rows = np.ones((3, 1, 2), dtype=np.float32)
    for active in ([True, False, False], [True, True, False]):
        replay.add(Step(rows, rows[..., :1], rows[..., 0], rows, no, no, np.array(active)))
    second = json.loads(json.dumps(segments.save(replay, tmp_path, first)))
    again = Replay(3, 1, 6, 2, 1, torch.device("cpu"), 0)
    segments.load(again, tmp_path, second)
    assert again.counts.tolist() == replay.counts.tolist() == [4, 6, 9]
    assert torch.equal(again.sizes, replay.sizes)
    for name in FIELDS:
        assert torch.equal(again.rows[name], replay.rows[name]), name


# ---- a whole run

WORDS = [
    "env=point",
    "env.num_tasks=4",
    "experiment.scheduler.kind=success",
    "experiment.scheduler.tasks=2",
    "experiment.num_train_steps=240",
    "experiment.init_steps=40",
    "experiment.collect_steps=5",
    "experiment.eval_freq=0",
    "experiment.eval_at_start=false",
    "experiment.save_freq=80",
    "replay_buffer.batch_size=16",
    "replay_buffer.capacity=400",
    "agent.actor.hidden_dim=8",
    "agent.critic.hidden_dim=8",
    "agent.reward_normalization=ema_std",
    "setup.threads=1",
    "logger.console=none",
    "logger.use_tb=false",
    "logger.train_freq=60",
]


@pytest.mark.parametrize("learner", ["native", "eager"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path, learner: str) -> None:
    config = load_config([*WORDS, f"experiment.learner={learner}"])
    runs = []
    for name in ("whole", "stopped"):
        runs.append(Run(tmp_path / name))
        runs[-1].create(config)
    whole = Experiment(config, runs[0])
    assert whole.train() == "finished"
    asked = iter([False] * 18)
    assert Experiment(config, runs[1]).train(lambda: next(asked, True)) == "stopped"
    assert Experiment(config, runs[1]).train() == "finished"
    assert replay_rows(runs[0].path, 240) == replay_rows(runs[1].path, 240)
    counts = whole.parts.replay.counts
    assert counts.sum() == 240 * 4
    assert len(set(counts.tolist())) > 1
    last = json.loads((runs[0].path / "train.log").read_text().splitlines()[-1])
    assert [last[f"frames_env_index_{i}"] for i in range(4)] == counts.tolist()
    assert sum(last[f"share_env_index_{i}"] for i in range(4)) == pytest.approx(4)
