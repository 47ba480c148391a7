"""The tables in results/mt10/README.md and results/mt50/README.md say what the runs beside them say."""

from __future__ import annotations

import csv
import math
import re
import runpy
from pathlib import Path

import pytest

from medley.reporting.comparison import compared
from medley.reporting.runs import find_runs

MT10 = Path(__file__).parents[2] / "results" / "mt10"
MT50 = MT10.parent / "mt50"
NAMES = {
    "`agent=medley` (two steps), three seeds": "medley_two_steps",
    "BRC, width 1024, three seeds": "brc_1024",
    "MOORE": "moore",
    "T3S": "t3s",
    "soft modules": "soft_modules",
    "CARE": "care",
    "FiLM": "film",
    "PaCo": "paco",
    "MUST": "must",
    "FAMO": "famo",
    "CAGrad": "cagrad",
    "multi-head SAC, width 1024": "multi_head_1024",
    "multi-head SAC, width 400": "multi_head_400",
    "PCGrad": "pcgrad",
}


def test_the_table_is_that_of_the_runs() -> None:
    table = (MT10 / "README.md").read_text().split("| method | success | at step")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    runs = find_runs([MT10 / "methods"])
    assert all(run.status == "finished" and run.protocol == "metaworld+" for run in runs)
    found = {row.label: row for row in compared([run.path for run in runs], {})}
    assert {NAMES[row[0]] for row in rows} == set(found)
    with (MT10.parent / "methods" / "h200.csv").open(newline="") as file:
        alone = {row["method"]: float(row["ms"]) for row in csv.DictReader(file)}
    alone["soft modules"] = alone["soft modules 2x2"]
    for name, success, step, iqm, _, minutes, rate, update, _ in rows:
        one = found[NAMES[name]]
        assert step == f"{one.step:,}"
        figures = [float(word) for word in re.findall(r"[.\d]+", success)]
        assert figures == pytest.approx([value for value in one.mean if not math.isnan(value)], abs=5e-4)
        assert float(iqm) == pytest.approx(one.iqm[0], abs=5e-4)
        assert float(minutes) == pytest.approx(one.minutes, abs=0.051)
        assert float(re.sub(",", "", rate)) == pytest.approx(one.rate, abs=0.6)
        if name.lower() in alone:
            assert float(update) == pytest.approx(alone[name.lower()], abs=5.1e-3)


def test_their_curves_and_costs_are_those_of_the_runs() -> None:
    script = runpy.run_path(str(MT10 / "keep_tables.py"))
    assert {folder.name for folder in script["FOLDERS"]} >= {path.parent.parent.name for path in MT10.rglob("seed_1")}
    for folder in script["FOLDERS"]:
        for path, text in script["tables"](folder).items():
            assert path.read_text() == text, path
    with (MT10 / "methods" / "curves.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["method"], row["seed"]) == ("care", "1")]
    assert [(row["step"], row["goals"]) for row in rows][-2:] == [("175000", "10"), ("200000", "50")]
    minutes = [float(row["minutes"]) for row in rows]
    assert minutes == sorted(minutes)
    of_tasks = [float(value) for value in list(rows[-1].values())[9:]]
    assert float(rows[-1]["success"]) == pytest.approx(sum(of_tasks) / len(of_tasks))


@pytest.mark.parametrize(("name", "title"), [("half_hour", "half an hour"), ("ten_minutes", "ten minutes")])
def test_mt50_is_that_of_its_runs(name: str, title: str) -> None:
    (run,) = find_runs([MT50 / "methods" / name])
    assert (run.status, run.protocol) == ("finished", "metaworld+")
    text = (MT50 / "README.md").read_text()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    column = lines[0].index(title)
    told = {line[0]: line[column] for line in lines[1:] if len(line) == 3}
    end, info = run.evaluations[-1], run.info
    assert told["success at the end, 50 goals per task"].startswith(f"**{end.success:.3f}**")
    counts = f"{info['step']:,}; {info['frames']:,}; {info['updates']:,}"
    assert told["steps of every task; env steps; updates"] == counts
    million = info["minutes"] * 1e6 / info["step"]
    rate = told["at this rate 1,000,000 steps of every task take; 2,000,000"]
    assert rate == f"{million:.0f} minutes; {2 * million:.0f}"
    table = text.split(f"| {title}: success at the end |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (\d\.\d\d) \| (\d+) \| (.*) \|$", table, re.MULTILINE)
    by_task = {task: float(success) for success, _, tasks in rows for task in tasks.split(", ")}
    assert all(int(count) == len(tasks.split(", ")) for _, count, tasks in rows)
    assert by_task == pytest.approx({task: score.success for task, score in end.per_task.items()}, abs=5e-3)


def test_what_only_one_run_of_mt50_solves() -> None:
    solved = {}
    for run in find_runs([MT50 / "methods"]):
        solved[run.config_name] = {t for t, score in run.evaluations[-1].per_task.items() if score.success >= 0.5}
    half, ten = solved["half_hour"], solved["ten_minutes"]
    text = (MT50 / "README.md").read_text()
    assert f"| in both | {len(half & ten)} |" in text
    for words, tasks in (("in half an hour alone", half - ten), ("in ten minutes alone", ten - half)):
        assert f"| {words} | {', '.join(sorted(tasks))} |" in text


def test_before_and_now() -> None:
    """What is told of runs whose values ran away, and of variants, is what they reached."""
    ends = {}
    for folder in ("before", "methods", "variants"):
        for run in find_runs([MT10 / folder]):
            ends[folder, run.config_name] = (run.evaluations[-1].success, run.evaluations[-1].step)
    text = " ".join((MT10 / "README.md").read_text().split("## Values that left their range")[1].split())
    before = [ends["before", name] for name in ("care", "film", "soft_modules", "must")]
    figures = re.search(r": (\.\d+) \(([\d,]+) steps\), (\.\d+) \(([\d,]+)\), (\.\d+) \(([\d,]+)\) and (\.\d+)\.", text)
    assert figures is not None
    assert [float(x) for x in figures.groups()[::2]] == pytest.approx([success for success, _ in before], abs=6e-3)
    assert [int(x.replace(",", "")) for x in figures.groups()[1::2]] == [step for _, step in before[:3]]
    for name, told in (("soft_eps", r"eps of 1e-5 \((\.\d+)\)"), ("must_once", r"update_end=40` \((\.\d+)\)")):
        found = re.search(told, text)
        assert found is not None
        assert float(found[1]) == pytest.approx(ends["variants", name][0], abs=6e-3)
    table = (MT10.parents[1] / "docs" / "comparison.md").read_text().split("| | success before | now |")[1]
    rows = re.findall(r"^\| ([\w ]+) \| (\.\d+)[^|]*\| (\.\d+) ", table, re.MULTILINE)
    assert len(rows) == 4
    for name, was, now in rows:
        key = name.lower().replace(" ", "_")
        assert float(was) == pytest.approx(ends["before", key][0], abs=6e-3)
        assert float(now) == pytest.approx(ends["methods", key][0], abs=6e-3)
