"""The last evaluation as a table: for the terminal, for one group of seeds, and for groups side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from medley.reporting import page
from medley.reporting.alignment import Aligned
from medley.reporting.runs import RunData


def final_table(run: RunData) -> Table:
    """The run's last evaluation, task by task, for the terminal."""
    # Text, not str: a name in square brackets would be taken for rich's markup.
    if not run.evaluations:
        return Table(title=Text(f"{run.env} {run.config_name} seed {run.seed}: no evaluation yet"))
    last = run.evaluations[-1]
    title = f"{run.env} {run.config_name} seed {run.seed}, step {last.step:,}"
    table = Table(title=Text(title), show_footer=True)
    rows = [(task, score.success, score.ret, score.episodes) for task, score in last.per_task.items()]
    table.add_column("task", footer="mean")
    table.add_column("success", justify="right", footer=page.percent(last.success))
    table.add_column("", footer="")
    table.add_column("return", justify="right", footer=page.plain(last.ret, 1))
    table.add_column("episodes", justify="right", footer="")
    for task, success, ret, episodes in rows:
        filled = 0 if math.isnan(success) else round(10 * min(max(success, 0.0), 1.0))
        table.add_row(
            Text(task),
            page.percent(success),
            Text("█" * filled, style="cyan") + Text("·" * (10 - filled), style="dim"),
            page.plain(ret, 1),
            "–" if episodes is None else str(episodes),
        )
    return table


def interval(low: float, high: float, scale: float = 100.0) -> str:
    """`[52, 61]`, or nothing where there is none."""
    return "" if math.isnan(low) else f"[{scale * low:.0f}, {scale * high:.0f}]"


def group_table(group: Aligned) -> str:
    """All tasks of one group at its last step."""
    rows = [
        [
            page.cell("mean"),
            page.bar(float(group.success_band.mean[-1])),
            page.cell(page.plain(float(group.return_band.mean[-1]), 1)),
            page.cell(""),
        ]
    ]
    for index, task in enumerate(group.tasks):
        band = group.task_band(task)
        episodes = group.episodes[index]
        rows.append(
            [
                page.cell(task),
                page.bar(float(band.mean[-1]), interval(float(band.mean_low[-1]), float(band.mean_high[-1]))),
                page.cell(page.plain(float(group.returns[:, index, -1].mean()), 1)),
                page.cell("–" if episodes is None else f"{episodes:,}"),
            ]
        )
    return page.table(["task", "success", "return", "episodes"], rows, totals=1)


def comparison_table(groups: Sequence[Aligned]) -> str:
    """A row per task and a column per group, averages first."""
    tasks = list(dict.fromkeys(task for group in groups for task in group.tasks))
    mean, middle = [page.cell("mean")], [page.cell("interquartile mean")]
    for group in groups:
        band = group.success_band
        mean.append(page.bar(float(band.mean[-1]), interval(float(band.mean_low[-1]), float(band.mean_high[-1]))))
        middle.append(page.bar(float(band.iqm[-1]), interval(float(band.iqm_low[-1]), float(band.iqm_high[-1]))))
    counts = [page.cell("seeds, at step")]
    counts += [page.cell(f"{len(group.seeds)}, at {int(group.steps[-1]):,}") for group in groups]
    rows = [mean, middle, counts]
    for task in tasks:
        cells = [page.cell(task)]
        for group in groups:
            if task in group.tasks:
                cells.append(page.bar(float(group.success[:, group.tasks.index(task), -1].mean())))
            else:
                cells.append(page.cell(""))
        rows.append(cells)
    return page.table(["success", *(group.label for group in groups)], rows, totals=2)
