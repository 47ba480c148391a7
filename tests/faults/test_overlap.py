"""Collecting beside learning, evaluating beside training: the same run whatever the timing, killed or not."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from medley.files import read_json
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
    smooth: Path, tmp_path: Path, seconds: float, words: list[str], at: int | None
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
    # It is begun again when the run goes on, of the agent that it was of; nothing is lost, and nothing is another.
    code, text = harness.run(["resume", str(tmp_path / "run"), "experiment.num_train_steps=240"], tmp_path)
    assert code == 0, text
    rows = harness.log_rows(tmp_path / "run/eval.log")
    assert [row["step"] for row in rows] == [0, 150, 240]
    same = 1 if at == 100 else 2  # a run that had come to its end had done all updates, and goes on from there
    for row, other in zip(rows[:same], harness.log_rows(smooth / "eval.log"), strict=False):
        assert {**row, "duration": 0} == {**other, "duration": 0}
    assert [e["step"] for e in read_json(tmp_path / "run/results.json")["evaluations"]] == [0, 150, 240]


def asked_at(step: int) -> Callable[[], None]:
    """To stop, at that step, whether it is saved or not."""

    def prepare() -> None:
        from medley.training.experiment import Experiment

        between = Experiment.between_chunks

        def then_stop(self: Experiment, *args: object) -> str | None:
            if self.step == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return between(self, *args)  # type: ignore[arg-type]

        Experiment.between_chunks = then_stop  # type: ignore[method-assign, assignment]

    return prepare


def test_an_evaluation_that_was_given_up_goes_on_of_the_agent_that_it_was_of(smooth: Path, tmp_path: Path) -> None:
    """That of 150, stopped at some later step, and again when it had begun anew."""
    run = tmp_path / "run"

    def slow_from(step: int, until: int) -> Callable[[], None]:
        def prepare() -> None:
            from medley.training import evaluations

            evaluations.PATIENCE = 0.2
            begin = evaluations.Evaluations._begin

            def begin_slowly(self: evaluations.Evaluations, counters: dict[str, int]) -> None:
                if counters["step"] == step:
                    delays(0.0, 0.0, 2.0)()
                begin(self, counters)

            evaluations.Evaluations._begin = begin_slowly  # type: ignore[method-assign]
            asked_at(until)()

        return prepare

    for words, until in (
        (harness.train_words(run, *OVERLAP, "experiment.save_freq=0"), 170),
        (["resume", str(run)], 200),
    ):
        code, text = harness.run(words, tmp_path, slow_from(150, until))
        assert code == 130, text
        saved = read_json(run / "checkpoints" / str(until) / "counters.json")
        assert saved["evaluating"]["counters"]["step"] == 150

    def die_once_it_is_made() -> None:
        from medley.training.evaluations import Evaluations

        record = Evaluations._record

        def recorded(self: Evaluations, counters: dict[str, int], *args: Any) -> None:
            record(self, counters, *args)
            if counters["step"] == 150:
                os.kill(os.getpid(), signal.SIGKILL)

        Evaluations._record = recorded  # type: ignore[method-assign, assignment]

    assert harness.run(["resume", str(run)], tmp_path, die_once_it_is_made)[0] == -signal.SIGKILL
    assert [e["step"] for e in read_json(run / "results.json")["evaluations"]] == [0, 150]
    code, text = harness.run(["resume", str(run), "experiment.save_freq=40"], tmp_path)
    assert code == 0, text
    harness.assert_same_run(smooth, run)
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
    assert not (newest / "evaluation.safetensors").exists()
    assert "evaluating" not in read_json(newest / "counters.json")


def test_without_evaluations_beside_training_it_is_made_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = harness.train_words(run, *OVERLAP, "experiment.save_freq=0")

    def prepare() -> None:
        from medley.training import evaluations

        evaluations.PATIENCE = 0.2
        delays(0.0, 0.0, 2.0)()
        asked_at(40)()

    assert harness.run(words, tmp_path, prepare)[0] == 130
    words = ["resume", str(run), "--override", "experiment.eval_in_background=false", "experiment.num_train_steps=200"]
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    assert [row["step"] for row in harness.log_rows(run / "eval.log")] == [150, 200]


@pytest.mark.parametrize(
    "look", [pytest.param(1, marks=pytest.mark.long), 2, 3, pytest.param(4, marks=pytest.mark.long)]
)
def test_whenever_a_stop_comes_nothing_is_lost(smooth: Path, tmp_path: Path, look: int) -> None:
    """Between any two looks at whether to stop, while an evaluation goes on beside training."""
    run = tmp_path / "run"

    def prepare() -> None:
        from medley.training import stopping
        from medley.training.experiment import Experiment

        delays(0.0, 0.0, 0.1)()
        looks = 0

        def asked(self: stopping.StopRequest) -> bool:
            nonlocal looks
            frame = sys._getframe(1)
            if frame.f_code is Experiment._between_chunks.__code__ and frame.f_locals["self"].step >= 170:
                looks += 1
                self.asked = self.asked or looks >= look
            return self.asked

        stopping.StopRequest.__call__ = asked  # type: ignore[method-assign]

    code, text = harness.run(harness.train_words(run, *OVERLAP, "experiment.save_freq=0"), tmp_path, prepare)
    assert code == 130, text
    assert "Stopped and saved" in text
    stopped = read_json(run / "run.json")["step"]
    assert stopped >= 170
    assert (run / "checkpoints" / str(stopped)).is_dir()
    code, text = harness.run(["resume", str(run), "experiment.save_freq=40"], tmp_path)
    assert code == 0, text
    harness.assert_same_run(smooth, run)


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
