"""values.png: how far from zero the mean value of any task is, of runs in before/ and methods/ beside this file."""

from __future__ import annotations

import json
from pathlib import Path

from medley.reporting.style import INK, colour, dress, new_figure

HERE = Path(__file__).parent
METHODS = {"care": "CARE", "film": "FiLM", "soft_modules": "soft modules", "must": "MUST"}
BOUND = 1000  # ten per step, discounted by 0.99


def values(run: Path) -> tuple[list[float], list[float]]:
    """Thousands of steps, and the largest size of any task's mean value."""
    rows = [json.loads(line) for line in (run / "train.log").read_text().splitlines()]
    points = [(row["step"] / 1000, [abs(v) for k, v in row.items() if k.startswith("q_mean_")]) for row in rows]
    return [step for step, _ in points], [max(sizes) for _, sizes in points]


def main() -> None:
    figure = new_figure(7.2, 2.4)
    for place, (name, title) in enumerate(METHODS.items()):
        axes = figure.add_subplot(1, len(METHODS), place + 1)
        axes.axhline(BOUND, color=INK, linewidth=0.8, linestyle=":")
        for index, (folder, label) in enumerate((("before", "before"), ("methods", "now"))):
            axes.plot(*values(HERE / folder / name / "seed_1"), color=colour(index), linewidth=1.6, label=label)
        dress(axes, title)
        axes.set(yscale="log", ylim=(10, 2e7), xlabel="thousand steps", xticks=(0, 100, 200))
        if place:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel("largest |mean value|")
            axes.text(196, 1150, "largest return", fontsize=6.5, color=INK, ha="right", va="bottom")
            axes.legend(fontsize=7, frameon=False, loc="upper left")
    figure.savefig(HERE / "values.png")


if __name__ == "__main__":
    main()
