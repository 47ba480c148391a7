"""methods.png and costs.png from methods/curves.csv and runs.csv: what each method reaches, when, and at which cost.

The cost of an update is that of the method alone on the GPU (results/methods/h200.csv, results/learner/README.md).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from medley.reporting.style import FAINT, INK, colour, dash, dress, new_figure

HERE = Path(__file__).parent
NAMES = {
    "medley_two_steps": "agent=medley",
    "brc_1024": "BRC 1024",
    "famo": "FAMO",
    "soft_modules": "soft modules",
    "care": "CARE",
    "cagrad": "CAGrad",
    "multi_head_1024": "multi-head 1024",
    "film": "FiLM",
    "moore": "MOORE",
    "paco": "PaCo",
    "t3s": "T3S",
    "multi_head_400": "multi-head 400",
    "pcgrad": "PCGrad",
    "must": "MUST",
}
ALONE = {"medley_two_steps": "brc_1024", "soft_modules": "soft modules 2x2"}  # named otherwise there, or not timed
IN_LEARNER = {"brc_1024": "BRC, two critics of two blocks of 1024", "multi_head_1024": "width 1024, bf16"}  # its README
Rows = list[dict[str, str]]


def update_costs() -> dict[str, float]:
    """Milliseconds per update; `agent=medley` has BRC's, and a temperature per task."""
    with (HERE.parent / "methods" / "h200.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    timed = {row["method"]: float(row["ms"]) for row in rows} | _in_learner()
    timed["multi_head_400"] = float(np.median([float(row["plain_ms"]) for row in rows]))
    return {method: timed[ALONE.get(method, method)] for method in NAMES}


def _in_learner() -> dict[str, float]:
    """What is timed in the table of results/learner/README.md."""
    text = (HERE.parent / "learner" / "README.md").read_text()
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    timed = {what.strip(): ms for what, ms, *_ in cells}
    return {m: float(next(ms for what, ms in timed.items() if what.startswith(row))) for m, row in IN_LEARNER.items()}


def update_ratios() -> dict[str, float]:
    """The same in terms of the multi-head network 400 wide, which was timed beside each, where it was."""
    with (HERE.parent / "methods" / "h200.csv").open(newline="") as file:
        timed = {row["method"]: float(row["ratio"]) for row in csv.DictReader(file)}
    plain = update_costs()["multi_head_400"]
    timed |= {method: ms / plain for method, ms in _in_learner().items()} | {"multi_head_400": 1.0}
    return {method: timed[ALONE.get(method, method)] for method in NAMES}


def read(name: str) -> Rows:
    with (HERE / "methods" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def lines(rows: Rows) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Of every method and seed: thousands of steps, minutes, success."""
    found: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        point = [int(row["step"]) / 1000, float(row["minutes"]), 100 * float(row["success"])]
        found[row["method"]][row["seed"]].append(point)
    return {m: {s: np.array([[0.0, 0.0, 0.0], *p]) for s, p in seeds.items()} for m, seeds in found.items()}


def spread(heights: list[float], room: float) -> list[float]:
    """Places for labels, from above, at least `room` apart and as near to their lines as that allows."""
    blocks: list[list[float]] = []  # of labels that touch one another: how high each would be, were it the first
    for i, height in enumerate(heights):
        blocks.append([height + i * room])
        while len(blocks) > 1 and np.mean(blocks[-1]) > np.mean(blocks[-2]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = [float(np.mean(block)) for block in blocks for _ in block]
    return [height - i * room for i, height in enumerate(level)]


def draw_curves() -> None:
    curves = lines(read("curves.csv"))
    figure = new_figure(9.4, 4.3)
    steps, clock = figure.subplots(1, 2, sharey=True)
    ends = []
    for index, method in enumerate(NAMES):
        seeds = list(curves[method].values())
        style = {"color": colour(index), "linestyle": dash(index), "linewidth": 2.2 if index < 2 else 1.4}
        together = np.mean([points[:, 2] for points in seeds], axis=0)
        at = seeds[0][:, 0]
        steps.plot(at, together, **style)
        if len(seeds) > 1:
            values = [points[:, 2] for points in seeds]
            steps.fill_between(at, np.min(values, 0), np.max(values, 0), color=colour(index), alpha=0.15, linewidth=0)
        for points in seeds:
            clock.plot(points[:, 1], points[:, 2], **style)
        ends.append((float(together[-1]), float(at[-1]), method, index))
    ends.sort(reverse=True)
    for (height, at, method, index), place in zip(ends, spread([e[0] for e in ends], 4.1), strict=True):
        tint = colour(index)
        steps.plot((at, 207), (height, place), color=FAINT, linewidth=0.7, clip_on=False)
        label = NAMES[method] + (", 3 seeds" if index < 2 else "")
        steps.text(208, place, label, color=tint, fontsize=7.5, va="center", clip_on=False)
    dress(steps, "by experience: seed 1, or mean and range of seeds 1 to 3")
    dress(clock, "by the clock, on a share of one H200 (every seed)")
    steps.set(xlabel="thousand steps of every task", ylabel="success, mean of ten tasks (%)", ylim=(0, 102))
    steps.set(xlim=(0, 250), xticks=range(0, 201, 50))
    clock.set(xlabel="minutes of training and evaluations", xlim=(0, 26))
    figure.savefig(HERE / "methods.png")


def draw_costs() -> None:
    ends: dict[str, list[float]] = defaultdict(list)
    size: dict[str, float] = {}
    for row in read("runs.csv"):
        ends[row["method"]].append(100 * float(row["success"]))
        size[row["method"]] = float(row["parameters"]) / 1e6
    costs = update_costs()
    figure = new_figure(6.4, 3.9)
    axes = figure.subplots()
    for index, method in enumerate(NAMES):
        x, y = costs[method], float(np.mean(ends[method]))
        if len(ends[method]) > 1:
            axes.plot((x, x), (min(ends[method]), max(ends[method])), color=colour(index), linewidth=1.2)
        axes.scatter(x, y, s=14 * size[method], color=colour(index), alpha=0.75, linewidths=0)
        beside = np.sqrt(14 * size[method]) / 2 + 2.5
        axes.annotate(
            NAMES[method], (x, y), (beside, 0), textcoords="offset points", fontsize=7.5, color=INK, va="center"
        )
    dress(axes, "MT10 after 200,000 steps of every task; areas: parameters (1.0 to 8.9 million)")
    axes.set(
        xlabel="milliseconds per update, alone on one H200", ylabel="success (%)", ylim=(40, 100), xlim=(0.35, 1.4)
    )
    figure.savefig(HERE / "costs.png")


if __name__ == "__main__":
    draw_curves()
    draw_costs()
