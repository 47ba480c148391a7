"""The tables in results/mt10/README.md and results/mt50/README.md say what the runs beside them say."""

from __future__ import annotations

import csv
import math
import re
import runpy
from collections import defaultdict
from pathlib import Path

import pytest

from medley.files import read_json
from medley.reporting.comparison import compared
from medley.reporting.runs import find_runs
from medley.training.run import Run

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


def test_what_each_costs_is_what_the_runs_cost() -> None:
    """The table of docs/comparison.md."""
    text = (MT10.parents[1] / "docs" / "comparison.md").read_text()
    table = text.split("| after 200,000 steps of every task")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    curves, costs = defaultdict(list), defaultdict(list)
    for name, into in (("curves.csv", curves), ("runs.csv", costs)):
        with (MT10 / "methods" / name).open(newline="") as file:
            for row in csv.DictReader(file):
                into[row["method"]].append(row)
    updates = runpy.run_path(str(MT10 / "draw_methods.py"))["update_ratios"]()
    assert {_method(row[0]) for row in rows} == set(costs)
    for name, success, half, update, parameters, memory, _ in rows:
        method = _method(name)
        runs = costs[method]
        mean = sum(float(run["success"]) for run in runs) / len(runs)
        assert float(success.split()[0]) == pytest.approx(mean, abs=5.1e-4)
        assert ("three seeds" in name) == (len(runs) == 3)
        seen = {int(row["step"]) for row in curves[method] if row["seed"] == "1" and float(row["success"]) >= 0.5}
        assert half == (f"{min(seen):,}" if seen else "")
        assert (runs[0]["step"] == "200000") or f"({int(runs[0]['step']):,} steps)" in name
        if update != "as BRC":
            assert float(update) == pytest.approx(updates[method], abs=0.051)
        assert float(parameters) == pytest.approx(float(runs[0]["parameters"]) / 1e6, abs=0.051)
        assert float(memory) == pytest.approx(max(float(run["gpu_memory_gb"]) for run in runs), abs=0.051)


def _method(name: str) -> str:
    return NAMES[re.sub(r" \([\d,]+ steps\)", "", name)]


def test_parameters_are_those_of_the_agents() -> None:
    """Of those that take no seconds to make."""
    script = runpy.run_path(str(MT10 / "keep_run.py"))
    for name in ("multi_head_400", "soft_modules", "care", "moore"):
        run = MT10 / "methods" / name / "seed_1"
        info = read_json(run / "run.json")
        assert script["parameters"](Run(run).config(), info["tasks"]) == info["parameters"]


def test_how_many_opened_the_drawer() -> None:
    with (MT10 / "trials.csv").open(newline="") as file:
        rows = [row | {"method": row["trial"]} for row in csv.DictReader(file)]
    with (MT10 / "methods" / "curves.csv").open(newline="") as file:
        rows += [row for row in csv.DictReader(file) if row["method"] == "brc_1024"]
    one, two = ("one_step", "one_step_200", "brc_1024"), ("two_steps", "own_temperature_two_steps_short", "default")
    counts = {}
    for row in rows:
        steps = "one step" if row["method"] in one else "two steps" if row["method"] in two else "three steps"
        if row["step"] in ("50000", "100000"):
            counts.setdefault((steps, row["step"]), []).append(float(row["drawer-open"]) >= 0.5)
    text = (MT10.parents[1] / "docs" / "comparison.md").read_text()
    for steps in ("one step", "two steps", "three steps"):
        early, late = (counts[steps, at] for at in ("50000", "100000"))
        assert f"| {steps} | {sum(early)} of {len(early)} | {sum(late)} of {len(late)} |" in text


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
