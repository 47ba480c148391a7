"""Asked to stop within many updates: it does not wait for them, and what is owed is done later, to the same end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import harness

BURST = ["agent.burst=true", "experiment.num_train_steps=160", "logger.train_freq=60", "experiment.eval_freq=60"]


def _stop_within(updates: int) -> Callable[[], None]:
    def prepare() -> None:
        from medley.training import loop

        learn = loop.learn_together

        def watched(learners: Any, count: int) -> None:
            before = learners[0].updates
            learn(learners, count)
            if before < updates <= learners[0].updates:
                os.kill(os.getpid(), signal.SIGTERM)

        loop.learn_together = watched  # type: ignore[assignment]

    return prepare


# In the burst, whose step is also one of a line and of an evaluation; and in the last chunk of a run.
@pytest.mark.parametrize(("more", "at", "owed"), [([], 30, 30), (["experiment.num_train_steps=60"], 30, 30)])
def test_stopped_within_a_burst(more: list[str], at: int, owed: int, tmp_path: Path) -> None:
    code, text = harness.run(harness.train_words(tmp_path / "whole", *BURST, *more), tmp_path)
    assert code == 0, text
    words = harness.train_words(tmp_path / "run", *BURST, *more)
    code, text = harness.run(words, tmp_path, _stop_within(at))
    assert code == 130, text
    if not more:
        saved = tmp_path / "run" / "checkpoints" / "60" / "counters.json"
        assert json.loads(saved.read_text())["owed"] == owed
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    harness.assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_what_is_stopped_twice_at_one_step_is_evaluated_anew(tmp_path: Path) -> None:
    """Both checkpoints are of step 60, and their agents are not the same."""
    run, file = tmp_path / "run", tmp_path / "run" / "evaluation_episodes_60.json"
    words = harness.train_words(run, *BURST)
    scored = []
    for stop in (20, 40):
        assert harness.run(words, tmp_path, _stop_within(stop))[0] == 130
        for _ in ("made", "read"):
            assert harness.run(["evaluate", str(run)], tmp_path)[0] == 0
            scored.append(json.loads(file.read_text()))
    assert scored[0] == scored[1]
    assert scored[2] == scored[3]
    assert [s["updates"] for s in scored[::2]] == [32, 48]
    assert scored[0]["return"] != scored[2]["return"]
