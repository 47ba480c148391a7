"""trials.png from trials.csv beside it: success over steps of every task, a line per trial and seed."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

from medley.reporting.style import INK, colour, dash, dress, new_figure

HERE = Path(__file__).parent
NAMES = {
    "one_step": "BRC, width 1024",
    "one_step_200": "… episodes of 200 steps",
    "three_steps_200": "… returns over three steps",
    "own_temperature": "… a temperature per task",
    "two_steps": "… returns over two steps",
    "default": "… labels of targets lag",
}


def main() -> None:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in csv.DictReader((HERE / "trials.csv").open()):
        if row["trial"] in NAMES:
            lines[row["trial"], row["seed"]].append((int(row["step"]) / 1000, 100 * float(row["success"])))
    figure = new_figure(6.4, 3.4)
    axes = figure.subplots()
    for (trial, seed), points in lines.items():
        index = list(NAMES).index(trial)
        style = {"color": colour(index), "linestyle": dash(6 * (int(seed) - 1)), "marker": "o", "markersize": 2.5}
        label = NAMES[trial] + (f", seed {seed}" if trial in ("own_temperature", "two_steps", "default") else "")
        axes.plot(*zip((0, 0), *points, strict=True), label=label, linewidth=1.7, **style)
    axes.axhline(74.8, color=INK, linewidth=0.8, linestyle=":")
    axes.text(
        432, 74, "multi-head SAC, width 400, after 2,000 (published)", fontsize=6.5, color=INK, ha="right", va="top"
    )
    dress(axes, "MT10, horizon 500, 50 goals per task (last four: 10, and 50 at the end)")
    axes.set(xlabel="thousand steps of every task", ylabel="success (%)", ylim=(0, 102))
    axes.legend(fontsize=7, handlelength=4, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.02))
    figure.savefig(HERE / "trials.png")


if __name__ == "__main__":
    main()
