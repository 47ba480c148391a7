"""`medley compare` as a user meets it, on small runs of `point`."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medley.cli import main
from tests.faults import harness

SMALL = [
    "env=point",
    "setup.threads=1",
    "setup.device=cpu",
    "agent.actor.hidden_dim=16",
    "agent.critic.hidden_dim=16",
    "replay_buffer.batch_size=48",
    "experiment.num_train_steps=120",
    "experiment.init_steps=40",
    "experiment.eval_freq=40",
    "experiment.num_eval_episodes=2",
    "experiment.eval_slots_per_task=2",
    "experiment.save_video=false",
    "experiment.save_report=false",
    "logger.use_tb=false",
    "logger.console=lines",
]
AGENTS = "agents=state_sac+setup.id=plain,state_sac+agent.trunk=multi_head+setup.id=heads"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A comparison that was stopped in its third run, and what the same command printed then."""
    folder = tmp_path_factory.mktemp("compared")
    words = ["compare", AGENTS, "seeds=2", *SMALL, f"setup.base_path={folder}"]
    code, text = harness.run(words, folder, _stop_in("plain/seed_2"))
    assert code == 130, text
    assert "The same command goes on" in text
    assert not (folder / "runs/point/heads/seed_2").exists()
    code, text = harness.run(words, folder)
    assert code == 0, text
    return folder, text


def _stop_in(name: str) -> Callable[[], None]:
    """A stop by signal at the first evaluation after step 0 of a run."""

    def prepare() -> None:
        from medley.training.experiment import Experiment

        original = Experiment.save

        def save(self: Experiment) -> None:
            original(self)
            if str(self.run.path).endswith(name) and self.step >= 40:
                os.kill(os.getpid(), 15)

        Experiment.save = save  # type: ignore[method-assign]

    return prepare


def _break(name: str) -> Callable[[], None]:
    """Numbers that are not finite in one run at step 80."""

    def prepare() -> None:
        from medley.errors import NonFiniteError
        from medley.training.experiment import Experiment

        original = Experiment.report

        def report(self: Experiment) -> None:
            original(self)
            if str(self.run.path).endswith(name) and self.step == 80:
                raise NonFiniteError("step 80: the critic loss is nan")

        Experiment.report = report  # type: ignore[method-assign]

    return prepare


def test_it_goes_on_where_it_was_stopped(compared: tuple[Path, str]) -> None:
    folder, text = compared
    assert "Run 1 of 4: plain, seed 1: finished already." in text
    assert "Run 2 of 4: heads, seed 1: finished already." in text
    assert "Run 3 of 4: plain, seed 2\n" in text
    assert "Going on from step 40" in text
    assert "Run 4 of 4: heads, seed 2\n" in text
    for name in ("plain", "heads"):
        for seed in (1, 2):
            info = json.loads((folder / f"runs/point/{name}/seed_{seed}/run.json").read_text())
            assert (info["status"], info["step"], info["seed"]) == ("finished", 120, seed)
    heads = (folder / "runs/point/heads/seed_2/config.yaml").read_text()
    assert "trunk: multi_head" in heads


def test_a_finished_comparison_trains_nothing_again(compared: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = compared
    before = (folder / "runs/point/heads/seed_2/train.log").stat().st_mtime_ns
    words = ["compare", AGENTS, "seeds=2", *SMALL, f"setup.base_path={folder}", "--out", str(tmp_path)]
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    assert text.count("finished already") == 4
    assert (folder / "runs/point/heads/seed_2/train.log").stat().st_mtime_ns == before
    assert (tmp_path / "report.html").is_file()


def test_the_table_and_the_report_have_the_runs_own_numbers(compared: tuple[Path, str]) -> None:
    folder, text = compared
    page = (folder / "runs/point/report.html").read_text()
    assert "<h2>Methods</h2>" in page
    with (folder / "runs/point/report/methods.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["plain", "heads"]
    for name, row in rows.items():
        last = [_last(folder / f"runs/point/{name}/seed_{seed}") for seed in (1, 2)]
        assert float(row["mean"]) == pytest.approx(sum(e["success"] for e in last) / 2)
        tasks = {task: sum(e["per_task"][task]["success"] for e in last) / 2 for task in last[0]["per_task"]}
        assert float(row["worst"]) == pytest.approx(min(tasks.values()))
        assert float(row["best"]) == pytest.approx(max(tasks.values()))
        assert (row["seeds"], row["step"]) == ("2", "120")
        assert float(row["steps_per_second"]) > 0
        assert re.search(rf"^ *{name} +2 +{100 * float(row['mean']):.1f} \[", text, re.M), text
    assert "Success at step 120" in text
    assert "Intervals of 2 seeds are too narrow" in re.sub(r"\s+", " ", text)


def _last(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "results.json").read_text())["evaluations"][-1])


def test_one_run_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    words = ["compare", AGENTS, "seeds=2", *SMALL, f"setup.base_path={tmp_path}"]
    code, text = harness.run(words, tmp_path, _break("heads/seed_1"))
    assert code == 1, text
    assert "heads, seed 1 failed and is left out" in text.splitlines()[-1]
    assert "the critic loss is nan" in text.splitlines()[-1]
    assert json.loads((tmp_path / "runs/point/heads/seed_1/run.json").read_text())["status"] == "failed"
    page = (tmp_path / "runs/point/report.html").read_text()
    assert "heads, seed 1 failed and is left out" in page
    with (tmp_path / "runs/point/report/methods.csv").open() as file:
        assert {row["method"]: row["seeds"] for row in csv.DictReader(file)} == {"plain": "2", "heads": "1"}


def test_seeds_together_and_one_of_them_to_blame(tmp_path: Path) -> None:
    words = ["compare", AGENTS, "seeds=2", *SMALL, f"setup.base_path={tmp_path}", "experiment.seeds_together=2"]
    code, text = harness.run(words, tmp_path, _break("heads/seed_1"))
    assert code == 1, text
    assert "Runs 1 to 2 of 4: plain, seeds 1, 2 together" in text
    assert "Runs 3 to 4 of 4: heads, seeds 1, 2 together" in text
    assert "Run 4 of 4: heads, seed 2\n" in text, "the innocent one goes on alone"
    assert json.loads((tmp_path / "runs/point/heads/seed_2/run.json").read_text())["status"] == "finished"
    assert "heads, seed 1 failed" in text.splitlines()[-1]


def test_dry_run_lists_and_warns_but_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfair = f"{AGENTS},state_sac+replay_buffer.batch_size=24+setup.id=small"
    assert main(["compare", unfair, "seeds=4,7", *SMALL, f"setup.base_path={tmp_path}", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "6 runs of 3 methods, 6 of them to be trained" in out
    assert f"run 5 of 6: heads, seed 7: new, {tmp_path}/runs/point/heads/seed_7" in out
    assert "Warning: the methods differ" in out
    assert "replay_buffer.batch_size (48, 24)" in out
    assert not list(tmp_path.iterdir())


def test_a_mistake_ends_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "agents=state_sac,state_sca", *SMALL, f"setup.base_path={tmp_path}"]) == 2
    assert "Did you mean 'state_sac'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
