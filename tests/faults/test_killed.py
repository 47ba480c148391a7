"""kill -9 at random instants, Ctrl-C and SIGTERM: a resumed run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import harness


def test_twenty_kills_at_random_instants(undisturbed: Path, tmp_path: Path) -> None:
    """Some kills come at a random time, some at a random file operation (in the middle of a save)."""
    rng = random.Random(4)
    run = tmp_path / "run"
    words = harness.train_words(run)
    began = time.monotonic()
    code, text = harness.run(harness.train_words(tmp_path / "timing"), tmp_path)
    assert code == 0, text
    whole = time.monotonic() - began
    kills = 0
    while kills < 24:
        output = tmp_path / f"attempt-{kills}"
        if kills % 3 == 2:
            child = harness.Child(words, output)
            killed = child.kill_after(rng.uniform(0.0, 0.12) * whole + 0.05)
        else:
            # A save makes some thirty of these: the run gets on a little between two kills.
            child = harness.Child(words, output, die_at_file_operation(rng.randrange(1, 75)))
            code = child.wait()
            killed = code == -signal.SIGKILL
            assert killed or code == 0, child.text()
        if not killed:
            break
        kills += 1
    assert kills >= 20, f"this one run ended after {kills} kills"
    progress = int(json.loads((run / "run.json").read_text()).get("step", 0))
    code, text = harness.run(words, tmp_path)
    assert code == 0 or "is finished" in text, text
    harness.assert_same_run(undisturbed, run)
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    newest = max(int(p.name) for p in (run / "checkpoints").iterdir())
    assert newest == 800 > progress >= 0
    print(f"{kills} kills of one run; resumed for the last time from step {progress}")


def die_at_file_operation(count: int) -> Callable[[], None]:
    """SIGKILL oneself before the count-th sync or rename."""

    def prepare() -> None:
        left = count

        def counting(original: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **kwargs: object) -> object:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*args, **kwargs)

            return call

        os.fsync = counting(os.fsync)  # type: ignore[assignment]
        os.rename = counting(os.rename)  # type: ignore[assignment]
        os.replace = counting(os.replace)  # type: ignore[assignment]

    return prepare


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_saves_and_resumes_exactly(undisturbed: Path, tmp_path: Path, number: int) -> None:
    run = tmp_path / "run"
    child = harness.Child(harness.train_words(run), tmp_path / "out")
    child.wait_for(run / "checkpoints" / "160")
    time.sleep(0.01)
    child.signal(number)
    assert child.wait() == 130
    assert f"medley resume {run}" in child.text()
    info = json.loads((run / "run.json").read_text())
    assert info["status"] == "stopped"
    newest = max(int(p.name) for p in (run / "checkpoints").iterdir())
    assert newest == info["step"], "the stop itself is saved, not only what was due"
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 0, text
    assert f"Going on from step {newest:,}" in text
    harness.assert_same_run(undisturbed, run)


def test_stopped_during_an_evaluation(undisturbed: Path, tmp_path: Path) -> None:
    """The evaluation is not counted as done, and is made again on resume."""

    def stop_in_second_evaluation() -> None:
        from medley.training.evaluator import Evaluator

        original, calls = Evaluator._actions, 0

        def actions(self: object, *args: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 100:  # an evaluation of 4 episodes of 40 steps in 2 slots takes 80 calls
                os.kill(os.getpid(), signal.SIGTERM)
            return original(self, *args)  # type: ignore[arg-type]

        Evaluator._actions = actions  # type: ignore[assignment, method-assign]

    run = tmp_path / "run"
    code, text = harness.run(harness.train_words(run), tmp_path, stop_in_second_evaluation)
    assert code == 130, text
    assert len(json.loads((run / "results.json").read_text())["evaluations"]) == 1
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 0, text
    harness.assert_same_run(undisturbed, run)


def test_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    def slow_updates() -> None:
        from medley.training.learner import NativeUpdates

        NativeUpdates.run = lambda self, phases: time.sleep(60)  # type: ignore[method-assign, assignment]

    run = tmp_path / "run"
    child = harness.Child(harness.train_words(run), tmp_path / "out", slow_updates)
    child.wait_for(run / "checkpoints" / "40")
    time.sleep(0.3)
    child.signal(signal.SIGINT)
    time.sleep(0.2)
    child.signal(signal.SIGINT)
    assert child.wait(10) == 130
    assert "what was saved last stands" in child.text()
    assert json.loads((run / "run.json").read_text())["status"] == "stopped"
    assert (run / "checkpoints" / "40" / "manifest.json").exists()


def test_two_processes_in_one_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = harness.Child(harness.train_words(run, "experiment.num_train_steps=1000000"), tmp_path / "out")
    first.wait_for(run / "checkpoints" / "80")
    code, text = harness.run(["resume", str(run)], tmp_path)
    first.signal(signal.SIGKILL)
    assert code == 2
    assert "another process is working" in text
