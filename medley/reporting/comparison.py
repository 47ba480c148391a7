"""Methods side by side: their final figures, how sure these are, what they cost, and in what they differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from medley.reporting import page, style
from medley.reporting.aggregates import Interval, aggregates
from medley.reporting.alignment import Aligned, align
from medley.reporting.differences import Difference, method_differences, protocol_differences, shown
from medley.reporting.runs import RunGroup, find_runs, group_runs
from medley.reporting.tables import interval

FEW = 5  # seeds below which a bootstrap interval is known to be too narrow


@dataclass(frozen=True)
class Row:
    """One method at its last common step."""

    label: str
    seeds: int
    step: int
    mean: Interval
    iqm: Interval
    worst: tuple[str, float]
    best: tuple[str, float]
    rate: float  # transitions per second of one run, over all tasks
    minutes: float


def compared(paths: Sequence[Path], labels: Mapping[Path, str] | None = None) -> list[Row]:
    """The rows of all methods that `paths` hold runs of."""
    groups = group_runs(find_runs(paths), labels)
    return [row(group, aligned) for group in groups if (aligned := align(group))]


def row(group: RunGroup, aligned: Aligned) -> Row:
    final = aligned.success[..., -1]
    averages, tasks = aggregates(final), final.mean(axis=0)
    order = np.argsort(tasks, kind="stable")
    minutes = [run.progress("minutes") for run in group.runs]
    frames = [run.progress("frames") for run in group.runs]
    rates = [f / (60 * m) if m > 0 else math.nan for f, m in zip(frames, minutes, strict=True)]
    return Row(
        aligned.label,
        len(aligned.seeds),
        int(aligned.steps[-1]),
        averages["mean"],
        averages["IQM"],
        (aligned.tasks[order[0]], float(tasks[order[0]])),
        (aligned.tasks[order[-1]], float(tasks[order[-1]])),
        float(np.mean(rates)),
        float(np.mean(minutes)),
    )


def console_table(rows: Sequence[Row]) -> Table:
    """For the terminal: as much as 80 columns hold."""
    steps = " or ".join(f"{step:,}" for step in sorted({r.step for r in rows}))
    # Text, not str: square brackets would be taken for rich's markup.
    title = Text(f"Success at step {steps} in %, with its 95 % interval over seeds")
    table = Table(title=title, caption=Text(_about(rows)), box=box.SIMPLE_HEAD)
    table.add_column("method", overflow="fold", min_width=12)
    for name in ("seeds", "mean", "IQM", "worst task", "steps/s", "min"):
        table.add_column(name, justify="right", no_wrap=name in ("mean", "IQM"))
    for r in rows:
        cells = [str(r.seeds), _value(r.mean), _value(r.iqm), _task(r.worst)]
        cells += [page.plain(r.rate), page.plain(r.minutes, 1)]
        table.add_row(Text(r.label), *map(Text, cells))
    return table


def methods_section(found: Sequence[tuple[RunGroup, Aligned]], folder: Path) -> list[str]:
    """The same on a page, and as `methods.csv`; the picture of these averages is the statistics' (`conclusions.py`)."""
    rows = [row(group, aligned) for group, aligned in found]
    _write(rows, folder / "methods.csv")
    cells = [
        [
            page.cell(r.label),
            page.cell(str(r.seeds)),
            page.bar(r.mean[0], interval(*r.mean[1:])),
            page.bar(r.iqm[0], interval(*r.iqm[1:])),
            _small(r.worst),
            _small(r.best),
            page.cell(page.plain(r.rate)),
            page.cell(page.plain(r.minutes, 1)),
        ]
        for r in rows
    ]
    header = ["method", "seeds", "mean success", "IQM success", "worst task", "best task", "steps/s", "minutes"]
    return [
        "<h2>Methods</h2>",
        page.table(header, cells),
        f'<p class="soft">{escape(_about(rows))}</p>',
    ]


def _write(rows: Sequence[Row], path: Path) -> None:
    header = ["method", "seeds", "step", "mean", "mean_low", "mean_high", "iqm", "iqm_low", "iqm_high"]
    header += ["worst_task", "worst", "best_task", "best", "steps_per_second", "minutes"]
    style.write_csv(
        path,
        header,
        [[r.label, r.seeds, r.step, *r.mean, *r.iqm, *r.worst, *r.best, float(r.rate), float(r.minutes)] for r in rows],
    )


def differences_section(groups: Sequence[RunGroup]) -> list[str]:
    """Options that differ: those of the protocol first, with a warning, then those that make the methods."""
    options = [group.runs[0].options for group in groups]
    if not all(options):
        return []
    labels = [group.label for group in groups]
    body = []
    if unfair := protocol_differences(options):
        body.append(page.note("The methods differ in more than themselves: these options should be the same."))
        body.append(_table(unfair, labels))
    if own := method_differences(options):
        body.append(f"<details><summary>Options of the methods</summary>{_table(own, labels)}</details>")
    return ["<h2>What differs</h2>", *body] if body else []


def _table(differences: Sequence[Difference], labels: Sequence[str]) -> str:
    rows = [[page.cell(d.option), *(page.cell(shown(value)) for value in d.values)] for d in differences]
    return page.table(["option", *labels], rows)


def _value(value: Interval) -> str:
    return " ".join(filter(None, [_percent(value[0]), interval(*value[1:])]))


def _task(task: tuple[str, float]) -> str:
    return f"{task[0]} {_percent(task[1])}"


def _percent(share: float) -> str:
    return page.percent(share).removesuffix(" %")


def _small(task: tuple[str, float]) -> str:
    return f"<td>{page.percent(task[1])} <small>{escape(task[0])}</small></td>"


def _about(rows: Sequence[Row]) -> str:
    text = "Steps/s: transitions of all tasks per second of a run, evaluations included; minutes are per run."
    fewest = min(r.seeds for r in rows)
    if fewest == 1:
        return f"{text} One seed says nothing about others: there is no interval."
    if fewest < FEW:
        return f"{text} Intervals of {fewest} seeds are too narrow: differences of their size may be chance."
    return text
