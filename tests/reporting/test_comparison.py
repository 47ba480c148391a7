"""Methods side by side: figures, intervals, cost, and options that differ."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from medley.reporting.comparison import compared, console_table
from medley.reporting.differences import method_differences, protocol_differences
from medley.reporting.report import write_report


def _shown(paths: list[Path], labels: dict[Path, str] | None = None, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(console_table(compared(paths, labels)))
    return out.getvalue()


def test_rows_have_the_methods_names_figures_and_speed(make_run) -> None:
    paths = [make_run(config=name, seed=seed, speed=s) for name, s in (("a", 2.0), ("b", 0.3)) for seed in (1, 2, 3)]
    labels = {path.resolve(): f"the {path.parent.name}" for path in paths}
    a, b = compared(paths, labels)
    assert (a.label, b.label, a.seeds, a.step) == ("the a", "the b", 3, 100_000)
    assert a.mean[1] <= a.mean[0] <= a.mean[2]
    assert a.iqm[0] > b.iqm[0]
    assert b.worst[1] <= b.mean[0] <= b.best[1]
    assert a.minutes == 12.5
    assert a.rate == pytest.approx(300_000 / 750)


def test_the_figures_are_those_of_the_statistics_on_the_same_page(make_run, tmp_path: Path) -> None:
    write_report([make_run(config=name, seed=seed, speed=0.4) for name in "ab" for seed in (1, 2, 3)], tmp_path)
    tables = []
    for name in ("methods", "summary"):
        with (tmp_path / "report" / f"{name}.csv").open(newline="") as file:
            tables.append(list(csv.DictReader(file)))
    for method, summary in zip(*tables, strict=True):
        assert method["mean_low"] < method["mean"] < method["mean_high"]
        for figure in ("mean", "iqm"):
            keys = [f"{figure}{end}" for end in ("", "_low", "_high")]
            assert [method[key] for key in keys] == [summary[key] for key in keys]


def test_the_console_table_fits_a_terminal(make_run) -> None:
    paths = [make_run(config=name, seed=seed) for name in ("a" * 30, "[b]") for seed in (1, 2)]
    text = _shown(paths)
    assert max(map(len, text.splitlines())) <= 80
    assert "[b]" in text, "a name in brackets is not markup"
    assert "Intervals of 2 seeds are too narrow" in " ".join(text.split())
    assert "One seed says nothing" in " ".join(_shown(paths[:1]).split())


def test_the_page_names_methods_and_what_differs(make_run, hostile: str, tmp_path: Path) -> None:
    paths = [make_run(config=name, seed=seed) for name in ("a", "b") for seed in (1, 2)]
    for path in paths:
        size = 128 if path.parent.name == "a" else 256
        text = f"replay_buffer: {{batch_size: {size}}}\nagent: {{trunk: t-{path.parent.name}, name: x}}\n"
        (path / "config.yaml").write_text(text)
    labels = {path.resolve(): hostile for path in paths[:2]}
    page = write_report(paths, tmp_path, labels, notes=[f"something about {hostile}"]).read_text()
    assert "<h2>Methods</h2>" in page
    assert "The methods differ in more than themselves" in page
    before, after = page.split("<h2>What differs</h2>")[1].split("Options of the methods")
    assert "<td>replay_buffer.batch_size</td><td>128</td><td>256</td>" in before
    assert "agent.trunk" not in before
    assert "<td>agent.trunk</td><td>t-a</td><td>t-b</td>" in after
    assert "agent.name" not in page.split("<h2>What differs</h2>")[1].split("<h2>")[0]
    assert hostile not in page
    assert "something about" in page
    assert (tmp_path / "report" / "aggregates.png").is_file()
    assert (tmp_path / "report" / "methods.csv").read_text().count("\n") == 3


def test_nothing_is_said_of_options_that_agree_or_cannot_be_read(make_run, tmp_path: Path) -> None:
    paths = [make_run(config=name) for name in ("a", "b")]
    assert "What differs" not in write_report(paths, tmp_path).read_text()
    (paths[0] / "config.yaml").write_text("agent: [")
    assert "What differs" not in write_report(paths, tmp_path).read_text()


def test_which_differences_belong_to_the_protocol() -> None:
    same = {"agent.discount": 0.99, "experiment.updates": 1, "agent.trunk": "shared", "setup.seed": 1}
    other = {"agent.discount": 0.9, "experiment.updates": 4, "agent.care.k": 6, "setup.seed": 2, "logger.use_tb": True}
    assert [d.option for d in protocol_differences([same, other])] == ["agent.discount", "experiment.updates"]
    assert [str(d) for d in method_differences([same, other])] == ["agent.trunk (shared, –)", "agent.care.k (–, 6)"]
    assert not protocol_differences([same, dict(same)])
