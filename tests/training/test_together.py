"""Seeds trained together in one program: run folders like those of seeds trained alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from medley.config.load import load_config
from medley.training import start
from tests.faults import harness

SEEDS = (1, 2, 3)


def words(folder: Path, *more: str) -> list[str]:
    options = [word for word in harness.OPTIONS if not word.startswith("experiment.num_train_steps")]
    return ["train", *options, "experiment.num_train_steps=240", f"setup.base_path={folder}", "setup.id=x", *more]


def folder_of(base: Path, seed: int) -> Path:
    return base / "runs" / "point" / "x" / f"seed_{seed}"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("alone")
    for seed in SEEDS:
        code, text = harness.run(words(base, f"setup.seed={seed}"), base)
        assert code == 0, text
    return base


def test_each_seed_is_the_seed_alone(alone: Path, tmp_path: Path) -> None:
    code, text = harness.run(words(tmp_path, "setup.seed=1,2,3", "experiment.seeds_together=3"), tmp_path)
    assert code == 0, text
    assert "3 seeds are trained together" in text
    assert "Report over 3 runs" in text
    for seed in SEEDS:
        harness.assert_same_run(folder_of(alone, seed), folder_of(tmp_path, seed))
        assert json.loads((folder_of(tmp_path, seed) / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("seed_killed_in", [pytest.param(1, marks=pytest.mark.long), 2])
def test_killed_between_two_folders(alone: Path, tmp_path: Path, seed_killed_in: int) -> None:
    """One folder is a checkpoint ahead of the others: all go on from the last that they share."""

    def die() -> None:
        import os
        import signal

        from medley.training.checkpoints import Checkpoints

        original = Checkpoints.save

        def save(self: Checkpoints, step: int, *args: object) -> Path:
            path = original(self, step, *args)  # type: ignore[arg-type]
            if step == 120 and self.folder.parent.name == f"seed_{seed_killed_in}":
                os.kill(os.getpid(), signal.SIGKILL)
            return path

        Checkpoints.save = save  # type: ignore[method-assign, assignment]

    command = words(tmp_path, "setup.seed=1,2,3", "experiment.seeds_together=3")
    child = harness.Child(command, tmp_path / "out", die)
    assert child.wait() == -9
    code, text = harness.run(command, tmp_path)
    assert code == 0, text
    for seed in SEEDS:
        harness.assert_same_run(folder_of(alone, seed), folder_of(tmp_path, seed))


def test_a_damaged_checkpoint_takes_all_seeds_back(alone: Path, tmp_path: Path) -> None:
    command = words(tmp_path, "setup.seed=1,2,3", "experiment.seeds_together=3")
    child = harness.Child(command, tmp_path / "out", harness.stop_at(120))
    assert child.wait() == 130
    newest = folder_of(tmp_path, 2) / "checkpoints" / "120" / "agent.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    code, text = harness.run(command, tmp_path)
    assert code == 0, text
    assert "Going on from step 80" in text
    for seed in SEEDS:
        harness.assert_same_run(folder_of(alone, seed), folder_of(tmp_path, seed))


@pytest.mark.parametrize("call", [pytest.param(2, id="on the way"), pytest.param(5, id="at the end")])
def test_a_stop_while_one_of_them_is_evaluated_stops_all_at_that_step(alone: Path, tmp_path: Path, call: int) -> None:
    """The first seed has its evaluation then, the second gives it up, the third has not begun."""

    def stop_in_the_second() -> None:
        import os
        import signal

        from medley.training.evaluator import Evaluator

        evaluate, calls = Evaluator.run, 0

        def run(self: Evaluator, *args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGTERM)
            return evaluate(self, *args, **more)

        Evaluator.run = run  # type: ignore[method-assign]

    more = ("setup.seed=1,2,3", "experiment.seeds_together=3", "experiment.eval_in_background=false")
    code, text = harness.run(words(tmp_path, *more), tmp_path, stop_in_the_second)
    assert code == 130, text
    standing = [json.loads((folder_of(tmp_path, seed) / "run.json").read_text()) for seed in SEEDS]
    assert {info["status"] for info in standing} == {"stopped"}
    assert len({info["step"] for info in standing}) == 1
    code, text = harness.run(words(tmp_path, *more), tmp_path)
    assert code == 0, text
    for seed in SEEDS:
        harness.assert_same_run(folder_of(alone, seed), folder_of(tmp_path, seed))


def test_the_same_command_goes_on_where_groups_are_finished(tmp_path: Path) -> None:
    more = ("setup.seed=1,2,3", "experiment.seeds_together=2", "experiment.num_train_steps=120")

    def stop_in_the_second_group() -> None:
        import os
        import signal

        from medley.training.checkpoints import Checkpoints

        original = Checkpoints.save

        def save(self: Checkpoints, *args: Any) -> Path:
            path = original(self, *args)
            if self.folder.parent.name == "seed_3":
                os.kill(os.getpid(), signal.SIGTERM)
            return path

        Checkpoints.save = save  # type: ignore[method-assign]

    code, text = harness.run(words(tmp_path, *more), tmp_path, stop_in_the_second_group)
    assert code == 130, text
    code, text = harness.run(words(tmp_path, *more), tmp_path)
    assert code == 0, text
    assert text.count("is finished already") == 2
    assert "Report over 3 runs" in text
    code, text = harness.run(words(tmp_path, *more), tmp_path)
    assert code == 2
    assert "seed_1 is finished: see its report.html" in text, "all are: something else is meant"


def test_a_stop_waits_for_all_seeds_no_longer_than_for_one(tmp_path: Path) -> None:
    """They settle their evaluations one after another."""

    def tell() -> None:
        from medley.training.evaluations import PATIENCE, Evaluations

        settle = Evaluations.settle

        def told(self: Evaluations, *args: Any) -> None:
            print("patience", self.patience / PATIENCE, flush=True)
            settle(self, *args)

        Evaluations.settle = told  # type: ignore[method-assign, assignment]

    more = ("setup.seed=1,2,3,4", "experiment.seeds_together=4", "experiment.num_train_steps=40")
    code, text = harness.run(words(tmp_path, *more), tmp_path, tell)
    assert code == 0, text
    assert set(re.findall(r"patience (.*)", text)) == {"0.25"}


def test_groups_hold_seeds_of_one_configuration() -> None:
    base = ["env=point", "experiment.seeds_together=2"]
    configs = [load_config([*base, f"setup.seed={s}"]) for s in (1, 2, 3)]
    other = load_config([*base, "setup.seed=4", "agent.discount=0.9"])
    sizes = [[c.setup.seed for c in group] for group in start.groups([*configs, other])]
    assert sizes == [[1, 2], [3], [4]]
    same_folder = [load_config([*base, f"setup.seed={s}", "setup.save_dir=one"]) for s in (1, 2)]
    assert len(start.groups(same_folder)) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_seeds_learn_together_on_a_gpu(tmp_path: Path) -> None:
    """The whole way round: stacked updates, policies that follow them, evaluations beside training."""
    options = ["env=point", "setup.seed=1,2", "experiment.seeds_together=2", "setup.device=cuda", "logger.console=none"]
    command = [sys.executable, "-m", "medley", "train", *options, f"setup.base_path={tmp_path}", "setup.id=x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    for seed in (1, 2):
        last = json.loads((folder_of(tmp_path, seed) / "results.json").read_text())["evaluations"][-1]
        assert last["success"] >= 0.9, (seed, last["per_task"])
