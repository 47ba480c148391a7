"""Collecting beside learning, evaluating beside training: the same run whatever the timing, killed or not."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults import harness
from tests.faults.test_killed import die_at_file_operation

OVERLAP = ["experiment.overlap=true", "experiment.eval_in_background=true"]


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overlap")
    code, text = harness.run(harness.train_words(folder / "run", *OVERLAP), folder)
    assert code == 0, text
    return folder / "run"


def delays(learn: float, collect: float, evaluate: float) -> Callable[[], None]:
    """Make parts of a run slow at random, by up to so many seconds each time."""

    def prepare() -> None:
        from medley.training.collector import Collector
        from medley.training.evaluator import Evaluator
        from medley.training.learner import NativeUpdates

        rng = random.Random(0)
        run, step, actions = NativeUpdates.run, Collector.collect, Evaluator._actions

        def slow_run(self: NativeUpdates, phases: Sequence[str]) -> None:
            time.sleep(rng.uniform(0, learn))
            run(self, phases)

        def slow_step(self: Collector, *args: object) -> object:
            time.sleep(rng.uniform(0, collect))
            return step(self, *args)  # type: ignore[arg-type]

        def slow_actions(self: Evaluator, *args: object) -> object:
            time.sleep(rng.uniform(0, evaluate))
            return actions(self, *args)  # type: ignore[arg-type]

        NativeUpdates.run = slow_run  # type: ignore[method-assign]
        Collector.collect = slow_step  # type: ignore[method-assign, assignment]
        Evaluator._actions = slow_actions  # type: ignore[method-assign, assignment]

    return prepare


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param((0.02, 0.0, 0.0), marks=pytest.mark.long),
        pytest.param((0.0, 0.02, 0.0), marks=pytest.mark.long),
        pytest.param((0.0, 0.0, 0.02), marks=pytest.mark.long),
        (0.01, 0.01, 0.01),
    ],
    ids=str,
)
def test_timing_does_not_matter(smooth: Path, tmp_path: Path, slow: tuple[float, float, float]) -> None:
    code, text = harness.run(harness.train_words(tmp_path / "run", *OVERLAP), tmp_path, delays(*slow))
    assert code == 0, text
    harness.assert_same_run(smooth, tmp_path / "run")


def test_as_many_updates_as_without_overlap_but_later(smooth: Path, undisturbed: Path) -> None:
    ends = [json.loads((run / "run.json").read_text()) for run in (smooth, undisturbed)]
    assert ends[0]["updates"] == ends[1]["updates"]
    assert (ends[0]["overlap"], ends[1]["overlap"]) == (True, False)
    one, two = ([row["critic_loss"] for row in harness.log_rows(run / "train.log")] for run in (smooth, undisturbed))
    assert one != two
    # An evaluation is of the agent as it was when the evaluation began.
    assert [r["step"] for r in harness.log_rows(smooth / "eval.log")] == [
        r["step"] for r in harness.log_rows(undisturbed / "eval.log")
    ]


def test_killed_again_and_again(smooth: Path, tmp_path: Path) -> None:
    rng = random.Random(5)
    run, words = tmp_path / "run", harness.train_words(tmp_path / "run", *OVERLAP)
    kills = 0
    while kills < 10:
        # A save makes some thirty of these: the run gets on a little between two kills, however fast the machine is.
        prepare = None if kills % 4 == 3 else die_at_file_operation(rng.randrange(1, 70))
        child = harness.Child(words, tmp_path / f"attempt-{kills}", prepare)
        killed = child.kill_after(rng.uniform(0.05, 0.2)) if prepare is None else child.wait() == -signal.SIGKILL
        if not killed:
            break
        kills += 1
    assert kills >= 6, f"this one run ended after {kills} kills"
    code, text = harness.run(words, tmp_path)
    assert code == 0 or "is finished" in text, text
    harness.assert_same_run(smooth, run)


def test_asked_to_stop_while_an_evaluation_goes_on(smooth: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stop_and_slow = harness.stop_at(160)
    slow = delays(0.0, 0.0, 0.02)

    def prepare() -> None:
        slow()
        stop_and_slow()

    code, text = harness.run(harness.train_words(run, *OVERLAP), tmp_path, prepare)
    assert code == 130, text
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 0, text
    harness.assert_same_run(smooth, run)


@pytest.mark.parametrize(
    ("seconds", "words", "at"),
    [
        (0.0, [], None),
        (1.5, [], 40),  # a checkpoint waits for it
        (1.5, ["experiment.save_freq=0"], 150),  # the next evaluation does
        (1.5, ["experiment.save_freq=0", "experiment.num_train_steps=100"], 100),  # the end of the run
    ],
)
def test_a_stop_does_not_wait_for_a_long_evaluation(
    tmp_path: Path, seconds: float, words: list[str], at: int | None
) -> None:
    """A stop that is asked for so many seconds after it began; `at`: where the run waits by then."""

    def prepare() -> None:
        from medley.training import evaluations

        evaluations.PATIENCE = 0.2
        delays(0.0, 0.0, 2.0)()  # a minute or so for one evaluation
        begin = evaluations.Evaluations.begin

        def begin_and_stop(self: evaluations.Evaluations, counters: dict[str, int]) -> None:
            begin(self, counters)
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM)).start()

        evaluations.Evaluations.begin = begin_and_stop  # type: ignore[method-assign]

    began = time.monotonic()
    code, text = harness.run(harness.train_words(tmp_path / "run", *OVERLAP, *words), tmp_path, prepare)
    assert code == 130, text
    assert time.monotonic() - began < 30
    assert harness.log_rows(tmp_path / "run/eval.log") == []
    assert at in (None, json.loads((tmp_path / "run/run.json").read_text())["step"])
    code, text = harness.run(["resume", str(tmp_path / "run"), "experiment.num_train_steps=240"], tmp_path)
    assert code == 0, text
    assert [row["step"] for row in harness.log_rows(tmp_path / "run/eval.log")] == [150, 240]


def test_an_error_while_learning_is_told_and_nothing_hangs(tmp_path: Path) -> None:
    def spoil() -> None:
        from medley.errors import MedleyError
        from medley.training.learner import NativeUpdates

        def run(self: NativeUpdates, phases: Sequence[str]) -> None:
            raise MedleyError("the learner broke")

        NativeUpdates.run = run  # type: ignore[method-assign]

    code, text = harness.run(harness.train_words(tmp_path / "run", *OVERLAP), tmp_path, spoil)
    assert code == 2, text
    assert "the learner broke" in text
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"
