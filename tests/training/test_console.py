"""The console's lines are those of seed 001, character by character."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from medley.config.load import load_config
from medley.config.schema import MetricsConfig
from medley.reporting.console import Console, Lines, format_line, make_console
from medley.reporting.panel import Panels
from tests.faults import harness

TRAIN = "| train | E: 1 | S: 1000 | D: 0.8 s | R: 0.0000 | BR: 0.0000 | ALOSS: 0.0000 | CLOSS: 0.0000"
EVAL = "| eval | S: 0 | ER: 21.1676"
ROW = {
    "episode": 1,
    "step": 1000,
    "duration": 0.8,
    "episode_reward": 0.0,
    "batch_reward": 0.0,
    "actor_loss": 0.0,
    "critic_loss": 0.0,
}


@pytest.fixture(scope="module")
def metrics() -> MetricsConfig:
    return load_config(["env=gym"]).metrics


def test_the_lines_of_seed_001(metrics: MetricsConfig) -> None:
    assert format_line("train", ROW, metrics.train) == TRAIN
    assert format_line("eval", {"step": 0, "episode_reward": 21.16764}, metrics.eval) == EVAL


def test_numbers(metrics: MetricsConfig) -> None:
    row = {**ROW, "step": 123456, "duration": 12.345, "episode_reward": -1.00004, "critic_loss": 12345.678, "more": 1}
    wanted = "| train | E: 1 | S: 123456 | D: 12.3 s | R: -1.0000 | BR: 0.0000 | ALOSS: 0.0000 | CLOSS: 12345.6780"
    assert format_line("train", row, metrics.train) == wanted
    # Nothing has been learnt yet: the line stands all the same.
    assert format_line("train", {"episode": 1, "step": 1000, "duration": 0.8}, metrics.train) == TRAIN
    assert "R: nan" in format_line("train", {**ROW, "episode_reward": float("nan")}, metrics.train)


def test_success_has_its_column_where_it_is_the_measure() -> None:
    columns = load_config(["env=metaworld-mt10"]).metrics
    line = format_line("train", {**ROW, "success": 0.25}, columns.train)
    assert line == TRAIN.replace(" | BR", " | Su: 0.2500 | BR")
    assert format_line("eval", {"step": 5, "episode_reward": 2.0, "success": 1.0}, columns.eval) == (
        "| eval | S: 5 | ER: 2.0000 | Su: 1.0000"
    )


def test_lines_are_printed_at_once(metrics: MetricsConfig, capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console("lines", metrics, "title", ("a",), 100, 0)
    console.note("Going on from step 5.")
    console.progress(3, 3)
    console.write("train", ROW)
    console.write("eval", {"step": 0, "episode_reward": 21.1676})
    console.close()
    assert capsys.readouterr().out.splitlines() == ["Going on from step 5.", TRAIN, EVAL]


def test_the_line_with_reconstruction() -> None:
    columns = load_config(["env=gym", "metrics=sac_ae"]).metrics
    assert format_line("train", {**ROW, "ae_loss": 0.02345}, columns.train) == TRAIN + " | RLOSS: 0.0234"
    assert format_line("train", ROW, columns.train) == TRAIN + " | RLOSS: 0.0000"
    assert format_line("eval", {"step": 0, "episode_reward": 21.16764}, columns.eval) == EVAL


def test_colour_on_a_terminal_only(
    metrics: MetricsConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    Lines(metrics).write("train", ROW)
    line = capsys.readouterr().out.rstrip("\n")
    assert line == TRAIN.replace("train", "\033[33mtrain\033[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    Lines(metrics).write("train", ROW)
    assert capsys.readouterr().out.rstrip("\n") == TRAIN


def test_which_console(metrics: MetricsConfig, capsys: pytest.CaptureFixture[str]) -> None:
    def made(how: str) -> Console:
        return make_console(how, metrics, "title", ("a", "b"), 100, 0)

    assert type(made("auto")) is Lines  # pytest's output is no terminal
    quiet = made("none")
    quiet.note("x")
    quiet.write("train", ROW)
    assert capsys.readouterr().out == ""
    panel = made("panel")
    assert type(panel) is Panels
    panel.note("a [bold]note[/bold]")
    panel.write("eval", {"success_env_index_0": 0.5, "success": 0.25})
    panel.close()
    out = capsys.readouterr().out
    assert "a [bold]note[/bold]" in out
    assert "50 %" in out
    assert "25 %" in out


def test_the_time_left_is_that_of_late(metrics: MetricsConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random steps are many times as fast as those that are learnt from, and say nothing of how long these take."""
    now = [1000.0]
    monkeypatch.setattr("medley.reporting.panel.time.monotonic", lambda: now[0])
    panel = make_console("panel", metrics, "title", ("a", "b"), 10_000, 0)
    assert type(panel) is Panels

    def shown(step: int, updates: int, seconds: float) -> tuple[str, str]:
        now[0] += seconds
        panel.progress(step, updates)
        return panel.rates, panel.bar.tasks[0].fields["left"]

    for step in range(0, 5000, 500):
        rates, left = shown(step, 0, 1.0)
    assert (rates, left) == ("500 steps/s · 0 updates/s", "-:--:--")
    for step in range(4505, 4605, 5):
        rates, left = shown(step, step - 4500, 1.0)
    assert rates == "5 steps/s · 5 updates/s"
    assert left == "0:18:00"
    for step in range(4650, 7650, 50):  # and if it gets faster, that is told half a minute later
        rates, left = shown(step, step - 4500, 1.0)
    assert (rates, left) == ("50 steps/s · 50 updates/s", "0:00:48")
    assert shown(10_050, 5600, 1.0)[1] == "0:00:00", "the last chunk ends beyond it"
    panel.close()


def test_a_reader_who_goes_away_ends_no_training(tmp_path: Path) -> None:
    words = " ".join(harness.train_words(tmp_path / "run", "experiment.num_train_steps=400"))
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m medley {words} | head -n 2; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


def test_an_output_that_is_no_file_may_go_away_too(metrics: MetricsConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    lines = Lines(metrics)
    lines.note("one")
    lines.write("train", ROW)
