"""What the runs show together: scores, tables in three formats, pictures in two, and the piece of a page."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from medley.cli import main
from medley.reporting import style
from medley.reporting.aggregates import Interval, aggregates, probability_of_improvement
from medley.reporting.alignment import Aligned, align
from medley.reporting.conclusions import statistics_section
from medley.reporting.formats import Table, latex, markdown, show, words
from medley.reporting.runs import RunGroup, find_runs, group_runs
from medley.reporting.scores import scored
from medley.reporting.verdicts import Pair, efficiency_picture, improvement_picture, profile_picture

Found = list[tuple[RunGroup, Aligned]]


def _found(root: Path) -> Found:
    return [(group, aligned) for group in group_runs(find_runs([root])) if (aligned := align(group))]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def two(make_run, tmp_path: Path) -> Found:
    for seed in (1, 2, 3):
        make_run(config="slow", seed=seed, speed=0.7)
        make_run(config="fast", seed=seed, speed=1.0, tasks=("push", "reach", "pick-place"))
    return _found(tmp_path / "runs")


def test_tables_and_pictures_hold_what_the_statistics_say(two: Found, tmp_path: Path) -> None:
    page = "".join(statistics_section(two, tmp_path / "report"))
    assert "<h2>Statistics</h2>" in page
    rows = _rows(tmp_path / "report" / "summary.csv")
    assert [row["group"] for row in rows] == ["fast", "slow"]
    for row, (_, aligned) in zip(rows, two, strict=True):
        own = aggregates(aligned.success[..., -1])
        assert (row["score"], row["runs"], row["seeds"], row["tasks"], row["step"]) == (
            "success",
            "3",
            "3",
            "3",
            "100000",
        )
        for name, interval in own.items():
            key = name.lower().replace(" ", "_")
            found = [float(row[f"{key}{end}"]) for end in ("", "_low", "_high")]
            assert found == pytest.approx(interval, rel=1e-5), name
            assert words(interval) in page
            for kind in ("md", "tex"):
                assert words(interval) in (tmp_path / "report" / f"summary.{kind}").read_text()
    by_task = _rows(tmp_path / "report" / "summary_tasks.csv")
    assert [row["task"] for row in by_task] == ["push", "reach", "pick-place"]
    assert float(by_task[1]["slow"]) == pytest.approx(two[1][1].success[:, 0, -1].mean(), rel=1e-5)
    assert float(by_task[1]["slow_low"]) <= float(by_task[1]["slow"]) <= float(by_task[1]["slow_high"])

    (row,) = _rows(tmp_path / "report" / "improvement.csv")
    fast, slow = (aligned.success[..., -1] for _, aligned in two)
    fast = fast[:, [1, 0, 2]]  # tasks in the order of the other
    expected = probability_of_improvement(fast, slow)
    assert (row["x"], row["y"], row["step"]) == ("fast", "slow", "100000")
    assert [float(row[key]) for key in ("probability", "low", "high")] == pytest.approx(expected, rel=1e-5)
    assert 0.5 < expected.value < 1.0

    assert page.count("<img") == 4
    for name in ("aggregates", "profiles", "improvement", "sample_efficiency"):
        with Image.open(tmp_path / "report" / f"{name}.png") as image:
            assert image.width > 600
        root = ElementTree.parse(tmp_path / "report" / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 20


def test_the_same_picture_is_the_same_file(two: Found, tmp_path: Path) -> None:
    groups, _ = scored(two)
    first, second = (profile_picture(groups, tmp_path / name) for name in ("a", "b"))
    assert first.svg.read_bytes() == second.svg.read_bytes()
    assert first.png.read_bytes() == second.png.read_bytes()
    shares = [float(row["share"]) for row in _rows(first.csv) if row["group"] == "slow"]
    assert shares[50] == pytest.approx((groups[1].final > 0.5).mean(), rel=1e-5)


def test_sample_efficiency_over_control_steps_and_minutes(make_run, tmp_path: Path) -> None:
    for seed in (1, 2):
        path = make_run(seed=seed)
        results = json.loads((path / "results.json").read_text())
        for evaluation in results["evaluations"]:
            evaluation["env_step"] = 4 * evaluation["step"]
        (path / "results.json").write_text(json.dumps(results))
    groups, _ = scored(_found(tmp_path / "runs"))
    rows = _rows(efficiency_picture(groups, tmp_path / "both").csv)
    steps = [float(row["x"]) for row in rows if row["against"] == "environment steps per task"]
    minutes = [row for row in rows if row["against"] == "minutes of training"]
    assert steps == [4.0 * step for step in range(0, 100_001, 10_000)]
    assert float(minutes[-1]["x"]) == pytest.approx(400 * 0.8 / 60, rel=0.001)  # a log of 400 rows of 0.8 s each
    assert minutes[-1]["iqm"] == rows[len(steps) - 1]["iqm"], "both end with the last evaluation"
    (path / "train.log").unlink()
    groups, _ = scored(_found(tmp_path / "runs"))
    assert groups[0].minutes is None


def test_the_best_comes_first_in_a_legend(make_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, speed in (("a", 0.3), ("b", 2.0), ("c", 0.6)):
        make_run(config=name, speed=speed)
    shown: list[tuple[str, str]] = []

    def legend(figure: Any, lines: list[Any], labels: list[str]) -> None:
        shown.extend((label, line.get_color()) for label, line in zip(labels, lines, strict=True))

    monkeypatch.setattr(style, "legend", legend)
    groups, _ = scored(_found(tmp_path / "runs"))
    efficiency_picture(groups, tmp_path / "picture")
    assert shown == [(f"{name} (1 run)", style.colour("abc".index(name))) for name in "bca"]


def test_one_run_gets_tables_but_no_pictures(make_run, tmp_path: Path) -> None:
    page = "".join(statistics_section(_found(make_run()), tmp_path))
    assert "<img" not in page
    assert _rows(tmp_path / "summary.csv")[0]["mean_low"] == ""
    assert "One run says nothing about other seeds" in (tmp_path / "summary.md").read_text()
    assert not list(tmp_path.glob("*.png"))


def test_returns_of_dm_control_are_scores(make_run, tmp_path: Path) -> None:
    path = make_run(env="dmc-walker-walk", options="env: {builder: dmc, action_repeat: 2, horizon: null}")
    found = _found(path)
    statistics_section(found, tmp_path)
    row = _rows(tmp_path / "summary.csv")[0]
    assert row["score"] == "return / 1000"
    assert float(row["mean"]) == pytest.approx(found[0][1].returns[..., -1].mean() / 1000, rel=1e-5)
    assert "Final return / 1000" in (tmp_path / "summary.md").read_text()
    path = make_run(seed=2, env="dmc-walker-walk", options="env: {builder: dmc, action_repeat: 2, horizon: 100}")
    assert scored(_found(path))[0][0].measure == "return / 200", "a shorter episode cannot return as much"


def test_without_a_score_the_reason_is_said(make_run, tmp_path: Path) -> None:
    path = make_run(env="gym", options="env: {builder: gym, ids: [Pendulum-v1]}")
    results = json.loads((path / "results.json").read_text())
    for evaluation in results["evaluations"]:
        for score in evaluation["per_task"].values():
            score["success"] = 0.0
    (path / "results.json").write_text(json.dumps(results))
    page = "".join(statistics_section(_found(path), tmp_path))
    assert "There are no statistics. state_sac never had a success" in page
    assert "never had a success" in (tmp_path / "summary.md").read_text()
    assert "No run has an evaluation" in "".join(statistics_section([], tmp_path))


def test_only_what_compares_is_compared(make_run, tmp_path: Path) -> None:
    for seed in (1, 2):
        make_run(config="a", seed=seed, options="experiment: {num_train_steps: 100000}")
        options = {"options": "experiment: {num_train_steps: 100000}", "status": "failed"}
        make_run(config="b", seed=seed, steps=tuple(range(0, 60_001, 10_000)), **options)
        make_run(config="c", seed=seed, options="experiment: {num_train_steps: 50000}")
    page = "".join(statistics_section(_found(tmp_path / "runs"), tmp_path))
    found = [(row["x"], row["y"], row["step"]) for row in _rows(tmp_path / "improvement.csv")]
    assert found == [("a", "b", "60000")], "at a step that both have"
    assert "a and c are not compared: experiment.num_train_steps is 100000 and 50000." in page
    assert "b and c are not compared" in (tmp_path / "summary.md").read_text()


def test_hostile_names_stay_text(make_run, hostile: str, tmp_path: Path) -> None:
    for config in (hostile, "a|b_c_ & #50 % <b>"):
        for seed in (1, 2):
            make_run(config=config, seed=seed, tasks=(hostile, "_x"), folder=f"{len(config)}/seed_{seed}")
    page = "".join(statistics_section(_found(tmp_path / "runs"), tmp_path))
    assert "<script" not in page
    for file in tmp_path.glob("*.svg"):
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(file).iter()}
        assert not tags & {"script", "img", "foreignObject"}
    row = next(line for line in (tmp_path / "summary.md").read_text().splitlines() if line.startswith(r"| a\|b"))
    assert row.startswith(r"| a\|b_c\_ & #50 % \<b> | 2 |")
    table = (tmp_path / "summary.tex").read_text()
    assert r"a\textbar{}b\_c\_ \& \#50 \% \textless{}b\textgreater{} & 2 & 2 & 100,000 & " in table
    assert not re.search(r"(?<!\\)[$#]", table)


def test_formats_by_hand() -> None:
    rows = [["x", 1200, Interval(0.5, 0.25, 0.755)], ["[y]", 3, Interval(math.nan)]]
    table = Table("About", ["group", "step", "mean"], rows, ["a note"])
    assert markdown(table) == (
        "About\n\n| group | step | mean |\n| --- | ---: | ---: |\n| x | 1,200 | 50.0 [25.0, 75.5] |\n| [y] | 3 | – |\n"
        "\n- a note\n"
    )
    text = latex(table, "t")
    assert text.index(r"\toprule") < text.index(r"group & step & mean \\") < text.index(r"\midrule")
    assert "x & 1,200 & 50.0 [25.0, 75.5] \\\\\n{}[y] & 3 & -- \\\\\n\\bottomrule" in text
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


@pytest.mark.parametrize("width", [80, 130])
def test_a_terminal_shows_names_in_full(tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    name = "state_sac_trunk-multi-head_alpha_per_task-True_a|b_[red]_lr-0.001"
    cell = Interval(0.5, 0.25, 0.75)
    table = Table("About", ["group", "tasks", "mean", "median"], [[name, 3, cell, cell]], ["a [note]"])
    (tmp_path / "t.md").write_text(markdown(table))
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(tmp_path / "t.md")
    said = re.sub("\x1b.*?m", "", capsys.readouterr().out)
    assert max(map(len, said.splitlines())) <= width
    lines = re.findall(r"^  (\S+)", said, flags=re.MULTILINE)
    assert name in "".join(lines)
    assert "[25.0, 75.0]" in said
    assert "- a [note]" in said
    assert ("also has the columns tasks and median" in " ".join(said.split())) == (width == 80)


def test_long_names_are_broken_and_keep_their_ends() -> None:
    name = "state_sac_trunk-multi-head_alpha_per_task-True_slots_per_task-8_lr-0.001"
    lines = style.wrapped(name).split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= 26
    assert style.wrapped(name) != style.wrapped(name.replace("0.001", "0.002"))
    assert style.wrapped("short") == "short"
    assert style.shortened("x" * 30 + "end", 11) == "xxxxx…xxend"
    assert np.isclose(style.legend_height(9.8, ["a"] * 5), 2 * 0.19)


def test_the_command_prints_the_summary_and_says_what_is_apart(make_run, tmp_path: Path, capsys) -> None:
    for trunk, steps in (("shared", 100_000), ("multi_head", 100_000), ("shared", 50_000)):
        for seed in (1, 2):
            options = f"agent: {{trunk: {trunk}}}\nexperiment: {{num_train_steps: {steps}}}"
            make_run(config=f"{trunk}-{steps}", seed=seed, options=options)
    assert main(["report", str(tmp_path / "runs"), "--by", "agent", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "| state_sac (num_train_steps=100000) | 4 | 2 | 3 | 100,000 |" in said
    assert (
        "state_sac (num_train_steps=100000) averages over runs that differ in agent.trunk (multi_head, shared)" in said
    )
    assert "Runs of state_sac differ in their protocol and are not averaged together" in said
    assert f"Report: {tmp_path / 'report.html'}" in said
    page = (tmp_path / "report.html").read_text()
    assert "Runs of state_sac differ in their protocol" in page
    assert "<h2>Statistics</h2>" in page
    assert main(["report", str(tmp_path / "runs"), "--by", "agent.trunc"]) == 2
    assert "'agent.trunk'" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("best", "said"), [("a3", "the pairs with a3"), ("apart", "the first 28 pairs")])
def test_many_pairs_are_drawn_as_far_as_they_are_readable(tmp_path: Path, best: str, said: str) -> None:
    """The best may have no pair at all, where its protocol is another."""
    pairs = [Pair(f"a{i}", f"b{j}", 10, Interval(0.5, 0.4, 0.6)) for i in range(6) for j in range(6)]
    picture = improvement_picture(pairs, best, tmp_path / "improvement")
    assert f"Only {said} are drawn; the table has all 36." in picture.caption
    assert len(_rows(tmp_path / "improvement.csv")) == 36
