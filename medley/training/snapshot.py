"""A run's whole state at an instant between two chunks, taken out and put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from medley.training.checkpoints import Snapshot
from medley.training.collector import Episode
from medley.training.evaluations import GivenUp

if TYPE_CHECKING:
    from medley.training.experiment import Experiment


def take(x: Experiment) -> Snapshot:
    """All but replay, which is saved by itself."""
    p = x.parts
    sums, counts = p.learner.state()
    counters = {
        **x.counters(),
        "last_eval": x.evaluations.last,
        "last_log": x.last_log,
        "episodes_ended": x.episodes_ended,
        "finished": [list(episode) for episode in x.finished],
        "owed": x.owed,
        "missed": x.missed,
        "faults": x.faults(),
        "minutes": x.minutes_so_far(),
        "metric_counts": counts,
        "scheduler": x.scheduler.state(),
        "episode_rows": x.rows.state(),
        "log_lengths": x.logger.files.lengths(),
    }
    evaluation = {}
    if (late := x.evaluations.given_up) is not None:
        counters["evaluating"], evaluation = {"counters": late.counters, "before": late.before}, late.policies
    return Snapshot(p.agent.state_dict(), sums, p.collector.state(), p.rewards.state(), counters, evaluation)


def put_back(x: Experiment, saved: Snapshot) -> None:
    p, c = x.parts, saved.counters
    p.agent.load_state_dict(saved.agent)
    p.learner.set_state(saved.learner, c["metric_counts"])
    p.learner.updates = c["updates"]
    p.collector.set_state(saved.collector)
    p.rewards.set_state(saved.rewards)
    if (step := p.collector.broken_off) is not None:
        p.rewards.observe(step.reward, step.terminated, step.ended, step.active)
        p.agent.observe([step], p.learner.updates)
    x.step, x.last_log = c["step"], c["last_log"]
    x.episodes_ended, x.minutes = c["episodes_ended"], c["minutes"]
    x.finished = [Episode(*episode) for episode in c["finished"]]
    x.earlier_faults = c.get("faults", {})
    x.owed, x.missed = c.get("owed", 0), c.get("missed", 0)
    x.scheduler.set_state(c["scheduler"])
    p.replay.share.copy_(torch.from_numpy(x.scheduler.shares()).unsqueeze(1))
    x.rows.set_state(c.get("episode_rows", {}))
    x.upkeep.resume(x.step)
    x.log_lengths = c["log_lengths"]
    late = c.get("evaluating")
    x.evaluations.restore(c["last_eval"], late and GivenUp(late["counters"], late["before"], saved.evaluation))
